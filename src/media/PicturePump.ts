import type { Clock, Timer } from '../observe/clock.ts';
import { frameDuration90k, type MediaFormat, type MediaTime90k } from '../streams/media_time.ts';
import type { VideoChunk } from '../streams/media_events.ts';
import type { PresentationAnchor, SessionWords } from '../streams/session_words.ts';
import type { SharedPool } from '../streams/shared_pool.ts';
import type { FenceEpoch } from './FenceEpoch.ts';
import { FrameQueue } from './FrameQueue.ts';
import { KeyframePolicy } from './KeyframePolicy.ts';
import type { EncodedPicture, VpxEncoder } from './native.ts';
import { rtpDistance, type RtpClock } from './RtpClock.ts';
import { drawStamp, stampOf } from './stamp.ts';
import type { Timeline } from './Timeline.ts';

/** From the arrival of the first frame to its leaving: room for its sound and for a timer's jitter, too short to be felt. */
export const PREROLL_MS = 5;
/** A held picture is repeated this often: at least once a second, also when a timer is late. */
export const REPEAT_INTERVAL_MS = 800;
/** Timers fire on whole milliseconds: a frame due within this is due now. */
const DUE_TOLERANCE_MS = 0.6;
/** A head that is due later than this is not early but on a timeline that jumped: it is taken as the new beginning. */
const MAX_AHEAD_MS = 1000;
/** No encoder of ours takes a tenth of this. */
const ENCODE_TIMEOUT_MS = 2000;
const MAX_CONSECUTIVE_FAILURES = 10;

export interface LeavingPicture {
  readonly encoded: EncodedPicture;
  readonly frame: VideoChunk;
  /** The held picture once more. */
  readonly repeat: boolean;
  readonly rtp: number;
  /** Due time, or the time of the repeat. */
  readonly atMs: number;
}

export interface PicturePumpEvents {
  anchored(anchor: PresentationAnchor): void;
  /** Encoded under the epoch that still stands; called once a picture, in order. */
  leave(picture: LeavingPicture): void;
  /** `fatal`: no picture will come any more. */
  failed(error: Error, fatal: boolean): void;
}

export interface PictureCounters {
  framesFenced: number;
  framesSkipped: number;
  /** Made anew before they were sent. */
  framesRecalled: number;
  underruns: number;
  encodeMsTotal: number;
}

/**
 * Lets raw pictures go when they are due and encodes them, one at a time. Held (nothing is due) before the first frame, on an
 * underrun, while paused, on hold or unwatched, and after a fence; then the last picture is repeated. A frame whose successor is due as well
 * is skipped: late frames never pile up. A frame that leaves is claimed first; one that the engine has recalled is dropped.
 *
 * The epoch is compared with the session's word after every encode: what was overtaken by a fence is not handed on, and the next
 * picture is a keyframe.
 */
export class PicturePump {
  readonly counters: PictureCounters = { framesFenced: 0, framesSkipped: 0, framesRecalled: 0, underruns: 0, encodeMsTotal: 0 };
  readonly #clock: Clock;
  readonly #rtp: RtpClock;
  readonly #words: Pick<SessionWords, 'writeAnchor' | 'outgoing'>;
  readonly #fence: FenceEpoch;
  readonly #timeline: Timeline;
  readonly #encoder: VpxEncoder;
  readonly #events: PicturePumpEvents;
  readonly #queue: FrameQueue;
  readonly #keyframes = new KeyframePolicy();
  readonly #format: MediaFormat;
  readonly #frameDuration90k: number;
  readonly #stamped: boolean;
  readonly #soundOutMs: () => number;
  /** The picture that is being encoded, and the last one that left: only that one is ever repeated. */
  #picture: Uint8Array;
  #held: Uint8Array;
  #shown: VideoChunk | null = null;
  /** End of the last frame taken in this epoch: what is due next. */
  #end90k: MediaTime90k | null = null;
  #lastRtp: number | null = null;
  #lastLeftMs = -Infinity;
  #watched = false;
  #paused = false;
  #onHold = false;
  #encoding = false;
  #failures = 0;
  #epoch: number;
  #closed = false;
  #timer: Timer | null = null;

  constructor(deps: {
    readonly clock: Clock;
    readonly rtp: RtpClock;
    readonly words: Pick<SessionWords, 'writeAnchor' | 'outgoing'>;
    readonly fence: FenceEpoch;
    readonly timeline: Timeline;
    readonly pool: SharedPool;
    readonly format: MediaFormat;
    readonly encoder: VpxEncoder;
    readonly stamped: boolean;
    /** Sound is out up to this time. */
    readonly soundOutMs: () => number;
    readonly events: PicturePumpEvents;
  }) {
    this.#clock = deps.clock;
    this.#rtp = deps.rtp;
    this.#words = deps.words;
    this.#fence = deps.fence;
    this.#timeline = deps.timeline;
    this.#encoder = deps.encoder;
    this.#events = deps.events;
    this.#format = deps.format;
    this.#stamped = deps.stamped;
    this.#soundOutMs = deps.soundOutMs;
    this.#epoch = deps.fence.epoch;
    this.#queue = new FrameQueue(deps.pool);
    this.#frameDuration90k = frameDuration90k(deps.format);
    this.#picture = new Uint8Array(deps.format.width * deps.format.height * 3);
    this.#held = new Uint8Array(this.#picture.length);
  }

  get queued(): number {
    return this.#queue.length;
  }

  /** Takes the frame's slot over; a frame of another epoch than the word's, or of a range that has left already, is dropped. */
  push(frame: VideoChunk, pool: SharedPool): void {
    this.#observeEpoch();
    const stale = frame.epoch !== this.#epoch;
    if (this.#closed || stale || (this.#end90k !== null && frame.start90k < this.#end90k)) {
      pool.release(frame.slot);
      if (stale) this.counters.framesFenced++;
      return;
    }
    this.#recall();
    this.#queue.push(frame);
    this.#step();
  }

  /** Unsent frames were recalled: their slots go back. */
  recall(): void {
    this.#recall();
    this.#step();
  }

  #recall(): number {
    const { outgoing } = this.#words;
    const latest = outgoing.revision;
    this.counters.framesRecalled += this.#queue.dropWhere(({ revision, end90k }) => outgoing.isVoid(revision, end90k, latest));
    return latest;
  }

  /** The head leaves the queue, sent or not: from here on it can't be recalled. False where it just was. */
  #claimHead(revision: number): boolean {
    return this.#words.outgoing.claim(this.#queue.head!.end90k, revision);
  }

  /** Whether anybody is connected; pictures don't run ahead unseen. */
  setWatched(watched: boolean): void {
    if (this.#watched === watched) return;
    this.#watched = watched;
    if (!watched) this.#timeline.hold();
    this.#step();
  }

  setPaused(paused: boolean): void {
    this.#paused = paused;
    if (paused) this.#timeline.hold();
    this.#step();
  }

  /** Stops for a while, and goes on exactly where it stopped. */
  setOnHold(onHold: boolean): void {
    if (this.#onHold === onHold) return;
    this.#onHold = onHold;
    if (onHold) this.#timeline.holdAt(this.#soundOutMs());
    this.#step();
  }

  /** The word was raised: drops what is older and holds until the new epoch's first frame. A fence also ends a pause, and a hold. */
  fence(): void {
    this.#observeEpoch();
    this.#step();
  }

  #observeEpoch(): void {
    const epoch = this.#fence.epoch;
    if (epoch === this.#epoch) return;
    this.#epoch = epoch;
    this.counters.framesFenced += this.#queue.dropWhere((frame) => frame.epoch !== epoch);
    this.#words.outgoing.restart();
    this.#timeline.fence();
    this.#end90k = null;
    this.#paused = false;
    this.#onHold = false;
  }

  requestKeyframe(): void {
    this.#keyframes.request();
    this.#step();
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#timer?.cancel();
    this.#queue.clear();
    this.#timeline.hold();
    this.#encoder.close();
  }

  /** Does what is due now and sets the timer for what comes next. Called on every change; cheap when nothing is due. */
  #step(): void {
    this.#timer?.cancel();
    this.#timer = null;
    this.#observeEpoch();
    if (this.#closed || !this.#watched || this.#encoding) return;
    const now = this.#clock.now();
    if (!this.#timeline.running && !this.#paused && !this.#onHold) {
      const { heldAt90k } = this.#timeline;
      // To the sample: a packet of silence that is out already has no room for the sound that comes next.
      if (heldAt90k !== null) this.#start(heldAt90k, Math.max(now + PREROLL_MS, this.#soundOutMs()));
      else if (this.#queue.head !== null) this.#start(this.#queue.head.start90k, now + PREROLL_MS);
    }
    const at = this.#timeline.running ? this.#flow(now) : this.#repeat(now);
    if (at !== null && !this.#encoding) this.#timer = this.#clock.schedule(at, () => this.#step());
  }

  #start(media90k: MediaTime90k, atMs: number): void {
    const anchor = this.#timeline.anchor(media90k, atMs);
    this.#words.writeAnchor(anchor);
    this.#events.anchored(anchor);
  }

  /** Running: the time of the next step, or null where a frame left for the encoder. */
  #flow(now: number): number | null {
    const revision = this.#recall();
    while (this.#queue.next !== null && this.#due(this.#queue.next.start90k) <= now) {
      if (!this.#claimHead(revision)) return this.#flow(now);
      this.#end90k = this.#queue.head!.end90k;
      this.#queue.dropHead();
      this.counters.framesSkipped++;
    }
    const head = this.#queue.head;
    if (head === null) {
      const emptyMs = this.#due(this.#end90k!);
      if (now < emptyMs - DUE_TOLERANCE_MS) return emptyMs;
      this.#timeline.hold();
      this.counters.underruns++;
      return this.#repeat(now);
    }
    let due = this.#due(head.start90k);
    if (due - now > MAX_AHEAD_MS) {
      this.#start(head.start90k, now + PREROLL_MS);
      due = this.#due(head.start90k);
    }
    if (due - now > DUE_TOLERANCE_MS) return due;
    if (!this.#claimHead(revision)) return this.#flow(now);
    this.#end90k = head.end90k;
    const decision = this.#keyframes.decide(now);
    if (decision === 'wait') {
      this.#queue.dropHead();
      this.counters.framesSkipped++;
      return this.#flow(now);
    }
    const frame = this.#queue.take(this.#picture);
    if (this.#stamped) drawStamp(this.#picture, this.#format.width, stampOf(frame.epoch, frame.start90k, this.#frameDuration90k));
    this.#encode(frame, false, due, decision === 'key');
    return null;
  }

  /** Held: repeats the picture when it is time, or at once where a receiver waits for a keyframe. */
  #repeat(now: number): number | null {
    if (this.#shown === null) return null;
    const decision = this.#keyframes.decide(now);
    const at = this.#lastLeftMs + REPEAT_INTERVAL_MS;
    if (decision === 'wait' || (decision === 'delta' && now < at)) return Math.min(at, now + 50);
    this.#encode(this.#shown, true, now, decision === 'key');
    return null;
  }

  #due(media90k: MediaTime90k): number {
    return this.#timeline.dueMs(media90k)!;
  }

  #encode(frame: VideoChunk, repeat: boolean, atMs: number, keyframe: boolean): void {
    this.#encoding = true;
    const epoch = this.#epoch;
    const watchdog = this.#clock.schedule(this.#clock.now() + ENCODE_TIMEOUT_MS, () =>
      this.#events.failed(new Error(`the encoder has not answered for ${ENCODE_TIMEOUT_MS} ms`), true),
    );
    let result: Promise<EncodedPicture>;
    try {
      result = this.#encoder.encode(repeat ? this.#held : this.#picture, { format: 'rgb24', keyframe });
    } catch (error) {
      result = Promise.reject(error instanceof Error ? error : new Error(String(error)));
    }
    result.then(
      (encoded) => {
        watchdog.cancel();
        this.#encoded(encoded, frame, repeat, atMs, epoch);
      },
      (error: unknown) => {
        watchdog.cancel();
        this.#failed(error instanceof Error ? error : new Error(String(error)));
      },
    );
  }

  #encoded(encoded: EncodedPicture, frame: VideoChunk, repeat: boolean, atMs: number, epoch: number): void {
    this.#encoding = false;
    if (this.#closed) return;
    this.#failures = 0;
    this.counters.encodeMsTotal += encoded.encodeMs;
    const now = this.#clock.now();
    if (epoch !== this.#fence.epoch || !this.#watched) {
      this.#keyframes.require();
      if (epoch !== this.#fence.epoch) this.counters.framesFenced++;
    } else {
      if (encoded.keyframe) this.#keyframes.sent(now);
      this.#lastLeftMs = now;
      if (!repeat) this.#show(frame);
      this.#events.leave({ encoded, frame, repeat, rtp: this.#nextRtp(atMs), atMs });
    }
    this.#step();
  }

  #show(frame: VideoChunk): void {
    this.#shown = frame;
    [this.#picture, this.#held] = [this.#held, this.#picture];
  }

  #failed(error: Error): void {
    this.#encoding = false;
    if (this.#closed) return;
    this.#keyframes.require();
    this.#lastLeftMs = this.#clock.now();
    this.#failures++;
    this.#events.failed(error, this.#failures === MAX_CONSECUTIVE_FAILURES);
    this.#step();
  }

  /** RTP time of a due time; strictly rising, also where a repeat and a frame fall together. */
  #nextRtp(atMs: number): number {
    let rtp = this.#rtp.video(atMs);
    if (this.#lastRtp !== null && rtpDistance(rtp, this.#lastRtp) <= 0) rtp = (this.#lastRtp + 1) >>> 0;
    this.#lastRtp = rtp;
    return rtp;
  }
}
