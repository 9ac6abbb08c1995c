import type { MediaFormat, MediaTime90k } from './media_time.ts';


/** Versions that a piece of media was made under; carried by every chunk and frame. */
export interface MediaVersions {
  readonly epoch: number;
  /** Raised by every change of what is asked for; never fences. */
  readonly conditioningVersion: number;
  /** The client's action sequence that was in force. */
  readonly actionSequence: number;
  readonly weightsVersion: string;
  readonly adapterVersions: Readonly<Record<string, string>>;
}

/** Request ids whose effect begins in, holds over, or ends with this chunk. */
export interface ChunkEvents {
  readonly started: readonly string[];
  readonly active: readonly string[];
  readonly completed: readonly string[];
}

interface StreamEvent {
  readonly sessionId: string;
  readonly streamId: string;
  /** Rises by one per event of the stream, across epochs. */
  readonly sequence: number;
}

export interface MediaInit extends StreamEvent {
  readonly type: 'media.init';
  readonly format: MediaFormat;
}

interface MediaChunkBase extends StreamEvent, MediaVersions {
  readonly type: 'media.chunk';
  /** Of the session's outgoing media (see `Outgoing`) that it was made under: void where a later recall began before its end. */
  readonly revision: number;
  readonly start90k: MediaTime90k;
  readonly end90k: MediaTime90k;
  /** `preview`: from an early estimate, refined in place by the `final` of the same range. */
  readonly stage: 'preview' | 'final';
  /** Chunk of the model's loop, and the index of the frame in it. */
  readonly chunk: number;
  readonly frameInChunk: number;
  /** Denoise step in force when the conditioning of this chunk last changed; 0 = from its start. */
  readonly step: number;
  readonly events: ChunkEvents;
  /** `seed`: an encoded start frame of the model's bank, `generated`: everything else. */
  readonly origin: 'seed' | 'generated';
}

/** One raw picture: RGB, `width × height × 3` bytes, in a slot of the session's video pool. The receiver releases the slot. */
export interface VideoChunk extends MediaChunkBase {
  readonly kind: 'video';
  readonly codec: 'rgb24';
  readonly slot: number;
}

/** The sound of one picture's time: mono signed 16-bit samples in a slot of the session's audio pool. The receiver releases the slot. */
export interface AudioChunk extends MediaChunkBase {
  readonly kind: 'audio';
  readonly codec: 'pcm16';
  readonly slot: number;
  readonly samples: number;
}

export type MediaChunk = VideoChunk | AudioChunk;

/** Unsent media was recalled: what is void can be let go of now, and the same range comes anew. Of the video stream; it speaks for both. */
export interface MediaRecall extends StreamEvent {
  readonly type: 'media.recall';
  readonly revision: number;
  readonly from90k: MediaTime90k;
}

export interface MediaComplete extends StreamEvent {
  readonly type: 'media.complete';
  readonly reason: 'closed' | 'failed';
}

export type MediaEvent = MediaInit | MediaChunk | MediaRecall | MediaComplete;
