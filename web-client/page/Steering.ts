import type { Speed, Steer } from '../sdk/ActionState.ts';

/** Anything that can steer: each says what it holds, and the newest that holds something counts. */
export type SteerSource = 'keyboard' | 'touch' | 'gamepad';

/** Joins keyboard, touch and gamepad into one held state. */
export class Steering {
  readonly #changed: (action: { readonly steer: Steer; readonly speed: Speed }) => void;
  /** In order of the last change, newest last. */
  readonly #held = new Map<SteerSource, Steer>();
  #speed: Speed = 2;

  constructor(changed: (action: { readonly steer: Steer; readonly speed: Speed }) => void) {
    this.#changed = changed;
  }

  get speed(): Speed {
    return this.#speed;
  }

  get steer(): Steer {
    return [...this.#held.values()].findLast((steer) => steer !== 0) ?? 0;
  }

  hold(source: SteerSource, steer: Steer): void {
    if ((this.#held.get(source) ?? 0) === steer) return;
    this.#held.delete(source);
    this.#held.set(source, steer);
    this.#tell();
  }

  /** Lets go of everything: the window has lost the keyboard, or the session is over. */
  releaseAll(): void {
    this.#held.clear();
    this.#tell();
  }

  setSpeed(speed: Speed): void {
    this.#speed = speed;
    this.#tell();
  }

  changeSpeed(by: 1 | -1): void {
    this.setSpeed(Math.min(3, Math.max(0, this.#speed + by)) as Speed);
  }

  #tell(): void {
    this.#changed({ steer: this.steer, speed: this.#speed });
  }
}
