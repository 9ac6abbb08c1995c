import type { Clock, Timer } from '../observe/clock.ts';

export interface IdleWatchOptions {
  readonly clock: Clock;
  readonly idleMs: number;
  /** How long before the end it warns. */
  readonly warningMs: number;
  /** A number that changes when someone acts without a request: the sequence of the held action. */
  readonly action: () => number;
  readonly warn: (closesInMs: number) => void;
  readonly expire: () => void;
}

/** While the warning stands it looks this often: a key pressed now must count although it sends no request. */
const WARNED_INTERVAL_MS = 10_000;

/** Ends a session that nobody uses, and says so first. One timer, set anew to when the next thing is due: activity only writes a number. */
export class IdleWatch {
  readonly #options: IdleWatchOptions;
  #activeMs: number;
  #action = 0;
  #timer: Timer | null = null;
  #closed = false;

  constructor(options: IdleWatchOptions) {
    this.#options = options;
    this.#activeMs = options.clock.now();
  }

  start(): void {
    if (this.#closed || this.#timer !== null) return;
    this.#action = this.#options.action();
    this.touch();
    this.#schedule(this.#activeMs + this.#quietMs);
  }

  /** Someone did something. */
  touch(): void {
    this.#activeMs = this.#options.clock.now();
  }

  /** Idempotent. */
  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
  }

  /** Without a warning. */
  get #quietMs(): number {
    return Math.max(0, this.#options.idleMs - this.#options.warningMs);
  }

  #schedule(atMs: number): void {
    this.#timer = this.#options.clock.schedule(atMs, () => this.#check());
  }

  #check(): void {
    if (this.#closed) return;
    const { clock, idleMs, action, warn, expire } = this.#options;
    const sequence = action();
    if (sequence !== this.#action) {
      this.#action = sequence;
      this.touch();
    }
    const idleFor = clock.now() - this.#activeMs;
    if (idleFor >= idleMs) return expire();
    if (idleFor < this.#quietMs) return this.#schedule(this.#activeMs + this.#quietMs);
    const closesInMs = Math.ceil(idleMs - idleFor);
    warn(closesInMs);
    this.#schedule(clock.now() + Math.min(closesInMs, WARNED_INTERVAL_MS));
  }
}
