import type { Clock, Timer } from '../../observe/clock.ts';
import type { SessionWords } from '../../streams/session_words.ts';

export interface FenceWatchOptions {
  readonly words: SessionWords;
  readonly clock: Clock;
  readonly watchdogMs: number;
  /** False: a baseline policy, which knows of a fence only once it reads the request for it. */
  readonly readsWord: boolean;
  /** The word was raised to this, and no request came for it. */
  readonly missing: (epoch: number) => void;
}

/** The epoch that a session is in, beside the word that is raised before anybody is told. */
export class FenceWatch {
  readonly #options: FenceWatchOptions;
  #epoch: number;
  #watchdog: Timer | null = null;
  #closed = false;

  constructor(options: FenceWatchOptions) {
    this.#options = options;
    this.#epoch = options.words.epoch;
  }

  get epoch(): number {
    return this.#epoch;
  }

  /** What results are compared with. */
  get word(): number {
    return this.#options.readsWord ? this.#options.words.epoch : this.#epoch;
  }

  /** The word was raised and the request for it isn't here yet: nothing is planned, and somebody watches that it comes. */
  fenced(): boolean {
    if (this.word === this.#epoch) return false;
    const { clock, watchdogMs, words, missing } = this.#options;
    if (this.#closed) return true;
    this.#watchdog ??= clock.schedule(clock.now() + watchdogMs, () => {
      this.#watchdog = null;
      if (!this.#closed && words.epoch !== this.#epoch) missing(words.epoch);
    });
    return true;
  }

  /** The request for an epoch is here. */
  enter(epoch: number): void {
    this.#epoch = Math.max(this.#epoch, epoch);
    if (this.#options.words.epoch !== this.#epoch) return;
    this.#watchdog?.cancel();
    this.#watchdog = null;
  }

  /** Idempotent. */
  close(): void {
    this.#closed = true;
    this.#watchdog?.cancel();
    this.#watchdog = null;
  }
}
