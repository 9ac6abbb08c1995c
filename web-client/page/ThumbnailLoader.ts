import type { SessionStory } from '../sdk/index.ts';
import type { TimelineCell } from './timeline_cells.ts';

interface Wanted {
  readonly cell: Pick<TimelineCell, 'from90k' | 'abandoned' | 'branch'>;
  readonly story: SessionStory;
  readonly show: (url: string) => void;
  tries: number;
}

const WIDTH = 128;
const MAX_TRIES = 3;
/** A frame that was just presented is on the server's disk a moment later. */
const RETRY_MS = 1_500;
/** Pictures that wait for theirs; the oldest give way: what is scrolled to now is wanted now. */
const MAX_WANTED = 64;

/** Small pictures of a timeline, one after the other, while the browser has nothing else to do: the stream comes first. */
export class ThumbnailLoader {
  readonly #wanted: Wanted[] = [];
  readonly #urls: string[] = [];
  #aborted = new AbortController();
  #busy = false;

  want(story: SessionStory, cell: Wanted['cell'], show: (url: string) => void): void {
    this.#wanted.push({ story, cell, show, tries: 0 });
    if (this.#wanted.length > MAX_WANTED) this.#wanted.shift();
    this.#next();
  }

  /** Lets go of all pictures. */
  clear(): void {
    this.#aborted.abort();
    this.#aborted = new AbortController();
    this.#wanted.length = 0;
    for (const url of this.#urls.splice(0)) URL.revokeObjectURL(url);
  }

  #next(): void {
    if (this.#busy) return;
    const wanted = this.#wanted.pop();
    if (wanted === undefined) return;
    this.#busy = true;
    void this.#load(wanted, this.#aborted.signal).finally(() => {
      this.#busy = false;
      idle(() => this.#next());
    });
  }

  async #load(wanted: Wanted, signal: AbortSignal): Promise<void> {
    try {
      const { from90k, abandoned, branch } = wanted.cell;
      const blob = await wanted.story.picture(from90k, { width: WIDTH, signal, ...(abandoned ? { branch } : {}) });
      if (signal.aborted) return;
      const url = URL.createObjectURL(blob);
      this.#urls.push(url);
      wanted.show(url);
    } catch {
      // Not there yet, or the server has no time for it: a timeline can be without one.
      if (signal.aborted || ++wanted.tries >= MAX_TRIES) return;
      setTimeout(() => {
        if (signal.aborted) return;
        this.#wanted.unshift(wanted);
        this.#next();
      }, RETRY_MS * wanted.tries);
    }
  }
}

function idle(run: () => void): void {
  if ('requestIdleCallback' in window) requestIdleCallback(run, { timeout: 1_000 });
  else setTimeout(run, 50);
}
