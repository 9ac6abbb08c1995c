import type { BitrateBounds } from './options.ts';

/** Share of a receiver's estimate that video may take: sound, retransmissions and the estimate's own error need the rest. */
const ESTIMATE_SHARE = 0.85;
/** Loss beyond the first lowers the rate, below the second it may rise again (the thresholds of Google congestion control). */
const HIGH_LOSS = 0.1;
const LOW_LOSS = 0.02;
const RISE_PER_REPORT = 1.08;
/** An encoder that is retuned for less than this share gains nothing. */
const HYSTERESIS = 0.05;

interface Receiver {
  estimate: number | null;
  lossLimit: number;
}

/**
 * The video bitrate of a session that is encoded once for all its receivers: what the slowest of them takes, from REMB and from the
 * loss in receiver reports, within the configured bounds.
 */
export class BitrateControl {
  readonly #bounds: BitrateBounds;
  readonly #receivers = new Map<string, Receiver>();
  #target: number;

  constructor(bounds: BitrateBounds) {
    this.#bounds = bounds;
    this.#target = bounds.start;
  }

  get target(): number {
    return this.#target;
  }

  /** REMB, bits per second. Returns the new target where it changed, else null. */
  estimated(receiver: string, bitsPerSecond: number): number | null {
    this.#of(receiver).estimate = bitsPerSecond;
    return this.#update();
  }

  /** Fraction lost of a receiver report, 0 … 1. Returns the new target where it changed, else null. */
  lost(receiver: string, fraction: number): number | null {
    const state = this.#of(receiver);
    if (fraction > HIGH_LOSS) state.lossLimit = Math.max(this.#bounds.min, Math.min(state.lossLimit, this.#target) * (1 - fraction / 2));
    else if (fraction < LOW_LOSS) state.lossLimit = Math.min(this.#bounds.max, state.lossLimit * RISE_PER_REPORT);
    return this.#update();
  }

  remove(receiver: string): number | null {
    this.#receivers.delete(receiver);
    return this.#update();
  }

  #of(receiver: string): Receiver {
    let state = this.#receivers.get(receiver);
    if (state === undefined) this.#receivers.set(receiver, (state = { estimate: null, lossLimit: this.#bounds.start }));
    return state;
  }

  #update(): number | null {
    let target = this.#bounds.max;
    for (const { estimate, lossLimit } of this.#receivers.values()) {
      target = Math.min(target, lossLimit, estimate === null ? Infinity : estimate * ESTIMATE_SHARE);
    }
    if (this.#receivers.size === 0) target = this.#bounds.start;
    target = Math.round(Math.max(this.#bounds.min, target));
    const small = Math.abs(target - this.#target) < this.#target * HYSTERESIS;
    if (target === this.#target || (small && target !== this.#bounds.min && target !== this.#bounds.max)) return null;
    this.#target = target;
    return target;
  }
}
