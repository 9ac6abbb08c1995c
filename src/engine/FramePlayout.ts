import type { Clock } from '../observe/clock.ts';
import type { AudioChunk, MediaChunk, VideoChunk } from '../streams/media_events.ts';
import { mediaTime90kToMs } from '../streams/media_time.ts';
import type { SessionWords } from '../streams/session_words.ts';
import type { SharedPool } from '../streams/shared_pool.ts';

/** Picture and sound of one frame's time, in slots that are whoever's who takes it. */
export interface PlayoutFrame {
  readonly video: VideoChunk;
  readonly audio: AudioChunk;
}

/** What `next` says: a frame that is due; when to look again; or that something must come first. */
export type PlayoutStep = { readonly frame: PlayoutFrame } | { readonly atMs: number } | null;

/** Timers fire on whole milliseconds: a frame due within this is due now. */
const DUE_TOLERANCE_MS = 0.6;
/** A frame that is taken later than this moves the timeline, as an underrun does: what comes after follows it in step. Half a frame at 12 frames/s. */
const LATE_MS = 40;

/**
 * Frames of a live session that wait for whoever watches it in this process, in the place of a media thread: each goes out when it is due and is
 * claimed first; what was recalled or fenced before that is let go of. Bounded by the slots of the session's pools; drops nothing that is late.
 */
export class FramePlayout {
  readonly #clock: Clock;
  readonly #words: SessionWords;
  readonly #pools: Readonly<Record<'video' | 'audio', SharedPool>>;
  readonly #anchored: () => void;
  #frames: PlayoutFrame[] = [];
  /** Its sound follows with the next event. */
  #video: VideoChunk | null = null;
  #running = false;
  #paused = false;

  /** @param anchored the timeline moved: deadlines must be read anew. */
  constructor({ clock, words, pools, anchored }: { readonly clock: Clock; readonly words: SessionWords; readonly pools: Readonly<Record<'video' | 'audio', SharedPool>>; readonly anchored: () => void }) {
    this.#clock = clock;
    this.#words = words;
    this.#pools = pools;
    this.#anchored = anchored;
  }

  /** Takes over the slot of a chunk, whatever becomes of it. Picture first, then its sound. */
  push(chunk: MediaChunk): void {
    if (chunk.epoch !== this.#words.epoch) this.#pools[chunk.kind].release(chunk.slot);
    else if (chunk.kind === 'video') this.#video = chunk;
    else if (this.#video !== null) {
      this.#frames.push({ video: this.#video, audio: chunk });
      this.#video = null;
    }
  }

  next(): PlayoutStep {
    for (;;) {
      const { outgoing } = this.#words;
      const latest = outgoing.revision;
      this.#dropWhere(({ video: { revision, end90k } }) => outgoing.isVoid(revision, end90k, latest));
      const [head] = this.#frames;
      if (head === undefined || this.#paused) return null;
      const nowMs = this.#clock.now();
      const dueMs = this.#dueMs(head.video);
      if (dueMs !== null && dueMs > nowMs + DUE_TOLERANCE_MS) return { atMs: dueMs };
      // Recalled just now: look again at what is void.
      if (!outgoing.claim(head.video.end90k, latest)) continue;
      this.#frames.shift();
      if (dueMs === null || nowMs > dueMs + LATE_MS) this.#anchor(head.video, nowMs);
      return { frame: head };
    }
  }

  /** What was recalled gives its slots back at once: the same range comes anew and needs them. */
  recall(): void {
    const { outgoing } = this.#words;
    const latest = outgoing.revision;
    this.#dropWhere(({ video: { revision, end90k } }) => outgoing.isVoid(revision, end90k, latest));
  }

  /** The word was raised: nothing older goes out, and the timeline begins anew. Ends a pause. */
  fence(): void {
    this.#dropWhere(() => true);
    this.#words.outgoing.restart();
    this.#running = false;
    this.#paused = false;
  }

  pause(paused: boolean): void {
    this.#paused = paused;
    this.#running = false;
  }

  close(): void {
    this.#dropWhere(() => true);
    if (this.#video !== null) this.#pools.video.release(this.#video.slot);
    this.#video = null;
  }

  #dueMs({ start90k }: VideoChunk): number | null {
    const { anchor } = this.#words;
    return this.#running && anchor !== null ? anchor.atMs + mediaTime90kToMs(start90k - anchor.mediaTime90k) : null;
  }

  #anchor({ start90k }: VideoChunk, atMs: number): void {
    this.#running = true;
    this.#words.writeAnchor({ mediaTime90k: start90k, atMs });
    this.#anchored();
  }

  #dropWhere(isVoid: (frame: PlayoutFrame) => boolean): void {
    this.#frames = this.#frames.filter((frame) => {
      if (!isVoid(frame)) return true;
      this.#pools.video.release(frame.video.slot);
      this.#pools.audio.release(frame.audio.slot);
      return false;
    });
  }
}
