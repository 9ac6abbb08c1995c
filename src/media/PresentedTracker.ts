import type { HeldPosition } from '../streams/messages.ts';
import type { MediaTime90k } from '../streams/media_time.ts';
import { rtpDistance } from './RtpClock.ts';

export interface SentFrame {
  readonly rtp: number;
  /** Epoch of the picture; a repeat keeps its picture's. */
  readonly epoch: number;
  readonly start90k: MediaTime90k;
  readonly end90k: MediaTime90k;
  readonly chunk: number;
  readonly atMs: number;
}

export interface SentSound {
  readonly rtp: number;
  readonly epoch: number;
  readonly start90k: MediaTime90k;
}

export interface ClientPosition {
  readonly videoRtp?: number | undefined;
  readonly audioRtp?: number | undefined;
}

/** 40 s of pictures at 12 a second, 5 s of sound: longer than any jitter buffer. */
const FRAMES_KEPT = 480;
const SOUNDS_KEPT = 256;
const HORIZON_CHUNKS = 2;
/** A report stands in for a missing held position for this long. */
const REPORT_VALID_MS = 100;
/** Reports come every 100 ms; more than about twenty a second tell nothing new. */
const REPORT_INTERVAL_MS = 45;
/** Until a client has reported: encode, network, jitter buffer and compositor of a nearby browser. */
const DEFAULT_PLAYOUT_DELAY_MS = 100;
const DELAYS_KEPT = 16;
/** A timestamp that is not that of a sent packet may be this far past one. */
const RTP_TOLERANCE_VIDEO = 90_000;
const RTP_TOLERANCE_AUDIO = 4_800;

/**
 * What the driver has seen and heard, in media time: maps the RTP timestamps that its browser reports to the frames that were sent.
 * The client is not trusted: a position is clamped to [sent − 2 chunks, sent], never goes back within an epoch, and one that was never
 * sent is ignored. Positions are ends of frames: the frame that contains a position counts as presented.
 */
export class PresentedTracker {
  readonly #frameDuration90k: number;
  #frames: SentFrame[] = [];
  #sounds: SentSound[] = [];
  #epoch: number;
  #sent90k: MediaTime90k = 0;
  #presented90k: MediaTime90k = 0;
  #chunkDuration90k: number;
  #chunk: { readonly index: number; readonly start90k: MediaTime90k } | null = null;
  #lastReportMs = -Infinity;
  #delays: number[] = [];

  /** @param from90k where the story begins, or is gone on with: all before that counts as seen. */
  constructor(epoch: number, frameDuration90k: number, from90k: MediaTime90k = 0) {
    this.#epoch = epoch;
    this.#sent90k = this.#presented90k = from90k;
    this.#frameDuration90k = frameDuration90k;
    this.#chunkDuration90k = 2 * frameDuration90k;
  }

  get epoch(): number {
    return this.#epoch;
  }

  /** End of the last frame of this epoch that left the server; where the epoch began, before the first. */
  get sent90k(): MediaTime90k {
    return this.#sent90k;
  }

  get presented90k(): MediaTime90k {
    return this.#presented90k;
  }

  /** From the packet's sending to the report of its painting, milliseconds: the least of the last reports, which carries the least waiting. */
  get playoutDelayMs(): number {
    return this.#delays.length === 0 ? DEFAULT_PLAYOUT_DELAY_MS : Math.min(...this.#delays);
  }

  /** Returns whether the presented position moved (the horizon passed it). */
  frameSent(frame: SentFrame): boolean {
    const first = frame.epoch === this.#epoch && this.#frames.at(-1)?.epoch !== frame.epoch;
    this.#frames.push(frame);
    if (this.#frames.length > FRAMES_KEPT) this.#frames.shift();
    if (frame.epoch !== this.#epoch) return false;
    // The epoch begins there: before what was held, where the story goes back, or behind it, where a replay goes on from later.
    if (first) this.#presented90k = this.#sent90k = frame.start90k;
    if (this.#chunk?.index !== frame.chunk) {
      if (this.#chunk !== null && frame.start90k > this.#chunk.start90k) this.#chunkDuration90k = frame.start90k - this.#chunk.start90k;
      this.#chunk = { index: frame.chunk, start90k: frame.start90k };
    }
    this.#sent90k = Math.max(this.#sent90k, frame.end90k);
    return this.#advance(this.#presented90k);
  }

  soundSent(sound: SentSound): void {
    this.#sounds.push(sound);
    if (this.#sounds.length > SOUNDS_KEPT) this.#sounds.shift();
  }

  /** A `position` message of the driver. Returns whether the presented position moved. */
  report(position: ClientPosition, nowMs: number): boolean {
    if (nowMs - this.#lastReportMs < REPORT_INTERVAL_MS) return false;
    const reported = this.#locate(position);
    if (reported === null) return false;
    this.#lastReportMs = nowMs;
    const frame = position.videoRtp === undefined ? null : this.#frameAt(position.videoRtp);
    if (frame !== null && frame.epoch === this.#epoch) {
      this.#delays.push(nowMs - frame.atMs);
      if (this.#delays.length > DELAYS_KEPT) this.#delays.shift();
    }
    return this.#advance(reported);
  }

  /**
   * The epoch was raised: the position that it is rewound to, which is also where the new epoch begins.
   * By the client's word where it is plausible, by its last report where that is fresh, else by what must have been painted by now.
   */
  fence(epoch: number, held: ClientPosition, nowMs: number): HeldPosition {
    const told = this.#locate(held);
    const source = told !== null || nowMs - this.#lastReportMs <= REPORT_VALID_MS ? 'client' : 'estimate';
    if (told !== null) this.#advance(told);
    else if (source === 'estimate') this.#advance(this.#estimate(nowMs));
    this.#epoch = epoch;
    this.#sent90k = this.#presented90k;
    this.#chunk = null;
    this.#lastReportMs = -Infinity;
    return { media90k: this.#presented90k, source };
  }

  /** Clamps and keeps; true where the position moved. */
  #advance(media90k: MediaTime90k): boolean {
    const floor = Math.max(this.#presented90k, this.#sent90k - HORIZON_CHUNKS * this.#chunkDuration90k);
    const position = Math.min(this.#sent90k, Math.max(floor, media90k));
    const moved = position !== this.#presented90k;
    this.#presented90k = position;
    return moved;
  }

  /** Media time of a client's report; null where nothing of it was ever sent. */
  #locate({ videoRtp, audioRtp }: ClientPosition): MediaTime90k | null {
    const frame = videoRtp === undefined ? null : this.#frameAt(videoRtp);
    const sound = audioRtp === undefined ? null : this.#soundAt(audioRtp);
    if (videoRtp !== undefined && frame === null) return null;
    const video = frame === null ? null : this.#endOf(frame.epoch, frame.end90k);
    const audio = sound === null || sound.epoch !== this.#epoch ? null : this.#frameEndAround(sound.start90k);
    if (video === null) return audio;
    // Sound that trails the picture by more than a frame is the latency of the sound device: what was seen is remembered.
    return audio === null ? video : Math.min(video, Math.max(audio, video - this.#frameDuration90k));
  }

  /** A frame of an older epoch, still on the screen: nothing of this epoch was seen yet. */
  #endOf(epoch: number, end90k: MediaTime90k): MediaTime90k {
    return epoch === this.#epoch ? end90k : this.#presented90k;
  }

  #frameEndAround(media90k: MediaTime90k): MediaTime90k {
    const frame = this.#frames.findLast(({ epoch, start90k, end90k }) => epoch === this.#epoch && start90k <= media90k && media90k < end90k);
    return frame === undefined ? media90k : frame.end90k;
  }

  #frameAt(rtp: number): SentFrame | null {
    return latestBefore(this.#frames, rtp, RTP_TOLERANCE_VIDEO);
  }

  #soundAt(rtp: number): SentSound | null {
    return latestBefore(this.#sounds, rtp, RTP_TOLERANCE_AUDIO);
  }

  #estimate(nowMs: number): MediaTime90k {
    const paintedMs = nowMs - this.playoutDelayMs;
    const frame = this.#frames.findLast(({ epoch, atMs }) => epoch === this.#epoch && atMs <= paintedMs);
    return frame === undefined ? this.#presented90k : frame.end90k;
  }
}

function latestBefore<T extends { readonly rtp: number }>(sent: readonly T[], rtp: number, tolerance: number): T | null {
  const found = sent.findLast((entry) => rtpDistance(rtp, entry.rtp) >= 0);
  return found !== undefined && rtpDistance(rtp, found.rtp) < tolerance ? found : null;
}
