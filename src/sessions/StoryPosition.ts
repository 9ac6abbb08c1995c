import type { MediaTime90k } from '../streams/media_time.ts';

/** How far a session's story has come, as media time: what was sent, what its driver saw, what can't be taken back. */
export class StoryPosition {
  #sent90k: MediaTime90k = 0;
  #presented90k: MediaTime90k = 0;
  #committed90k: MediaTime90k = 0;

  get sent90k(): MediaTime90k {
    return this.#sent90k;
  }

  get presented90k(): MediaTime90k {
    return this.#presented90k;
  }

  get committed90k(): MediaTime90k {
    return this.#committed90k;
  }

  /** What the media thread has sent and knows to be seen, in the epoch in force. */
  report(sent90k: MediaTime90k, presented90k: MediaTime90k): void {
    this.#sent90k = sent90k;
    this.#presented90k = presented90k;
  }

  /** A fence: the story goes on from what was seen. */
  rewindTo(presented90k: MediaTime90k): void {
    this.#presented90k = presented90k;
  }

  /** A story that comes back: all of it was seen. */
  restore(at90k: MediaTime90k): void {
    this.#sent90k = this.#presented90k = this.#committed90k = at90k;
  }

  /** Committed never goes back, so a commit that was told before a fence still counts: the engine won't say it again. */
  commit(at90k: MediaTime90k): void {
    this.#committed90k = Math.max(this.#committed90k, at90k);
  }
}
