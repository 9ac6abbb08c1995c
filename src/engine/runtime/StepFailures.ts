import type { WorkPlan } from '../model/work.ts';
import { stepOf } from './WorkSource.ts';

/** In a row, or of the same step: it is tried again, then made anew after the last frame that went out, then the session ends. */
const REMAKE_AT = 2;
const END_AT = 3;

/** Counts what fails until something is committed again. A step that fails whenever the ones before it succeed must not be tried for ever. */
export class StepFailures {
  readonly #ofStep = new Map<string, number>();
  #inARow = 0;

  /** A step has failed and is to be tried again. */
  get any(): boolean {
    return this.#ofStep.size > 0;
  }

  failed(plan: WorkPlan): 'retry' | 'remake' | 'end' {
    const ofStep = (this.#ofStep.get(stepOf(plan)) ?? 0) + 1;
    this.#ofStep.set(stepOf(plan), ofStep);
    this.#inARow = Math.max(this.#inARow + 1, ofStep);
    return this.#inARow >= END_AT ? 'end' : this.#inARow === REMAKE_AT ? 'remake' : 'retry';
  }

  committed(plan: WorkPlan): void {
    this.#inARow = 0;
    this.#ofStep.delete(stepOf(plan));
  }
}
