import type { PositionInput } from './messages.ts';
import type { Presenter } from './Presenter.ts';

const INTERVAL_MS = 100;

/** Tells the server every 100 ms what was painted and played last, while media flows. */
export class PositionReporter {
  readonly #presenter: Presenter;
  readonly #send: (message: PositionInput) => void;
  #timer: ReturnType<typeof setInterval> | null = null;

  constructor(presenter: Presenter, send: (message: PositionInput) => void) {
    this.#presenter = presenter;
    this.#send = send;
  }

  start(): void {
    this.stop();
    this.#timer = setInterval(() => {
      const position = this.#presenter.position;
      if (position.videoRtp !== undefined || position.audioRtp !== undefined) this.#send({ type: 'position', ...position });
    }, INTERVAL_MS);
  }

  /** Idempotent. */
  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
  }
}
