/**
 * When the units of a run that was asked to end at a time are due: in step with its work, so that it takes its admitted share of the device
 * from the beginning and not all of it at the end. A run that nobody asked a time of has no such timeline: it fills slack.
 */
export class RunTimeline {
  readonly #startMs: number;
  readonly #withinMs: number;
  readonly #totalMs: number;
  readonly #longestMs: number;
  #doneMs = 0;

  /** @param totalMs predicted device milliseconds of the whole run. @param longestMs of its longest unit. */
  constructor({ startMs, withinMs, totalMs, longestMs }: { readonly startMs: number; readonly withinMs: number; readonly totalMs: number; readonly longestMs: number }) {
    this.#startMs = startMs;
    this.#withinMs = withinMs;
    this.#totalMs = totalMs;
    this.#longestMs = longestMs;
  }

  /** A unit was committed that was predicted to take so long. */
  advance(predictedMs: number): void {
    this.#doneMs += predictedMs;
  }

  get endMs(): number {
    return this.#startMs + this.#withinMs;
  }

  releaseMs(): number {
    return -Infinity;
  }

  deadlineMs(): number {
    const share = this.#totalMs > 0 ? (this.#doneMs + this.#longestMs) / this.#totalMs : 1;
    return this.#startMs + this.#withinMs * Math.min(1, share);
  }
}
