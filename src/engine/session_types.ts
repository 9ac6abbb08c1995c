import type { Degraded } from '../protocol/degraded.ts';
import type { SegueError } from '../protocol/errors.ts';
import type { NamedPlan } from '../protocol/named_plan.ts';
import type { PromptWarning } from '../protocol/prompt_warning.ts';
import type { AdapterInForce } from '../protocol/session_adapter.ts';
import type { ChunkEvents } from '../streams/media_events.ts';
import type { MediaTime90k } from '../streams/media_time.ts';
import type { AppliedHow } from '../streams/messages.ts';

export interface SessionOptions {
  /** A live program of the engine; default its first. */
  readonly program?: string;
  /** What it begins with; default: the model chooses by seed. */
  readonly prompt?: string | null;
  /** A picture that the story starts from: RGB of the model's size, row by row. */
  readonly image?: SharedArrayBuffer | null;
  /** A style that its generated frames are made in, by id of the card's `adapters`. */
  readonly adapter?: AdapterInForce | null;
  /** Attributes by name that the story begins with; a prompt edits them. */
  readonly plan?: NamedPlan;
  /** Of a program that takes a video in: the noise level that it is made anew from, above 0, at most 1. */
  readonly strength?: number;
  readonly seed?: number;
  /** Frames that may wait for you, 24 to 64; default 24, as the server has. When they are there nothing more is made. */
  readonly buffer?: number;
  /** Closes the session. */
  readonly signal?: AbortSignal;
}

/** What a session gives whoever iterates over it: copies, yours to keep. */
export type SessionEvent =
  | SessionFrame
  | { readonly type: 'text'; readonly stream: 'plan' | 'narration'; readonly requestId: string | null; readonly text: string; readonly attributes?: NamedPlan; /** Nothing more of this text comes. */ readonly complete: boolean; /** It takes the place of the pieces before. */ readonly whole?: true }
  /** The device can't hold all deadlines: what the session goes without; null: nothing any more. */
  | { readonly type: 'degraded'; readonly degraded: Degraded | null }
  /** A unit failed; the session goes on from what was committed. */
  | { readonly type: 'fault'; readonly error: SegueError }
  /** So many events other than frames were dropped, oldest first, because nobody took them. */
  | { readonly type: 'dropped'; readonly events: number };

export interface SessionFrame {
  readonly type: 'frame';
  /** RGB, `width × height × 3` bytes. */
  readonly pixels: Uint8Array;
  /** Mono, signed 16 bit. */
  readonly samples: Int16Array;
  /** Position in the story, in 1/90,000 s. */
  readonly start90k: MediaTime90k;
  readonly end90k: MediaTime90k;
  readonly chunk: number;
  readonly frameInChunk: number;
  readonly origin: 'seed' | 'generated';
  readonly epoch: number;
  readonly conditioningVersion: number;
  readonly actionSequence: number;
  /** Ids of the requests whose effect begins, holds or ends with this frame's chunk. */
  readonly requests: ChunkEvents;
}

export type RequestOutcome =
  /** From `media90k` on it shows, or is in force. */
  | { readonly outcome: 'applied'; readonly how: AppliedHow; readonly chunk: number; readonly step: number; readonly media90k: MediaTime90k; readonly elapsedMs: number; readonly warnings: readonly PromptWarning[] }
  /** A later request took its place. */
  | { readonly outcome: 'superseded'; readonly by: string };

export interface SessionRequest {
  readonly id: string;
  /** Frames of an older epoch are not given any more. */
  readonly epoch: number;
  /** Rejects with the SegueError that a request failed with. */
  readonly answer: Promise<RequestOutcome>;
}
