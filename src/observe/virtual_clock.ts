import type { Clock, Timer } from './clock.ts';
import { Heap } from './Heap.ts';

interface Pending extends Timer {
  readonly atMs: number;
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
  #live = 0;
  readonly #pending = new Heap<Pending>(({ atMs }) => atMs);

  now(): number {
    return this.#now;
  }

  schedule(atMs: number, run: () => void): Timer {
    const entry: Pending = {
      atMs: Math.max(atMs, this.#now),
      run,
      cancelled: false,
      cancel: () => {
        if (!entry.cancelled) this.#live--;
        entry.cancelled = true;
      },
    };
    this.#live++;
    this.#pending.push(entry);
    return entry;
  }

  /** Number of timers that have neither fired nor been cancelled. */
  get pending(): number {
    return this.#live;
  }

  /** Fires every timer due up to and including `atMs`, then stands at `atMs`. */
  async advanceTo(atMs: number): Promise<void> {
    await settle();
    for (let next = this.#pending.peek(); next !== null && next.atMs <= atMs; next = this.#pending.peek()) {
      this.#pending.pop();
      if (next.cancelled) continue;
      next.cancel();
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
