import type { MediaTime90k } from '../streams/media_time.ts';

/** How far a session's story has come, as media time: what was sent, what its driver saw, what can't be taken back. */
export class StoryPosition {
  #sent90k: MediaTime90k = 0;
  #presented90k: MediaTime90k = 0;
  #committed90k: MediaTime90k = 0;
  #branch = 0;
  /** Where the story was gone back to, until something of what follows was sent: nothing later is part of it. */
  #end90k: MediaTime90k | null = null;
  #reported: { readonly epoch: number; readonly media90k: MediaTime90k } | null = null;

  get sent90k(): MediaTime90k {
    return this.#sent90k;
  }

  /** Branch of the story that it is in. */
  get branch(): number {
    return this.#branch;
  }

  get presented90k(): MediaTime90k {
    return this.#presented90k;
  }

  get committed90k(): MediaTime90k {
    return this.#committed90k;
  }

  /** What was reported as presented since the last fence; null: nothing, and what was seen then went with the request that fenced. */
  get reported(): { readonly epoch: number; readonly media90k: MediaTime90k } | null {
    return this.#reported;
  }

  /** What the media thread has sent and knows to be seen, in the epoch in force. */
  report(sent90k: MediaTime90k, presented90k: MediaTime90k, epoch: number): void {
    this.#reported = { epoch, media90k: presented90k };
    this.#sent90k = sent90k;
    this.#presented90k = presented90k;
    this.#end90k = null;
  }

  /** What was in front of the driver, as a position in the story. */
  held(media90k: MediaTime90k): MediaTime90k {
    return Math.min(media90k, this.#end90k ?? Infinity);
  }

  /** A fence: the story goes on from what was seen. */
  rewindTo(presented90k: MediaTime90k): void {
    this.#reported = null;
    this.#presented90k = presented90k;
  }

  /** The story goes on from there as another branch: committed goes back with it, to `whole90k` at most. */
  returnTo(at90k: MediaTime90k, branch: number, whole90k: MediaTime90k): void {
    this.#reported = null;
    this.#sent90k = this.#presented90k = this.#end90k = at90k;
    this.#committed90k = Math.min(this.#committed90k, whole90k);
    this.#branch = branch;
  }

  /** A story that comes back: all of it was seen. */
  restore(at90k: MediaTime90k, branch: number, whole90k = at90k): void {
    this.#branch = branch;
    this.#sent90k = this.#presented90k = at90k;
    this.#committed90k = whole90k;
  }

  /** But for a rewind committed never goes back, so a commit that was told before a fence still counts: the engine won't say it again. What is told of another branch comes too late. */
  commit(at90k: MediaTime90k, branch = this.#branch): void {
    if (branch === this.#branch) this.#committed90k = Math.max(this.#committed90k, at90k);
  }
}
