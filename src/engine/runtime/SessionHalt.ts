import type { Clock } from '../../observe/clock.ts';
import { ProvisionalHold } from '../../streams/ProvisionalHold.ts';

/** What a request that turns out not to be understood leaves as it was. */
export interface HaltedBy {
  readonly interrupted: boolean;
  readonly paused: boolean;
}

/** Why a session makes nothing: interrupted or paused by its driver, until somebody asks for something that flows, on hold for a moment, or waiting for an earlier story. */
export class SessionHalt {
  readonly #hold: ProvisionalHold;
  #interrupted = false;
  #paused = false;
  #awaitsStory = false;

  /** @param holdExpired called after a hold has ended by itself, with the id of the request that began it. */
  constructor(clock: Clock, holdExpired: (requestId: string) => void) {
    this.#hold = new ProvisionalHold(clock, holdExpired);
  }

  /** Interrupted, paused, on hold or waiting: no step is planned. */
  get stopped(): boolean {
    return this.#interrupted || this.#paused || this.#hold.active || this.#awaitsStory;
  }

  /** What may be made ahead of a request: `held` is from what is on the screen, as it won't move until somebody asks. */
  get ahead(): 'flowing' | 'held' | 'none' {
    if (this.#paused || this.#hold.active || this.#awaitsStory) return 'none';
    return this.#interrupted ? 'held' : 'flowing';
  }

  get by(): HaltedBy {
    return { interrupted: this.#interrupted, paused: this.#paused };
  }

  interrupt(): void {
    this.restore({ interrupted: true, paused: false });
  }

  pause(): void {
    this.#paused = true;
  }

  /** Whatever stopped it but a hold is over. */
  go(): void {
    this.restore({ interrupted: false, paused: false });
  }

  restore({ interrupted, paused }: HaltedBy): void {
    this.#interrupted = interrupted;
    this.#paused = paused;
  }

  /** What it is to go on from is being read. */
  awaitStory(awaits: boolean): void {
    this.#awaitsStory = awaits;
  }

  hold(requestId: string): void {
    this.#hold.begin(requestId);
  }

  release(): void {
    this.#hold.end();
  }
}
