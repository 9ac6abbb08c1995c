import type { Conditioning, LoopContext } from './loop_kernel.ts';

/** What a step of a loop that no action reaches runs under. */
export const UNCONDITIONED: Conditioning = { version: 0, actionSequence: 0, steer: 0, speed: 0, prompt: null };

/** For binding a loop's first state: kernels read conditioning when they plan. */
export function bindingContext(seed: number): LoopContext {
  return { seed, lineage: 0, conditioning: UNCONDITIONED };
}
