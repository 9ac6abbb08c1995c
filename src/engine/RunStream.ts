import type { Clock, Timer } from '../observe/clock.ts';

/**
 * What a run has given and nobody has taken yet. It drops nothing: pictures and sound are bounded by the slots of the run's pools, while which
 * are all in here the run waits; words by the texts that the run can say. Watches that somebody takes them.
 */
export class RunStream<Event> {
  readonly #clock: Clock;
  readonly #stallMs: number;
  readonly #stalled: () => void;
  readonly #events: Event[] = [];
  #wake: (() => void) | null = null;
  #watchdog: Timer | null = null;
  #ended = false;
  #closed = false;

  /** @param stalled nobody has taken anything for `stallMs`, though something waits. */
  constructor(clock: Clock, stallMs: number, stalled: () => void) {
    this.#clock = clock;
    this.#stallMs = stallMs;
    this.#stalled = stalled;
  }

  push(event: Event): void {
    this.#events.push(event);
    if (this.#wake === null) this.#watchdog ??= this.#clock.schedule(this.#clock.now() + this.#stallMs, this.#stalled);
    this.#notify();
  }

  /** Nothing more comes; what is there can still be taken. */
  end(): void {
    this.#ended = true;
    this.#notify();
  }

  /** The next event; null at the end. One taker at a time. */
  async take(): Promise<Event | null> {
    this.#watchdog?.cancel();
    this.#watchdog = null;
    while (this.#events.length === 0 && !this.#ended) await new Promise<void>((resolve) => (this.#wake = resolve));
    return this.#events.shift() ?? null;
  }

  /** Watches no more; what is left is whoever's who closes. What comes after isn't kept: see `closed`. */
  close(): readonly Event[] {
    this.#watchdog?.cancel();
    this.#watchdog = null;
    this.#closed = true;
    this.end();
    return this.#events.splice(0);
  }

  get closed(): boolean {
    return this.#closed;
  }

  #notify(): void {
    this.#wake?.();
    this.#wake = null;
  }
}
