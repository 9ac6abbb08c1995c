import type { BlockId } from '../../engine/model/work.ts';

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
