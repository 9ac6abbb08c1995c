import type { Clock, Timer } from '../../observe/clock.ts';

interface Watched<Batch> {
  readonly batch: Batch;
  readonly untilMs: number;
}

/**
 * Watches the one batch that a device has. Thousands end in time before one doesn't, so the timer isn't set and cleared for each: it
 * stays, and looks when it fires whether there is still something to watch.
 */
export class BatchWatch<Batch> {
  readonly #clock: Clock;
  readonly #patienceMs: number;
  readonly #expired: (batch: Batch) => void;
  #watched: Watched<Batch> | null = null;
  #timer: Timer | null = null;

  constructor(clock: Clock, patienceMs: number, expired: (batch: Batch) => void) {
    this.#clock = clock;
    this.#patienceMs = patienceMs;
    this.#expired = expired;
  }

  begin(batch: Batch): void {
    this.#watched = { batch, untilMs: this.#clock.now() + this.#patienceMs };
    this.#arm(this.#watched.untilMs);
  }

  end(): void {
    this.#watched = null;
  }

  close(): void {
    this.#watched = null;
    this.#timer?.cancel();
    this.#timer = null;
  }

  #arm(atMs: number): void {
    this.#timer ??= this.#clock.schedule(atMs, () => {
      this.#timer = null;
      const watched = this.#watched;
      if (watched === null) return;
      if (watched.untilMs > this.#clock.now()) return this.#arm(watched.untilMs);
      this.#watched = null;
      this.#expired(watched.batch);
    });
  }
}
