import { monitorEventLoopDelay } from 'node:perf_hooks';

type IntervalHistogram = ReturnType<typeof monitorEventLoopDelay>;

export interface EventLoopDelay {
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
}

/** Sampling interval. The histogram counts it in with each delay, so it is taken off again. */
const RESOLUTION_MS = 5;
/** Each of the two windows; figures always cover one to two of them. */
const WINDOW_MS = 60_000;

/**
 * Delay of this thread's event loop over the last one to two minutes, so that scrapers don't disturb each other and an old stall is forgotten.
 * The bound for the control thread: p99 < 10 ms, max < 50 ms under the admitted load.
 */
export class EventLoopMonitor {
  #older: IntervalHistogram;
  #newer: IntervalHistogram;
  readonly #timer: ReturnType<typeof setInterval>;

  constructor() {
    this.#older = start();
    this.#newer = start();
    this.#timer = setInterval(() => {
      this.#older.disable();
      this.#older = this.#newer;
      this.#newer = start();
    }, WINDOW_MS);
    this.#timer.unref();
  }

  read(): EventLoopDelay {
    const ms = (nanoseconds: number): number => (Number.isFinite(nanoseconds) ? Math.max(0, nanoseconds / 1e6 - RESOLUTION_MS) : 0);
    // An empty histogram says 0 for quantiles and NaN or 0 for its extremes.
    return { p50Ms: ms(this.#older.percentile(50)), p99Ms: ms(this.#older.percentile(99)), maxMs: ms(this.#older.max) };
  }

  /** Idempotent. */
  close(): void {
    clearInterval(this.#timer);
    this.#older.disable();
    this.#newer.disable();
  }
}

function start(): IntervalHistogram {
  const histogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  histogram.enable();
  return histogram;
}
