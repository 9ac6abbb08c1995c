/**
 * Time for everything that decides. Milliseconds, monotonic, with one zero for all threads of the process,
 * so that a deadline written by one thread can be read by another. Tests run the same code on a {@link VirtualClock}.
 */
export interface Clock {
  /** Milliseconds, monotonic, fractional. */
  now(): number;
  /** Calls `run` once at or after `atMs`; returns a handle that cancels it. Cancelling twice is harmless. */
  schedule(atMs: number, run: () => void): Timer;
}

export interface Timer {
  cancel(): void;
}

/** The process clock: `process.hrtime` shares its zero across worker threads, `performance.now` does not. */
export const monotonicClock: Clock = {
  now: monotonicMs,
  schedule(atMs, run) {
    const handle = setTimeout(run, Math.max(0, atMs - monotonicMs()));
    return { cancel: () => clearTimeout(handle) };
  },
};

export function monotonicMs(): number {
  const [seconds, nanoseconds] = process.hrtime();
  return seconds * 1000 + nanoseconds / 1e6;
}
