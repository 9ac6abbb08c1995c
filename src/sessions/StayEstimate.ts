/** Ended sessions that the mean is over: enough that one long stay doesn't decide, few enough that it follows the day. */
const REMEMBERED = 64;

/** A session that has its place. */
export interface Stay {
  readonly ageMs: number;
  /** It ends by then, whatever happens; `Infinity` where nothing says so. */
  readonly endsInMs: number;
}

/**
 * How long until so many places become free, from how long sessions last. Stays are taken as exponential: the time until one ends doesn't depend on how long it
 * has lasted, and its mean is all the time that sessions were there ÷ the number of them that ended, so those that are still there count too (the maximum
 * likelihood of censored data; Epstein and Sobel, "Life testing", JASA 1953).
 */
export class StayEstimate {
  readonly #ended: number[] = [];

  /** A session has ended after so long. */
  ended(lastedMs: number): void {
    this.#ended.push(Math.max(0, lastedMs));
    if (this.#ended.length > REMEMBERED) this.#ended.shift();
  }

  /**
   * Milliseconds until the `position`-th place is free, 1 = the next one. Null where nothing is known: no session has ended yet, and none must end by a time.
   *
   * @param stays of all who have a place now.
   */
  waitMs(position: number, stays: readonly Stay[]): number | null {
    if (stays.length === 0) return 0;
    // Whoever comes in when one leaves may stay, too: so many places leave at the same rate all the time.
    const expected = this.#ended.length === 0 ? Infinity : (position * this.#meanMs(stays)) / stays.length;
    const certain = stays.map(({ endsInMs }) => endsInMs).sort((a, b) => a - b)[position - 1] ?? Infinity;
    const waitMs = Math.min(expected, certain);
    return waitMs === Infinity ? null : Math.round(waitMs);
  }

  #meanMs(stays: readonly Stay[]): number {
    const there = this.#ended.reduce((sum, ms) => sum + ms, 0) + stays.reduce((sum, { ageMs }) => sum + ageMs, 0);
    return there / this.#ended.length;
  }
}
