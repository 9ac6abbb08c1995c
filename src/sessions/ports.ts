import type { ControlToEngine, ControlToMedia } from '../streams/messages.ts';

/** The way to the engine, as a session sees it. Answers come through the registry. */
export interface EnginePort {
  /** False: the engine is gone, and no answer will come. */
  send(message: ControlToEngine): boolean;
}

export interface MediaPort {
  /** False: the media thread is gone, and no answer will come. */
  send(message: ControlToMedia): boolean;
}

/** What the bearer of a client token may do in a session: steer it, speak to it, watch it. */
export const ROLES = ['drive', 'speak', 'watch'] as const;
export type Role = (typeof ROLES)[number];
