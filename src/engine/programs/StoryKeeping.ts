import type { MediaTime90k } from '../../streams/media_time.ts';
import type { BlockId, MemoryTag } from '../model/work.ts';
import type { InlineProgram } from './InlineProgram.ts';

/** Part of a state as it is kept: plain data, and tensors by name. */
export interface KeptPart {
  readonly data: Readonly<Record<string, unknown>>;
  readonly blocks: Readonly<Record<string, BlockId>>;
}

export interface KeptChunkPart extends KeptPart {
  readonly chunk: number;
  readonly start90k: MediaTime90k;
  readonly end90k: MediaTime90k;
  readonly conditioningVersion: number;
}

export interface KeptSnapshotPart extends KeptPart {
  /** The chunk that ends where the snapshot is. */
  readonly chunk: number;
}

/** What was kept, read back: tensors by name are in whoever resumes' hands. */
export interface ReadPart {
  readonly chunk: number;
  readonly end90k: MediaTime90k;
  readonly data: Readonly<Record<string, unknown>>;
  readonly tensors: readonly string[];
}

/** A tensor that must be with the executor before a story can go on. */
export interface WantedTensor {
  /** Index into the chunks; null: of the snapshot. */
  readonly chunk: number | null;
  readonly name: string;
  readonly memory: MemoryTag;
}

export interface StoryReturn<State> {
  readonly wanted: readonly WantedTensor[];
  /** Speed that was held at the end: it stays until its driver says otherwise. */
  readonly speed: number;
  open(blocks: readonly BlockId[]): State;
}

/**
 * How a program's story outlives the process: what each committed chunk adds to what is kept for ever, what a snapshot holds beside that, and the state to
 * go on from. Pure, like the program; blocks are named, not read.
 */
export interface StoryKeeping<State> {
  /** The chunk that ends at this version; null inside a chunk, and where nothing was made yet. */
  chunk(version: State): KeptChunkPart | null;
  /** The chunk that a version lies in or ends, as far as it was seen: what a frame of it is known by before the chunk is whole. Null where nothing was made yet. */
  seen(version: State): KeptChunkPart | null;
  /** Decodes one frame of a kept chunk again, as it was. Inputs: `chunk` (KeptChunk) and `frame`, its index in it. */
  readonly pictures: InlineProgram;
  /** What else the version holds. Only where {@link chunk} isn't null. */
  snapshot(version: State): KeptSnapshotPart;
  /**
   * The state at the end of the last chunk. With the snapshot it goes on bit-equal, on the same fingerprint; without it the window is recomputed from the latents
   * of the chunks that are there. `blocks` are the wanted tensors, in that order.
   */
  resume(seed: number, chunks: readonly ReadPart[], snapshot: ReadPart | null): StoryReturn<State>;
}
