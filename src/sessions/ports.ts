import type { NamedPlan } from '../protocol/named_plan.ts';
import type { PromptWarning } from '../protocol/prompt_warning.ts';
import type { ControlToEngine, ControlToMedia } from '../streams/messages.ts';
import type { ToStorage } from '../streams/storage_messages.ts';

/** The way to the engine, as a session sees it. Answers come through the registry. */
export interface EnginePort {
  /** False: the engine is gone, and no answer will come. */
  send(message: ControlToEngine): boolean;
}

export interface MediaPort {
  /** False: the media thread is gone, and no answer will come. */
  send(message: ControlToMedia): boolean;
}

export interface StoragePort {
  /** False: the storage thread is gone, and no answer will come. */
  send(message: ToStorage): boolean;
}

/** Reads a prompt as the model's program will, so that a prompt which can't be understood is refused before anything is begun or fenced by REST. */
export interface PromptReader {
  /**
   * What of the prompt has no effect. Pure, and fast enough for the control thread.
   * @throws {SegueError} prompt_not_understood
   */
  read(prompt: string): readonly PromptWarning[];
  /** @throws {SegueError} plan_not_usable */
  readPlan(plan: NamedPlan): void;
  /** A plan as the model's steps have it, in words. */
  describePlan(plan: Readonly<Record<string, number>>): { readonly words: string; readonly attributes: NamedPlan };
}

/** What the bearer of a client token may do in a session: steer it, speak to it, watch it. */
export const ROLES = ['drive', 'speak', 'watch'] as const;
export type Role = (typeof ROLES)[number];
