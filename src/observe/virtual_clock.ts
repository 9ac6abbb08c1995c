import type { Clock, Timer } from './clock.ts';

interface Pending extends Timer {
  readonly atMs: number;
  readonly order: number;
  readonly run: () => void;
  cancelled: boolean;
}

/**
 * A clock that moves only when told to, for simulations and tests. Timers fire in order of time, then of scheduling;
 * promise callbacks queued by one timer run before the next timer fires.
 *
 * @example
 * const clock = new VirtualClock();
 * clock.schedule(10, () => console.log(clock.now())); // 10
 * await clock.advanceTo(20);
 */
export class VirtualClock implements Clock {
  #now = 0;
  #order = 0;
  #pending: Pending[] = [];

  now(): number {
    return this.#now;
  }

  schedule(atMs: number, run: () => void): Timer {
    const entry: Pending = {
      atMs: Math.max(atMs, this.#now),
      order: this.#order++,
      run,
      cancelled: false,
      cancel() {
        entry.cancelled = true;
      },
    };
    let at = this.#pending.length;
    while (at > 0 && this.#pending[at - 1]!.atMs > entry.atMs) at--;
    this.#pending.splice(at, 0, entry);
    return entry;
  }

  /** Number of timers that have neither fired nor been cancelled. */
  get pending(): number {
    return this.#pending.reduce((count, entry) => count + (entry.cancelled ? 0 : 1), 0);
  }

  /** Fires every timer due up to and including `atMs`, then stands at `atMs`. */
  async advanceTo(atMs: number): Promise<void> {
    await settle();
    for (let next = this.#pending[0]; next !== undefined && next.atMs <= atMs; next = this.#pending[0]) {
      this.#pending.shift();
      if (next.cancelled) continue;
      this.#now = next.atMs;
      next.run();
      await settle();
    }
    this.#now = Math.max(this.#now, atMs);
  }
}

/** Lets promise chains of a few links run: enough for code that awaits only other microtasks. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 8; turn++) await Promise.resolve();
}
