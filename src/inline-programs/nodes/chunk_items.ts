import type { BlockId } from '../../engine/model/work.ts';

/** Chunks of one run, given or made: a minute of the shipped model. */
export const MAX_CHUNKS = 360;

/** How many chunks are given, where that can be known beforehand; else the most that there can be. */
export function givenChunks(frames: unknown): number {
  return Array.isArray(frames) ? Math.min(frames.length, MAX_CHUNKS) : MAX_CHUNKS;
}

/** Latents of one chunk on their way to whoever decodes them. */
export interface ChunkLatents {
  readonly latents: BlockId;
  readonly chunk: number;
  /** Encoded start frames, not generated ones. */
  readonly seeded: boolean;
}

/** A decoded frame, or its sound: which one, and the slot that holds it. */
export interface DecodedFrame {
  readonly chunk: number;
  readonly frameInChunk: number;
  readonly seeded: boolean;
  readonly slot: number;
}

/** A chunk of a given video, encoded; `level` is how noisy it is, 0 clean. Null in its place: no more come. */
export interface GivenChunk {
  readonly latents: BlockId;
  readonly level: number;
}
