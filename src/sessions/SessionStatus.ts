import { SegueError, type ErrorCode } from '../protocol/errors.ts';
import type { SessionStateName } from '../protocol/rest.ts';
import { isEnding, nextSessionState, type SessionTransition } from './session_state.ts';

/** Where a session stands in its life, what that allows, and why it ended. */
export class SessionStatus {
  readonly #onMoved: () => void;
  #state: SessionStateName = 'created';
  #reason: string | null = null;
  #code: ErrorCode | null = null;

  /** @param onMoved called after each change of state. */
  constructor(onMoved: () => void) {
    this.#onMoved = onMoved;
  }

  get state(): SessionStateName {
    return this.#state;
  }

  /** Why it ends or ended; null while it doesn't. */
  get reason(): string | null {
    return this.#reason;
  }

  /** Of the error that ends or ended it; null where none does. */
  get code(): ErrorCode | null {
    return this.#code;
  }

  /** Takes no more requests or connections. */
  get ending(): boolean {
    return isEnding(this.#state);
  }

  /** A transition without a meaning in this state changes nothing. */
  move(transition: SessionTransition): void {
    const next = nextSessionState(this.#state, transition);
    if (next === null) return;
    this.#state = next;
    this.#onMoved();
  }

  end(transition: 'close' | 'fail', reason: string, code: ErrorCode | null = null): void {
    this.#reason = reason;
    this.#code = code;
    this.move(transition);
  }

  /** Why nobody can connect now, or null. */
  connectRefusal(): SegueError | null {
    if (this.ending) return new SegueError('session_closed', this.#reason ?? 'the session is closed');
    if (this.#state === 'created' || this.#state === 'waiting') return new SegueError('conflict', 'the session is not open yet');
    return null;
  }

  /** Why no request can be taken now, or null. */
  requestRefusal(): SegueError | null {
    // Nothing moves without a connection, so nothing could be applied in time.
    return this.connectRefusal() ?? (this.#state === 'orphaned' ? new SegueError('conflict', 'the session has no connection') : null);
  }
}
