import type { ActionState } from '../../streams/session_words.ts';
import type { HeldAction } from './LoopScheduler.ts';

/**
 * Makes a tap that is shorter than a step felt for one step. The held state alone would lose it: pressed and released between two
 * readings, it looks as if nothing had happened. The press counters tell.
 */
export class ActionLatch {
  #left: number;
  #right: number;

  constructor({ leftPresses, rightPresses }: Pick<ActionState, 'leftPresses' | 'rightPresses'>) {
    this.#left = leftPresses;
    this.#right = rightPresses;
  }

  /** The action for a step that is planned now. A held key wins over a tap; taps to both sides cancel out. */
  read({ sequence, steer, speed, leftPresses, rightPresses }: ActionState): HeldAction {
    if (steer !== 0) return { sequence, steer, speed };
    const tapped = Number(rightPresses !== this.#right) - Number(leftPresses !== this.#left);
    return { sequence, steer: tapped, speed };
  }

  /** A step that read this action was committed: its taps have been felt. A step that was thrown away doesn't count. */
  felt({ leftPresses, rightPresses }: Pick<ActionState, 'leftPresses' | 'rightPresses'>): void {
    this.#left = leftPresses;
    this.#right = rightPresses;
  }
}
