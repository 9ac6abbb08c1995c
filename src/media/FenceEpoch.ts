import type { SessionWords } from '../streams/session_words.ts';

/** What pictures and sounds on their way out are compared with. */
export interface FenceEpoch {
  readonly epoch: number;
}

/**
 * The baseline that benchmarks compare with: a server without a fence. It clears its queues when the engine's first chunk of the new
 * epoch comes, and sends whatever it has until then.
 */
export class EngineEpoch implements FenceEpoch {
  #epoch: number;

  constructor(words: SessionWords) {
    this.#epoch = words.epoch;
  }

  get epoch(): number {
    return this.#epoch;
  }

  /** True where the chunk is the first of a new epoch. */
  follow(epoch: number): boolean {
    if (epoch <= this.#epoch) return false;
    this.#epoch = epoch;
    return true;
  }
}
