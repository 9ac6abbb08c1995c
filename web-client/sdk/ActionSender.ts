import type { INPUT_INTERVAL_MS } from '../../src/protocol/channel.ts';
import { ActionState, type Speed, type Steer } from './ActionState.ts';
import type { ActionInput } from './messages.ts';

/** The protocol's {@link INPUT_INTERVAL_MS}. */
const INTERVAL_MS = 50 satisfies typeof INPUT_INTERVAL_MS;
/** The model's cruising speed: what the world does before anybody touches it. */
const INITIAL_SPEED: Speed = 2;

/** Sends the held state every 50 ms and on each change. Messages may be lost; none is queued. */
export class ActionSender {
  readonly #state = new ActionState(INITIAL_SPEED);
  readonly #send: (message: ActionInput) => void;
  #timer: ReturnType<typeof setInterval> | null = null;

  constructor(send: (message: ActionInput) => void) {
    this.#send = send;
  }

  get steer(): Steer {
    return this.#state.steer;
  }

  get speed(): Speed {
    return this.#state.speed;
  }

  start(): void {
    this.stop();
    this.#timer = setInterval(() => this.#send(this.#state.message()), INTERVAL_MS);
  }

  /** Idempotent. The server goes neutral after 250 ms of silence. */
  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
  }

  /** Returns the sequence of the first message that carries the change, or null where nothing changed. */
  set(action: { readonly steer?: Steer; readonly speed?: Speed }): number | null {
    return this.#state.set(action) ? this.#sendNow() : null;
  }

  /** Tells that somebody is there. */
  touch(): void {
    this.#state.touch();
    this.#sendNow();
  }

  #sendNow(): number {
    const message = this.#state.message();
    if (this.#timer !== null) this.#send(message);
    return message.sequence;
  }
}
