/**
 * What crosses between the storage thread and its two writers (control and engine), and what is read back of a session. Plain data only;
 * tensors travel as buffers that are handed over, never shared while they are written.
 */
import type { ErrorBody } from '../protocol/errors.ts';
import type { KeptRange } from './kept_range.ts';
import type { MediaTime90k } from './media_time.ts';

/** What a program's state is made of, as text: a JSON object of the program's own. */
export type KeptData = string;

/** A float32 tensor, little-endian, rows first. */
export interface KeptTensor {
  readonly name: string;
  readonly dims: readonly number[];
  readonly data: ArrayBuffer | SharedArrayBuffer;
}

/** Where results are bit-equal: everything that has to be the same for a recomputation to give the same bits. */
export interface StoryFingerprint {
  readonly modelId: string;
  readonly weightsVersion: string;
  readonly adapterVersions: Readonly<Record<string, string>>;
  /** Machine and runtime. */
  readonly machine: string;
}

/** A session as it was created. */
export interface KeptSession {
  readonly sessionId: string;
  /** Calendar time, ISO 8601. */
  readonly createdAt: string;
  readonly program: string;
  readonly seed: number;
  readonly prompt: string | null;
  /** Of a fork: which future of its parent's past it is. */
  readonly lineage?: number;
  /** RGB of the picture that it started from. */
  readonly image: ArrayBuffer | SharedArrayBuffer | null;
  readonly fingerprint: StoryFingerprint;
  /** The rest of its options, as the control side wants them back; a JSON object. */
  readonly options: KeptData;
}

export interface KeptEvent {
  readonly sequence: number;
  readonly type: string;
  readonly at: string;
  readonly data: KeptData;
}

/** A request from its acceptance on; written again with every answer. */
export interface KeptRequest {
  readonly requestId: string;
  readonly kind: string;
  /** The message as it came, JSON. */
  readonly body: KeptData;
  readonly epoch: number;
  readonly conditioningVersion: number;
  /** Answers given so far, a JSON array. */
  readonly answers: KeptData;
  readonly done: boolean;
}

/** A turn of the prompt memory, by its number since the session began; written again when it changes. */
export interface KeptTurn {
  readonly ordinal: number;
  readonly turn: KeptData;
}

/** Where a chunk was made; beside the program's own data, as `origin`. */
export interface ChunkOrigin {
  readonly weightsVersion: string;
  /** Machine and runtime: where a recomputation gives the same bits. */
  readonly machine: string;
  /** Epoch that each of its frames went out in. */
  readonly epochs: readonly number[];
  /** Weights that each of its frames was made by, where they aren't all the same. */
  readonly frameWeights?: readonly string[];
}

/** A committed chunk of a branch: what it was made from and what came of it. The program's `data` holds every step, frame and noise counter. */
export interface KeptChunk {
  readonly chunk: number;
  /** Media time of its first and behind its last frame. */
  readonly start90k: MediaTime90k;
  readonly end90k: MediaTime90k;
  readonly epoch: number;
  readonly conditioningVersion: number;
  readonly data: KeptData;
  readonly tensors: readonly KeptTensor[];
}

/** All that a state at the end of a chunk holds with the executor beside what its chunk record has. */
export interface KeptSnapshot {
  readonly chunk: number;
  readonly data: KeptData;
  readonly tensors: readonly KeptTensor[];
}

/** A future of a story: what is kept of it from where it leaves another on. The first is 0 and leaves none. */
export interface KeptBranch {
  /** Rises by one per branch of the session. */
  readonly branch: number;
  readonly parent: number;
  /** The first chunk of its own; with `from90k` inside of it, frames before that are the parent's. */
  readonly fromChunk: number;
  readonly from90k: MediaTime90k;
  /** What had been presented of the parent when it was left. */
  readonly left90k: MediaTime90k;
  /** The rewind that made it. */
  readonly requestId: string;
  readonly epoch: number;
  /** Which future of the story it is: with seed and number all noise of its chunks follows from it. Absent: older than that was written down. */
  readonly lineage?: number;
}

/** A story as it can be gone on from. */
export interface KeptStory {
  readonly fingerprint: StoryFingerprint;
  /** Without a gap, oldest first; the last is where it ended. From the snapshot's on, and at least a window of them where they are kept. Empty: it is at its beginning. */
  readonly chunks: readonly KeptChunk[];
  /** The newest that leads to the last chunk without a gap; its own chunk may be before `chunks` begin. */
  readonly snapshot: KeptSnapshot | null;
  /** The branch that goes on, and how many there are. Absent: the only one. */
  readonly branch?: number;
  readonly branches?: number;
  /** Which future that branch is, where no chunk of it may be there yet to say it. */
  readonly lineage?: number;
}

/** Everything of one session that a server needs to open it again. */
export interface KeptWorld {
  readonly session: KeptSession;
  /** The newest, oldest first, at most as many as a session keeps. */
  readonly events: readonly KeptEvent[];
  readonly requests: readonly KeptRequest[];
  readonly turns: readonly KeptTurn[];
  /** Oldest first, without the first one. */
  readonly branches: readonly KeptBranch[];
  readonly story: KeptStory;
}

/** A stretch of a story that was made with the same weights and adapters. */
export interface VersionSpan {
  readonly from90k: MediaTime90k;
  readonly to90k: MediaTime90k;
  readonly weightsVersion: string;
  /** `<checksum>@<scale>` by id. */
  readonly adapterVersions: Readonly<Record<string, string>>;
}

/** One line of the list of sessions. */
export interface KeptHead {
  readonly sessionId: string;
  readonly createdAt: string;
  readonly program: string;
  readonly seed: number;
  readonly fingerprint: StoryFingerprint;
  /** Null while it is live. */
  readonly endedAt: string | null;
  readonly reason: string | null;
  /** Calendar time of the last write, ms since 1970. */
  readonly touchedMs: number;
  readonly committed90k: MediaTime90k;
  readonly bytes: number;
}

/**
 * Writes are numbered by whoever sends them, from 1 and without gaps; the answer `stored` names the last one that is on disk. So a writer knows what is
 * outstanding, and bounds it (see `OutstandingWrites`).
 */
export type StorageWrite =
  | { readonly type: 'session'; readonly session: KeptSession }
  | { readonly type: 'event'; readonly sessionId: string; readonly event: KeptEvent }
  | { readonly type: 'request'; readonly sessionId: string; readonly request: KeptRequest }
  | { readonly type: 'turn'; readonly sessionId: string; readonly turn: KeptTurn }
  /** As a whole or not at all; null: the turn is gone. */
  | { readonly type: 'turns'; readonly sessionId: string; readonly turns: readonly { readonly ordinal: number; readonly turn: KeptData | null }[] }
  | { readonly type: 'chunk'; readonly sessionId: string; readonly branch: number; readonly chunk: KeptChunk }
  /** What was seen of a chunk that the story ended in, or left, before it was whole: nothing goes on from it. */
  | { readonly type: 'part'; readonly sessionId: string; readonly branch: number; readonly chunk: KeptChunk }
  | { readonly type: 'snapshot'; readonly sessionId: string; readonly branch: number; readonly snapshot: KeptSnapshot }
  /** What is kept of another session's branch up to a chunk, as this one's: a copy, whatever becomes of the other. */
  | { readonly type: 'fork'; readonly sessionId: string; readonly from: string; readonly branch: number; readonly throughChunk: number }
  /** It is in force from here on. */
  | { readonly type: 'branch'; readonly sessionId: string; readonly branch: KeptBranch }
  | { readonly type: 'ended'; readonly sessionId: string; readonly reason: string }
  /** All of it, at once and for good. */
  | { readonly type: 'delete'; readonly sessionId: string };

export type ToStorage =
  | { readonly type: 'write'; readonly number: number; readonly write: StorageWrite }
  | { readonly type: 'load'; readonly request: number; readonly sessionId: string; readonly windowChunks: number }
  /** The story in force up to a moment of it; with a snapshot that leads there where it is to be `exact`. */
  | { readonly type: 'story'; readonly request: number; readonly sessionId: string; readonly windowChunks: number; readonly to90k: MediaTime90k; readonly exact: boolean }
  | { readonly type: 'list'; readonly request: number }
  /** What is kept between two moments. */
  | { readonly type: 'range.of'; readonly request: number; readonly sessionId: string; readonly from90k: MediaTime90k; readonly to90k: MediaTime90k }
  /** Chunks from one number on, at most so many. */
  | { readonly type: 'chunks.of'; readonly request: number; readonly sessionId: string; readonly from: number; readonly count: number }
  | { readonly type: 'versions.of'; readonly request: number; readonly sessionId: string }
  /** The chunk in which a media time lies, of a branch's story (by default the one in force). */
  | { readonly type: 'chunk.at'; readonly request: number; readonly sessionId: string; readonly media90k: MediaTime90k; readonly branch?: number }
  /** Writes what is outstanding, closes the file, answers `drained`. */
  | { readonly type: 'drain' };

/** How far a session is on disk. */
export interface DurablePosition {
  readonly sessionId: string;
  /** The branch in force. */
  readonly branch: number;
  readonly chunk: number;
  readonly media90k: MediaTime90k;
}

export type FromStorage =
  /** Numbers are of the writer that is told. */
  | { readonly type: 'stored'; readonly through: number }
  /** Control only: after every batch, the sessions whose story got longer. */
  | { readonly type: 'durable'; readonly positions: readonly DurablePosition[] }
  /** Control only. Writing fails (again): nothing is lost yet, and nothing more becomes durable until `recovered`. */
  | { readonly type: 'trouble'; readonly message: string }
  | { readonly type: 'recovered' }
  /** `damaged`: where a file that couldn't be read was put aside. */
  | { readonly type: 'ready'; readonly file: string; readonly damaged: string | null; readonly tokenKey: string }
  | { readonly type: 'failed'; readonly message: string }
  | { readonly type: 'loaded'; readonly request: number; readonly world: KeptWorld | null; readonly error?: ErrorBody }
  /** `story` null: the moment is before the end of the first chunk. */
  | { readonly type: 'read'; readonly request: number; readonly story: KeptStory | null; readonly error?: ErrorBody }
  | { readonly type: 'listed'; readonly request: number; readonly heads: readonly KeptHead[] }
  /** `head` is null where nothing is kept of the session, `chunk` where that time isn't; then `from90k` says where what is kept begins. */
  | { readonly type: 'chunk.read'; readonly request: number; readonly head: KeptHead | null; readonly branch: number | null; readonly chunk: KeptChunk | null; readonly from90k: MediaTime90k | null; readonly error?: ErrorBody }
  | { readonly type: 'range.read'; readonly request: number; readonly range: Omit<KeptRange, 'sessionId'> | null }
  /** Without a gap. */
  | { readonly type: 'chunks.read'; readonly request: number; readonly chunks: readonly KeptChunk[] }
  /** Oldest first; empty where nothing is kept. */
  | { readonly type: 'versions.read'; readonly request: number; readonly spans: readonly VersionSpan[]; readonly error?: ErrorBody }
  | { readonly type: 'drained' };

/** Bytes of a write that count against its writer's bounds: its tensors, and its text at two bytes a character. */
export function writeBytes(write: StorageWrite): number {
  switch (write.type) {
    case 'session':
      return (write.session.image?.byteLength ?? 0) + 2 * write.session.options.length + 512;
    case 'event':
      return 2 * write.event.data.length + 128;
    case 'request':
      return 2 * (write.request.body.length + write.request.answers.length) + 128;
    case 'turn':
      return 2 * write.turn.turn.length + 64;
    case 'turns':
      return write.turns.reduce((sum, { turn }) => sum + 2 * (turn?.length ?? 0) + 64, 0);
    case 'chunk':
    case 'part':
      return tensorBytes(write.chunk.tensors) + 2 * write.chunk.data.length + 128;
    case 'snapshot':
      return tensorBytes(write.snapshot.tensors) + 2 * write.snapshot.data.length + 64;
    // Always taken: what is to go must not wait for room, nor what says how the rest belongs together.
    case 'branch':
    case 'fork':
    case 'ended':
    case 'delete':
      return 0;
  }
}

/** Of whom a write is. */
export function writtenFor(write: StorageWrite): string {
  return write.type === 'session' ? write.session.sessionId : write.sessionId;
}

function tensorBytes(tensors: readonly KeptTensor[]): number {
  return tensors.reduce((sum, { data }) => sum + data.byteLength, 0);
}
