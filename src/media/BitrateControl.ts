import type { BitrateBounds } from './options.ts';

/** Loss beyond the first lowers the rate, below the second it may rise again (the thresholds of Google congestion control). */
const HIGH_LOSS = 0.1;
const LOW_LOSS = 0.02;
/** About the rise of the receiver's own estimate, 8 % a second; reports come about once a second. */
const RISE_PER_REPORT = 1.08;
/** An estimate that falls by this share tells of a queue that grows; smaller steps are its noise. */
const ESTIMATE_FALL = 0.03;
/** An encoder that is retuned for less than this share gains nothing. */
const HYSTERESIS = 0.05;

interface Receiver {
  estimate: number;
  limit: number;
}

/**
 * The video bitrate of a session that is encoded once for all its receivers: what the slowest of them takes, within the configured
 * bounds.
 *
 * A receiver's estimate (REMB) is no ceiling by itself: it never exceeds about 1.5 × what arrives, so that a calm picture would hold
 * the encoder down for ever. It is believed where it falls, for it falls when delay grows. Loss in receiver reports lowers the limit
 * too; reports without loss raise it.
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
    const state = this.#of(receiver);
    if (bitsPerSecond < state.estimate * (1 - ESTIMATE_FALL)) state.limit = Math.max(this.#bounds.min, Math.min(state.limit, bitsPerSecond));
    state.estimate = bitsPerSecond;
    return this.#update();
  }

  /** Fraction lost of a receiver report, 0 … 1. Returns the new target where it changed, else null. */
  lost(receiver: string, fraction: number): number | null {
    const state = this.#of(receiver);
    if (fraction > HIGH_LOSS) state.limit = Math.max(this.#bounds.min, Math.min(state.limit, this.#target) * (1 - fraction / 2));
    else if (fraction < LOW_LOSS) state.limit = Math.min(this.#bounds.max, state.limit * RISE_PER_REPORT);
    return this.#update();
  }

  remove(receiver: string): number | null {
    this.#receivers.delete(receiver);
    return this.#update();
  }

  #of(receiver: string): Receiver {
    let state = this.#receivers.get(receiver);
    if (state === undefined) this.#receivers.set(receiver, (state = { estimate: 0, limit: this.#bounds.start }));
    return state;
  }

  #update(): number | null {
    let target = this.#bounds.max;
    for (const { limit } of this.#receivers.values()) target = Math.min(target, limit);
    if (this.#receivers.size === 0) target = this.#bounds.start;
    target = Math.round(Math.max(this.#bounds.min, target));
    const small = Math.abs(target - this.#target) < this.#target * HYSTERESIS;
    if (target === this.#target || (small && target !== this.#bounds.min && target !== this.#bounds.max)) return null;
    this.#target = target;
    return target;
  }
}
