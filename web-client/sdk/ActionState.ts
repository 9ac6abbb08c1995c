import type { ActionInput } from './messages.ts';

export type Steer = -1 | 0 | 1;
export type Speed = 0 | 1 | 2 | 3;

const SEQUENCE_MASK = 0x7fffffff;

/**
 * What is held down now, with a counter of presses per direction, so that a tap that begins and ends between two messages (or whose message is lost) is still seen.
 * Every message carries all of it: a lost one costs nothing once the next arrives. The sequence counts changes, not messages: it tells the server which message is
 * newest, whether anybody does anything, and names the change in what is painted.
 */
export class ActionState {
  #steer: Steer = 0;
  #speed: Speed;
  #leftPresses = 0;
  #rightPresses = 0;
  #sequence = 0;

  constructor(speed: Speed) {
    this.#speed = speed;
  }

  get steer(): Steer {
    return this.#steer;
  }

  get speed(): Speed {
    return this.#speed;
  }

  /** Returns whether anything changed. Throws TypeError for values outside −1…1 and 0…3. */
  set(action: { readonly steer?: Steer; readonly speed?: Speed }): boolean {
    const steer = action.steer ?? this.#steer;
    const speed = action.speed ?? this.#speed;
    if (![-1, 0, 1].includes(steer)) throw new TypeError(`steer must be −1, 0 or 1, not ${String(steer)}`);
    if (![0, 1, 2, 3].includes(speed)) throw new TypeError(`speed must be 0, 1, 2 or 3, not ${String(speed)}`);
    if (steer === this.#steer && speed === this.#speed) return false;
    if (steer !== this.#steer && steer === -1) this.#leftPresses = (this.#leftPresses + 1) & SEQUENCE_MASK;
    if (steer !== this.#steer && steer === 1) this.#rightPresses = (this.#rightPresses + 1) & SEQUENCE_MASK;
    this.#steer = steer;
    this.#speed = speed;
    this.touch();
    return true;
  }

  /** Somebody is there, though nothing changes. */
  touch(): void {
    this.#sequence = (this.#sequence + 1) & SEQUENCE_MASK;
  }

  message(): ActionInput {
    return { type: 'action', sequence: this.#sequence, steer: this.#steer, speed: this.#speed, leftPresses: this.#leftPresses, rightPresses: this.#rightPresses };
  }
}
