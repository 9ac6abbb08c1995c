import type { Conditioning, LoopContext } from '../../engine/model/loop_kernel.ts';
import type { BlockId } from '../../engine/model/work.ts';

/** What a step of a loop that no action reaches runs under. */
export const UNCONDITIONED: Conditioning = { version: 0, actionSequence: 0, steer: 0, speed: 0, prompt: null };

/** For binding a loop's first state. */
export function bindingContext(seed: number): LoopContext {
  return { seed, lineage: 0, conditioning: UNCONDITIONED };
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
