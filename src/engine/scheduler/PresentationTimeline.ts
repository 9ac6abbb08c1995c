import { mediaTime90kToMs, type MediaTime90k } from '../../streams/media_time.ts';
import type { PresentationAnchor, SessionWords } from '../../streams/session_words.ts';

/**
 * When a session's media is due, and how early its making may start. The media thread anchors media time to the wall clock where it
 * sends the first frame; until it has (at the start, and after every fence) media is wanted at once, but no more than a chunk of it.
 */
export class PresentationTimeline {
  readonly lookAheadMs: number;
  readonly #words: Pick<SessionWords, 'anchor'>;
  readonly #chunk90k: MediaTime90k;
  /** The anchor that a fence made void; null where none was. */
  #void: PresentationAnchor | null;
  #base90k: MediaTime90k;
  #detachedAtMs: number;
  #flowing = false;

  /** @param lookAheadMs how long before its first frame is due a chunk is begun; at most {@link MAX_LOOK_AHEAD_MS} and one chunk, so that actions land late. */
  constructor({ words, lookAheadMs, chunk90k, nowMs }: { readonly words: Pick<SessionWords, 'anchor'>; readonly lookAheadMs: number; readonly chunk90k: MediaTime90k; readonly nowMs: number }) {
    const limit = Math.min(MAX_LOOK_AHEAD_MS, mediaTime90kToMs(chunk90k));
    if (!(lookAheadMs > 0)) throw new TypeError(`lookAheadMs must be positive, got ${lookAheadMs}`);
    this.lookAheadMs = Math.min(lookAheadMs, limit);
    this.#words = words;
    this.#chunk90k = chunk90k;
    this.#void = words.anchor;
    this.#base90k = 0;
    this.#detachedAtMs = nowMs;
  }

  /** After a fence: media goes on from `position90k`, on an anchor that is yet to come. */
  detach(nowMs: number, position90k: MediaTime90k): void {
    this.#void = this.#words.anchor;
    this.#base90k = position90k;
    this.#detachedAtMs = nowMs;
    this.#flowing = false;
  }

  /** A frame was handed to media: from here on a new anchor counts. */
  flowing(): void {
    this.#flowing = true;
  }

  /** When media is presented, monotonic ms; null while the timeline isn't anchored. */
  presentationMs(media90k: MediaTime90k): number | null {
    const anchor = this.#anchor();
    return anchor === null ? null : anchor.atMs + mediaTime90kToMs(media90k - anchor.mediaTime90k);
  }

  /** When a chunk whose first frame is `media90k` may be begun; `Infinity` = not before the timeline is anchored. */
  releaseMs(media90k: MediaTime90k): number {
    const presentation = this.presentationMs(media90k);
    if (presentation !== null) return presentation - this.lookAheadMs;
    return media90k - this.#base90k < this.#chunk90k ? -Infinity : Infinity;
  }

  /** When media must be ready. Unanchored media counts from the fence: a look-ahead later, then in step. */
  deadlineMs(media90k: MediaTime90k): number {
    return this.presentationMs(media90k) ?? this.#detachedAtMs + this.lookAheadMs + mediaTime90kToMs(media90k - this.#base90k);
  }

  #anchor(): PresentationAnchor | null {
    if (!this.#flowing) return null;
    const anchor = this.#words.anchor;
    if (anchor === null || (this.#void !== null && anchor.atMs === this.#void.atMs && anchor.mediaTime90k === this.#void.mediaTime90k)) return null;
    return anchor;
  }
}

/** Bound on how old a held action may be when the frame it shaped is shown. */
export const MAX_LOOK_AHEAD_MS = 250;
