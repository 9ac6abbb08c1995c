import type { Clock, Timer } from '../../observe/clock.ts';

/** What is done again and again until it is stopped; one timer of a kind at a time. */
export class Repeats<Kind extends string> {
  readonly #clock: Clock;
  readonly #timers = new Map<Kind, Timer>();
  #closed = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#timers.size;
  }

  /** First after one interval, ms; no change where the kind is being repeated already. */
  every(kind: Kind, intervalMs: number, run: () => void): void {
    if (this.#timers.has(kind) || this.#closed) return;
    const arm = (): void => {
      const timer = this.#clock.schedule(this.#clock.now() + intervalMs, () => {
        if (this.#closed) return;
        arm();
        run();
      });
      this.#timers.set(kind, timer);
    };
    arm();
  }

  stop(kind: Kind): void {
    this.#timers.get(kind)?.cancel();
    this.#timers.delete(kind);
  }

  /** Idempotent. */
  close(): void {
    this.#closed = true;
    for (const timer of this.#timers.values()) timer.cancel();
    this.#timers.clear();
  }
}
