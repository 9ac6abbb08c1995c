/**
 * Everything that crosses threads, as one closed union per direction. Plain data only: bulk bytes travel in shared pools
 * and are named by slot. Three parties: control (main thread), engine, media. Executors speak `engine/workers/executor_messages.ts`.
 */
import type { MediaEvent } from './media_events.ts';
import type { MediaFormat, MediaTime90k } from './media_time.ts';
import type { SharedPoolDescriptor } from './shared_pool.ts';
import type { KeptRange } from './kept_range.ts';
import type { KeptChunk, KeptStory } from './storage_messages.ts';
import type { AppliedHow } from '../protocol/applied_how.ts';
import type { Degraded } from '../protocol/degraded.ts';
import type { ErrorBody } from '../protocol/errors.ts';
import type { PromptWarning } from '../protocol/prompt_warning.ts';
import type { NamedPlan } from '../protocol/named_plan.ts';
import type { VoiceOptions } from '../protocol/session_voice.ts';
import type { AdapterInForce, AdapterOffer } from '../protocol/session_adapter.ts';

export type { AppliedHow };

export interface SessionChannels {
  readonly words: SharedArrayBuffer;
  readonly video: SharedPoolDescriptor;
  readonly audio: SharedPoolDescriptor;
}

// ---------------------------------------------------------------- control ⇄ engine

/** A presented position, which means something in its epoch only. */
export interface PresentedIn {
  readonly epoch: number;
  readonly media90k: MediaTime90k;
}

export type ControlToEngine =
  | {
      readonly type: 'session.open';
      readonly sessionId: string;
      readonly model: string;
      readonly program: string;
      readonly seed: number;
      /** First prompt; null lets the model choose by seed. */
      readonly prompt: string | null;
      /** RGB of a picture that the story starts from, of the format's size, row by row; shared, so it isn't copied on its way to the executor. */
      readonly image: SharedArrayBuffer | null;
      /** Adapter from the first generated chunk on. */
      readonly adapter?: AdapterInForce | null;
      /** What the story begins with where nothing else says so: attributes by name. A prompt edits them. */
      readonly plan?: NamedPlan;
      /** Of a program that takes a video in: the noise level that it is made anew from, above 0, at most 1. */
      readonly strength?: number;
      readonly channels: SessionChannels;
      /** Scheduling class of the session: who shares a reserve. */
      readonly tenant: string;
      /** Goes on with a story that was kept, instead of beginning one. */
      readonly story?: KeptStory;
      /** A stretch of a kept story that it plays again, where its program does. */
      readonly replay?: KeptRange;
      /** Goes on with another live session's past, whose memory it shares, from its newest version at or before `to90k`. Refused with `not_kept` where that isn't in memory: it may be on disk. */
      readonly fork?: { readonly from: string; readonly to90k: MediaTime90k };
      /** Of its future, where another session has the same past; with `story`, `fork`, or from the beginning. */
      readonly lineage?: number;
    }
  | EngineRequest
  /** The answer to `story.wanted`: what is kept up to there; null: the story's beginning. */
  | { readonly type: 'session.story'; readonly sessionId: string; readonly requestId: string; readonly story: KeptStory | null; readonly error?: ErrorBody }
  /** What is being typed, worked on where there is time; the newest counts, null drops it. Changes nothing that is shown. */
  | { readonly type: 'session.draft'; readonly sessionId: string; readonly draftId: string; readonly prompt: string | null; readonly seamless: boolean }
  /** `presented`: as its clients were told; what is kept reaches that far. */
  | { readonly type: 'session.close'; readonly sessionId: string; readonly presented?: PresentedIn }
  /** What is held of a frame that is in no whole chunk on disk yet; answered by `frame.found`. */
  | { readonly type: 'frame.find'; readonly request: number; readonly sessionId: string; readonly media90k: MediaTime90k }
  /** A frame of a kept chunk, by its index in it, decoded again in the time that live media leaves; answered by `frame.decoded`. */
  | { readonly type: 'frame.decode'; readonly request: number; readonly program: string; readonly chunk: KeptChunk; readonly frame: number }
  /** What lies in the model's directory is to take the place of the weights that serve; answered by `model.reloaded`. */
  | { readonly type: 'model.reload'; readonly request: number }
  /** Answered by `engine.drained` when no unit is in flight and no session is open. */
  | { readonly type: 'engine.drain' }
  /** Test mode only: makes the next unit of a session fail, hang or come back late. */
  | { readonly type: 'fault.inject'; readonly sessionId: string; readonly fault: InjectedFault };

export type InjectedFault = 'kernel_exception' | 'runtime_error' | 'executor_hang';

/** A request after the media thread has fenced it (where it fences) and the control thread has accepted it. */
export type EngineRequest = {
  readonly type: 'session.request';
  readonly sessionId: string;
  readonly requestId: string;
  /** The epoch that this request belongs to: raised for it if it fences, else the one in force. */
  readonly epoch: number;
  readonly conditioningVersion: number;
} & (
  | { readonly request: 'interrupt'; readonly presented90k: MediaTime90k }
  /**
   * `seamless` does not fence: old frames flow until the new ones are there, and nothing is rewound. Prompt (null), plan and adapter (undefined) may be left
   * as they were last asked for, but not all. A plan sets attributes by name; a prompt beside it edits what they make.
   */
  | { readonly request: 'redirect'; readonly prompt: string | null; readonly plan?: NamedPlan; readonly adapter?: AdapterInForce | null; readonly seamless: boolean; readonly presented90k: MediaTime90k }
  /** As a redirect that fences, without the picture that came before. */
  | { readonly request: 'cut'; readonly prompt: string; readonly presented90k: MediaTime90k }
  /** As a seamless redirect, by degrees over so many chunks. */
  | { readonly request: 'blend'; readonly prompt: string; readonly chunks: number }
  /**
   * Fences: the story goes on from the newest version at or before `to90k`, as another future, under what was in force there. `to90k` is at most what was presented.
   * `exact`: with the bits that it had, also where it has to be computed again.
   */
  | { readonly request: 'rewind'; readonly to90k: MediaTime90k; readonly exact: boolean; readonly presented90k: MediaTime90k }
  /** Nothing is begun, and nothing is given up, until `release`, something that interrupts, or `HOLD_LIMIT_MS`. */
  | { readonly request: 'hold' }
  | { readonly request: 'release' }
  | { readonly request: 'pause' }
  | { readonly request: 'resume' }
  /** The word was raised but the request it was raised for is void (a duplicate by another way): go on, under the new epoch. */
  | { readonly request: 'adopt'; readonly presented90k: MediaTime90k }
);

export type EngineToControl =
  | { readonly type: 'engine.ready'; readonly card: EngineCard }
  | { readonly type: 'engine.failed'; readonly error: ErrorBody }
  | { readonly type: 'engine.drained' }
  /**
   * `kept`: its story goes to the storage thread, which says how far it is on disk.
   * `resumedExactly`: of a story that was kept; whether it goes on with the same bits as if it had never stopped.
   * `at90k`: where a story goes on that was kept, or that is another's; `whole90k`: up to where it can be gone on from again, before that inside a chunk.
   */
  | { readonly type: 'session.opened'; readonly sessionId: string; readonly format: MediaFormat; readonly kept?: boolean; readonly resumedExactly?: boolean; readonly at90k?: MediaTime90k; readonly whole90k?: MediaTime90k }
  | { readonly type: 'session.refused'; readonly sessionId: string; readonly error: ErrorBody }
  | {
      readonly type: 'request.applied';
      readonly sessionId: string;
      readonly requestId: string;
      readonly how: AppliedHow;
      readonly epoch: number;
      readonly conditioningVersion: number;
      /** First chunk, step and media time that show it. */
      readonly chunk: number;
      readonly step: number;
      readonly media90k: MediaTime90k;
      /** From the request's arrival at the engine to its first changed frame handed to media: as predicted, and as it was. */
      readonly predictedMs: number | null;
      readonly elapsedMs: number;
      /** What of the prompt had no effect. */
      readonly warnings: readonly PromptWarning[];
      /** Of a redirect, a cut or a blend: the adapter that its media is made with. */
      readonly adapter?: AdapterInForce | null;
    }
  /** A blend's last chunk is there. */
  | { readonly type: 'request.completed'; readonly sessionId: string; readonly requestId: string; readonly epoch: number; readonly conditioningVersion: number; readonly chunk: number; readonly media90k: MediaTime90k }
  /** A hold that nobody ended has ended itself. */
  | { readonly type: 'hold.expired'; readonly sessionId: string; readonly requestId: string }
  | { readonly type: 'request.superseded'; readonly sessionId: string; readonly requestId: string; readonly by: string }
  | { readonly type: 'request.failed'; readonly sessionId: string; readonly requestId: string; readonly error: ErrorBody }
  | {
      readonly type: 'text';
      readonly sessionId: string;
      readonly requestId: string | null;
      readonly stream: 'plan' | 'narration';
      readonly text: string;
      /** Of a plan: the same by attribute name. */
      readonly attributes?: NamedPlan;
      readonly complete: boolean;
      /** It takes the place of the pieces before, instead of going on with them. */
      readonly whole?: true;
      readonly epoch: number;
    }
  /** What a draft would come to, in the model's words. */
  | { readonly type: 'draft.preview'; readonly sessionId: string; readonly draftId: string; readonly plan: string; readonly warnings: readonly PromptWarning[] }
  | { readonly type: 'session.committed'; readonly sessionId: string; readonly epoch: number; readonly media90k: MediaTime90k; readonly chunk: number }
  /** A rewind goes further back than what is in memory: what is kept up to there is wanted. With a snapshot that leads there where it is to be `exact`. */
  | { readonly type: 'story.wanted'; readonly sessionId: string; readonly requestId: string; readonly to90k: MediaTime90k; readonly exact: boolean }
  /** The story goes on from an earlier version, as `branch`; `presented90k` had been presented. `request.applied` follows. */
  /** `whole90k`: up to where it can be gone on from if nothing more comes of the branch; before `media90k` where that is inside a chunk. */
  | { readonly type: 'session.rewound'; readonly sessionId: string; readonly requestId: string; readonly epoch: number; readonly media90k: MediaTime90k; readonly presented90k: MediaTime90k; readonly whole90k: MediaTime90k; readonly branch: number }
  /** The storage can't follow: what is kept of the story has a gap from this chunk on; null: it goes on again. */
  | { readonly type: 'session.keeping'; readonly sessionId: string; readonly behindFromChunk: number | null; readonly reason?: string }
  /** A unit failed; `fatal` says whether the session goes on from committed state. */
  | { readonly type: 'session.fault'; readonly sessionId: string; readonly error: ErrorBody; readonly fatal: boolean }
  /** The device can't hold all its deadlines: what the session goes without; null: nothing any more. */
  | { readonly type: 'session.degraded'; readonly sessionId: string; readonly degraded: Degraded | null }
  /** What the session has taken of devices since it was opened here, and how many of its pictures were late. Once a second, where it has changed. */
  | { readonly type: 'session.usage'; readonly sessionId: string; readonly deviceMs: number; readonly lateFrames: number }
  | { readonly type: 'session.closed'; readonly sessionId: string }
  | { readonly type: 'frame.found'; readonly request: number; readonly chunk: KeptChunk | null }
  /** RGB row by row, or why not. */
  | { readonly type: 'frame.decoded'; readonly request: number; readonly rgb?: Uint8Array; readonly error?: ErrorBody }
  | { readonly type: 'model.reloaded'; readonly request: number; readonly reloaded?: ReloadedWeights; readonly error?: ErrorBody }
  | { readonly type: 'trace'; readonly events: readonly TraceEvent[] }
  | { readonly type: 'engine.stats'; readonly stats: EngineStats };

/** Weights that serve since a reload. */
export interface ReloadedWeights {
  readonly weightsVersion: string;
  /** The same where nothing has changed. */
  readonly previous: string;
  /** Live sessions that went on with them. */
  readonly sessions: number;
  /** From when the first of them waited between two chunks to when all went on. */
  readonly heldMs: number;
}

export interface EngineCard {
  readonly modelId: string;
  /** That serve now: everybody reads it here, and a reload replaces it. */
  weightsVersion: string;
  readonly fingerprint: string;
  readonly format: MediaFormat;
  readonly framesPerChunk: number;
  /** Sessions that admission will take with the measured costs. */
  readonly maxSessions: number;
  readonly deviceSecondsPerSecond: number;
  readonly cost: readonly { readonly shapeKey: string; readonly component: string; readonly batch: number; readonly p50Ms: number; readonly p95Ms: number }[];
  readonly vocabulary: readonly string[];
  /** Adapters that sessions may ask for. */
  readonly adapters?: readonly AdapterOffer[];
  readonly programs?: readonly ProgramCard[];
}

/** A live program as its engine runs it. */
export interface ProgramCard {
  readonly id: string;
  /** Its sessions make anew what their driver's camera sends. */
  readonly takesVideo: boolean;
  /** What interruption means in each loop, by node of the program. */
  readonly interruption: Readonly<Record<string, { readonly unit: string; readonly interrupt: string; readonly redirect: string; readonly says: string }>>;
}

export interface EngineStats {
  readonly sessions: number;
  readonly unitsExecuted: number;
  readonly unitsDiscarded: number;
  readonly unitsFailed: number;
  readonly deadlinesMissed: number;
  /** How often a spare executor went on for one that stopped answering. */
  readonly executorTakeovers: number;
  readonly deviceBusyMs: number;
  readonly blocksLive: number;
  readonly blockBytes: number;
  /** Chunks handed to the storage thread, and what that took of the engine thread: together, and the longest. */
  readonly keptChunks?: number;
  readonly keepingMs?: number;
  readonly keepingMaxMs?: number;
}

/** One event of the trace; categories and ids as the architecture names them. Times: monotonic ms. */
export interface TraceEvent {
  readonly type: 'trace.step' | 'trace.cache' | 'trace.transfer' | 'trace.scheduler';
  readonly name: string;
  readonly atMs: number;
  readonly durationMs?: number;
  readonly sessionId?: string;
  readonly requestId?: string;
  readonly programId?: string;
  readonly loopId?: string;
  readonly modelId?: string;
  readonly modelInstanceId?: string;
  /** Of weights, and of whatever else the event depends on. */
  readonly versions?: Readonly<Record<string, string>>;
  readonly workerId?: string;
  /** Pool of executors that the worker is in. */
  readonly roleId?: string;
  readonly traceId?: string;
  readonly epoch?: number;
  readonly chunk?: number;
  readonly step?: number;
  readonly args?: Readonly<Record<string, string | number | boolean>>;
}

// ---------------------------------------------------------------- engine ⇄ media (direct port)

export type EngineToMedia = MediaEvent;

export type MediaToEngine =
  /** What the driver is known to have seen; monotone within an epoch, already clamped. */
  | { readonly type: 'media.presented'; readonly sessionId: string; readonly epoch: number; readonly media90k: MediaTime90k }
  /** Held input changed: what is unsent may be made anew under it. */
  | { readonly type: 'media.action'; readonly sessionId: string }
  /** The presentation anchor moved (first frame, underrun, release): deadlines must be read anew. */
  | { readonly type: 'media.anchored'; readonly sessionId: string }
  /** A chunk of the video that a session takes in: RGB of each of its frames, of the format's size, row by row. */
  | { readonly type: 'media.frames'; readonly sessionId: string; readonly frames: readonly SharedArrayBuffer[] };

// ---------------------------------------------------------------- control ⇄ media

export type ChannelLabel = 'control' | 'input' | 'state';

export type ControlToMedia =
  | { readonly type: 'session.open'; readonly sessionId: string; readonly channels: SessionChannels; readonly format: MediaFormat; readonly stamp: boolean; readonly voice?: VoiceOptions; readonly takesVideo?: { readonly framesPerChunk: number }; readonly from90k?: MediaTime90k; readonly stopped?: boolean }
  | { readonly type: 'session.close'; readonly sessionId: string; readonly reason: string }
  /**
   * `drives` (default true): whether its requests, actions and positions count. A watcher's are not obeyed, and never fence.
   * `speaks` (default as `drives`): whether its microphone is listened to.
   */
  | { readonly type: 'connection.offer'; readonly sessionId: string; readonly connectionId: string; readonly sdp: string; readonly drives?: boolean; readonly speaks?: boolean }
  | { readonly type: 'connection.candidate'; readonly sessionId: string; readonly connectionId: string; readonly candidate: IceCandidate | null }
  /** A connection whose encoded media and messages go back to the control thread (WebSocket). */
  | { readonly type: 'connection.relay'; readonly sessionId: string; readonly connectionId: string; readonly drives?: boolean; readonly speaks?: boolean }
  /** A VP8 frame of a relayed connection's camera. */
  | { readonly type: 'connection.video'; readonly sessionId: string; readonly connectionId: string; readonly data: Uint8Array }
  /** Samples of a relayed connection's microphone: 16 bits, little endian, mono, 16 kHz. */
  | { readonly type: 'connection.voice'; readonly sessionId: string; readonly connectionId: string; readonly data: Uint8Array }
  /** The receiver of this connection lost a picture: the next one it gets should be a keyframe (rate-limited). */
  | { readonly type: 'connection.keyframe'; readonly sessionId: string; readonly connectionId: string }
  | { readonly type: 'connection.close'; readonly sessionId: string; readonly connectionId: string }
  /** So many `relay.media` of the connection were taken; bounds what is under way to a control thread that is blocked. */
  | { readonly type: 'relay.taken'; readonly sessionId: string; readonly connectionId: string; readonly count: number }
  | { readonly type: 'channel.send'; readonly sessionId: string; readonly connectionId: string; readonly channel: ChannelLabel; readonly text: string }
  /** A message that came in by WebSocket or REST: handled exactly as if it had come over a data channel. */
  | { readonly type: 'channel.inject'; readonly sessionId: string; readonly connectionId: string | null; readonly channel: ChannelLabel; readonly text: string }
  | { readonly type: 'media.drain' };

export interface IceCandidate {
  readonly candidate: string;
  readonly sdpMid: string | null;
  readonly sdpMLineIndex: number | null;
}

export type MediaToControl =
  | { readonly type: 'media.ready' }
  | { readonly type: 'media.drained' }
  | { readonly type: 'connection.answer'; readonly sessionId: string; readonly connectionId: string; readonly sdp: string }
  | { readonly type: 'connection.failed'; readonly sessionId: string; readonly connectionId: string; readonly error: ErrorBody }
  | { readonly type: 'connection.state'; readonly sessionId: string; readonly connectionId: string; readonly state: 'connecting' | 'connected' | 'disconnected' | 'closed' }
  | {
      readonly type: 'channel.message';
      readonly sessionId: string;
      readonly connectionId: string | null;
      readonly channel: ChannelLabel;
      readonly text: string;
      /** Set where the media thread fenced for this message; the same id fences once. */
      readonly fencedEpoch: number | null;
      /** Set with `fencedEpoch`: what the driver had seen, and by whose word. */
      readonly held: HeldPosition | null;
    }
  | { readonly type: 'media.position'; readonly sessionId: string; readonly epoch: number; readonly sent90k: MediaTime90k; readonly presented90k: MediaTime90k }
  /** First frame of an epoch left the server. */
  | { readonly type: 'media.flowing'; readonly sessionId: string; readonly epoch: number; readonly media90k: MediaTime90k }
  /** What a connection sent can't be used; it stands all the same. */
  | { readonly type: 'connection.trouble'; readonly sessionId: string; readonly connectionId: string; readonly error: ErrorBody }
  /** Somebody begins to speak, or nobody speaks any more. */
  | { readonly type: 'voice.speaking'; readonly sessionId: string; readonly speaking: boolean }
  | { readonly type: 'relay.text'; readonly sessionId: string; readonly connectionId: string; readonly channel: ChannelLabel; readonly text: string }
  | { readonly type: 'relay.media'; readonly sessionId: string; readonly connectionId: string; readonly kind: 'video' | 'audio'; readonly epoch: number; readonly rtp: number; readonly key: boolean; readonly bytes: Uint8Array }
  /** Bytes of media that the session has sent since it was opened here. Once a second, where it has changed. */
  | { readonly type: 'media.usage'; readonly sessionId: string; readonly sentBytes: number }
  | { readonly type: 'media.stats'; readonly stats: MediaStats };

export interface HeldPosition {
  readonly media90k: MediaTime90k;
  readonly source: 'client' | 'estimate';
}

export interface MediaStats {
  readonly sessions: number;
  readonly connections: number;
  readonly framesSent: number;
  readonly framesRepeated: number;
  readonly framesFenced: number;
  /** Packets first sent after a fence with an older epoch: the product's promise is that this stays 0. */
  readonly stalePackets: number;
  readonly packetsSent: number;
  readonly bytesSent: number;
  readonly keyFrames: number;
  readonly encodeMsTotal: number;
  /** Frames whose successor was due as well, or that no keyframe could be sent for. */
  readonly framesSkipped?: number;
  /** Times a frame was due and none was there. */
  readonly underruns?: number;
  readonly fences?: number;
  readonly messagesRefused?: number;
  /** `relay.media` not sent because the control thread had not taken those before. */
  readonly relayDropped?: number;
  /** Packets of microphones that were dropped because they could not be judged in time. */
  readonly voiceDropped?: number;
  /** How often the thread that judges voices was lost and started again. */
  readonly voiceRestarts?: number;
  /** VP8 frames of cameras that were dropped before they were decoded. */
  readonly intakeDropped?: number;
  /** Largest skew of sound and picture at the source since the last report, milliseconds. */
  readonly lipSyncMaxMs?: number;
  /** Largest delay from a frame's due time to its packets, milliseconds, since the last report. */
  readonly lateMaxMs?: number;
}
