import type { Clock, Timer } from '../observe/clock.ts';

/** A hold that nobody has ended by then is released: what was taken for an interruption was none, or whoever held is gone. */
export const HOLD_LIMIT_MS = 2_000;

/**
 * A hold in force, and its end. Media thread and engine have one each, as both must go on if the other, or the control thread between them, doesn't
 * say so: neither waits for more than {@link HOLD_LIMIT_MS}.
 */
export class ProvisionalHold {
  readonly #clock: Clock;
  readonly #expired: (requestId: string) => void;
  #requestId: string | null = null;
  #limit: Timer | null = null;

  /** @param expired called after the hold has ended by itself, with the id of the request that began it. */
  constructor(clock: Clock, expired: (requestId: string) => void) {
    this.#clock = clock;
    this.#expired = expired;
  }

  get active(): boolean {
    return this.#requestId !== null;
  }

  /** A hold that is in force already stays what it is, with its own limit: holding again doesn't make it longer. False then. */
  begin(requestId: string): boolean {
    if (this.active) return false;
    this.#requestId = requestId;
    this.#limit = this.#clock.schedule(this.#clock.now() + HOLD_LIMIT_MS, () => {
      this.end();
      this.#expired(requestId);
    });
    return true;
  }

  /** False where there was none. */
  end(): boolean {
    if (!this.active) return false;
    this.#requestId = null;
    this.#limit?.cancel();
    this.#limit = null;
    return true;
  }
}
