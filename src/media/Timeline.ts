import type { PresentationAnchor } from '../streams/session_words.ts';
import { mediaTime90kToMs, msToMediaTime90k, type MediaTime90k } from '../streams/media_time.ts';

/**
 * When each media time leaves the server. Either *running* (an anchor ties one media time to one monotonic time) or *held*
 * (nothing is due). A pure value with a clock passed in: it sets no timer.
 */
export class Timeline {
  #anchor: PresentationAnchor | null = null;
  #heldAt90k: MediaTime90k | null = null;

  get running(): boolean {
    return this.#anchor !== null;
  }

  /** Monotonic time of the anchor: nothing was due before it. Infinite while held. */
  get beginMs(): number {
    return this.#anchor?.atMs ?? Infinity;
  }

  /** Where {@link holdAt} stopped it: what is due next, to the sample. Null where it simply holds. */
  get heldAt90k(): MediaTime90k | null {
    return this.#heldAt90k;
  }

  /** From here on `mediaTime90k` is due at `atMs`. Returns what was set, for the session's words. */
  anchor(mediaTime90k: MediaTime90k, atMs: number): PresentationAnchor {
    this.#anchor = { mediaTime90k, atMs };
    this.#heldAt90k = null;
    return this.#anchor;
  }

  hold(): void {
    this.#anchor = null;
  }

  /** Holds, and remembers where: all that is due before `atMs` is out, and nothing after it. */
  holdAt(atMs: number): void {
    this.#heldAt90k = this.mediaAt(atMs) ?? this.#heldAt90k;
    this.#anchor = null;
  }

  /** Holds for another story: where this one stopped means nothing to it. */
  fence(): void {
    this.#anchor = null;
    this.#heldAt90k = null;
  }

  /** Monotonic time at which a media time is due; null while held. */
  dueMs(media90k: MediaTime90k): number | null {
    return this.#anchor === null ? null : this.#anchor.atMs + mediaTime90kToMs(media90k - this.#anchor.mediaTime90k);
  }

  /** Media time that is due at a monotonic time (fractional ticks kept out); null while held. */
  mediaAt(atMs: number): MediaTime90k | null {
    return this.#anchor === null ? null : this.#anchor.mediaTime90k + msToMediaTime90k(atMs - this.#anchor.atMs);
  }
}
