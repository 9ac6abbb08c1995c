import { mediaTime90kToMs, type MediaTime90k } from '../../streams/media_time.ts';
import type { PresentationAnchor, SessionWords } from '../../streams/session_words.ts';

/**
 * When a session's media is due, and how early its making may start. The media thread anchors media time to the wall clock where it
 * sends the first frame; until it has (at the start, and after every fence) media is wanted at once, but no more than a chunk of it.
 */
export class PresentationTimeline {
  /** Where nothing is late. */
  readonly leastLookAheadMs: number;
  readonly #mostLookAheadMs: number;
  #lookAheadMs: number;
  #held = false;
  readonly #words: Pick<SessionWords, 'anchor'>;
  readonly #chunk90k: MediaTime90k;
  /** The anchor that a fence made void; null where none was. */
  #void: PresentationAnchor | null;
  #base90k: MediaTime90k;
  #detachedAtMs: number;
  #flowing = false;

  /**
   * @param lookAheadMs how long before its first frame is due a chunk is begun, where everything is in time. It grows when frames come late,
   * to {@link MAX_LOOK_AHEAD_MS} or one chunk at most, so that actions land late, and shrinks again when they don't.
   */
  constructor({ words, lookAheadMs, chunk90k, nowMs }: { readonly words: Pick<SessionWords, 'anchor'>; readonly lookAheadMs: number; readonly chunk90k: MediaTime90k; readonly nowMs: number }) {
    const limit = Math.min(MAX_LOOK_AHEAD_MS, mediaTime90kToMs(chunk90k));
    if (!(lookAheadMs > 0)) throw new TypeError(`lookAheadMs must be positive, got ${lookAheadMs}`);
    this.leastLookAheadMs = Math.min(lookAheadMs, limit);
    this.#mostLookAheadMs = limit;
    this.#lookAheadMs = this.leastLookAheadMs;
    this.#words = words;
    this.#chunk90k = chunk90k;
    this.#void = words.anchor;
    this.#base90k = 0;
    this.#detachedAtMs = nowMs;
  }

  /** How long before its first frame is due a chunk is begun, ms. */
  get lookAheadMs(): number {
    return this.#lookAheadMs;
  }

  /** Whether chunks are begun as early as can be, whatever comes in time: where a device can't hold its deadlines. */
  holdLongest(hold: boolean): void {
    this.#held = hold;
    if (hold) this.#lookAheadMs = this.#mostLookAheadMs;
  }

  /** A frame became ready so long before it was due; negative where it came late. */
  ready(slackMs: number): void {
    if (this.#held) return;
    const wanted = slackMs < LEAST_SLACK_MS ? this.#lookAheadMs + LEAST_SLACK_MS - slackMs : slackMs > EASY_SLACK_MS ? this.#lookAheadMs - EASE_MS : this.#lookAheadMs;
    this.#lookAheadMs = Math.min(this.#mostLookAheadMs, Math.max(this.leastLookAheadMs, wanted));
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
    if (presentation !== null) return presentation - this.#lookAheadMs;
    return media90k - this.#base90k < this.#chunk90k ? -Infinity : Infinity;
  }

  /** When media must be ready. Unanchored media counts from the fence: a look-ahead later, then in step. */
  deadlineMs(media90k: MediaTime90k): number {
    return this.presentationMs(media90k) ?? this.#detachedAtMs + this.#lookAheadMs + mediaTime90kToMs(media90k - this.#base90k);
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
/** A frame that is ready less than this before it is due was lucky: the way to the media thread and a timer are still to come. */
const LEAST_SLACK_MS = 10;
/** With so much to spare, the look-ahead shrinks by {@link EASE_MS} a frame: from its greatest to its least in seconds, not at the first calm chunk. */
const EASY_SLACK_MS = 40;
const EASE_MS = 0.5;
