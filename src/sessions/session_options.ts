import type { Clock } from '../observe/clock.ts';
import type { Logger } from '../observe/log.ts';
import type { NamedPlan } from '../protocol/named_plan.ts';
import type { PromptWarning } from '../protocol/prompt_warning.ts';
import type { AdapterInForce } from '../protocol/session_adapter.ts';
import type { VoiceOptions } from '../protocol/session_voice.ts';
import type { EngineCard } from '../streams/messages.ts';
import type { KeptStory } from '../streams/storage_messages.ts';
import type { MediaTime90k } from '../streams/media_time.ts';
import type { NumberedTurn, Turn } from './memory_turn.ts';
import type { EnginePort, MediaPort, PromptReader, Role } from './ports.ts';
import type { SessionArchive } from './SessionArchive.ts';
import type { Budget } from './SessionBudget.ts';
import type { SessionReturn } from './session_return.ts';

export interface SessionLimits {
  /** Without a request or a change of action: then the session closes. */
  readonly idleMs: number;
  /** How long before that it says so. */
  readonly idleWarningMs: number;
  /** Without a connection: kept this long. */
  readonly orphanMs: number;
  /** What it may use up. */
  readonly budget: Budget;
}

/** What a session that goes on with another's past begins with. */
export interface SessionFork {
  readonly from: string;
  readonly to90k: MediaTime90k;
  readonly lineage: number;
  /** Of the other's memory, what was in force at a moment. */
  readonly turnsAt: (media90k: MediaTime90k) => readonly NumberedTurn[];
  /** As it is kept; undefined: the other is live, and shares what it has in memory; null: its beginning. */
  readonly story?: KeptStory | null;
}

export interface ForkWish {
  /** Undefined: what is presented. */
  readonly media90k?: MediaTime90k | undefined;
  readonly ticket?: string | undefined;
  readonly roles: readonly Role[];
}

export interface MadeFork {
  readonly session: string;
  readonly clientToken: string;
  readonly expiresAt: string;
  readonly media90k: MediaTime90k;
  /** Nobody was told of it after all. */
  readonly abandon: () => void;
}

export interface SessionOptions {
  readonly id: string;
  readonly card: EngineCard;
  readonly program: string;
  readonly seed: number;
  readonly prompt: string | null;
  /** RGB of a picture that the story starts from, of the model's size. */
  readonly image: SharedArrayBuffer | null;
  readonly adapter?: AdapterInForce | null;
  /** Attributes that the story begins with; `prompt` edits them. */
  readonly plan?: NamedPlan | null;
  /** Turns of another session that it goes on from. */
  readonly memory?: readonly Turn[];
  /** What of `prompt` has no effect. */
  readonly promptWarnings: readonly PromptWarning[];
  readonly tenant: string;
  readonly stamp: boolean;
  readonly voice: VoiceOptions;
  /** It makes anew what its driver's camera sends; from which noise level on, where it was asked for. */
  readonly transform?: { readonly strength?: number } | null;
  /** Leaving on purpose ends the session, instead of keeping it for a rejoin: nobody else can come back to it. */
  readonly endsOnLeave: boolean;
  readonly limits: SessionLimits;
  readonly engine: EnginePort;
  readonly media: MediaPort;
  readonly prompts: PromptReader;
  readonly clock: Clock;
  readonly log: Logger;
  /** Where it is kept; null: nowhere. */
  readonly archive: SessionArchive | null;
  /** It was there before, in another process: what it goes on from. */
  readonly returning: { readonly from: SessionReturn; readonly story: KeptStory } | null;
  /** It goes on with another session's past. */
  readonly forked?: SessionFork | null;
  /** Makes a session that goes on with this one's past, for whoever has `roles` in it; absent where nobody can. */
  readonly fork?: (sessionId: string, wish: ForkWish) => Promise<MadeFork>;
  /** Each last answer to a request, for the metrics. */
  readonly onSettled?: (kind: string, answer: string, elapsedMs: number) => void;
}
