import { MEDIA_CLOCK_HZ, type MediaTime90k } from '../streams/media_time.ts';

import type { StampTone } from './stamp.ts';

/** What one packet of sound holds: all null for silence. */
export interface SoundWindow {
  readonly epoch: number | null;
  readonly start90k: MediaTime90k | null;
  readonly end90k: MediaTime90k | null;
}

interface Piece {
  readonly epoch: number;
  readonly revision: number;
  readonly end90k: MediaTime90k;
  readonly firstSample: number;
  readonly samples: Int16Array;
}

/** Room for this much sound; a piece that would pass it pushes out the oldest. */
const CAPACITY_S = 8;
const FADE_MS = 5;

/**
 * Generated sound on the media timeline, cut into packets: sample-accurate, silent where there is nothing, and never with a click.
 * Positions are sample numbers of the timeline (media time × rate / 90,000). Copies what it is given.
 */
export class SoundTrack {
  readonly #sampleRate: number;
  readonly #fade: number;
  readonly #tone: StampTone | null;
  #pieces: Piece[] = [];
  #cursor: number | null = null;
  #last = 0;
  #silent = true;

  /** @param tone test mode: takes the place of the sound where there is some. */
  constructor(sampleRate: number, tone: StampTone | null = null) {
    this.#sampleRate = sampleRate;
    this.#tone = tone;
    this.#fade = Math.round((FADE_MS / 1000) * sampleRate);
  }

  get bufferedSamples(): number {
    return this.#pieces.reduce((sum, piece) => sum + piece.samples.length, 0);
  }

  add(start90k: MediaTime90k, epoch: number, samples: Int16Array, revision = 0): void {
    const firstSample = this.#sampleAt(start90k);
    this.#pieces.push({ epoch, revision, end90k: this.#mediaAt(firstSample + samples.length), firstSample, samples: samples.slice() });
    while (this.#pieces.length > 1 && this.bufferedSamples > CAPACITY_S * this.#sampleRate) this.#pieces.shift();
  }

  /** Drops the sound of every epoch but one. The next window ramps from the last sample to silence and holds nothing old. */
  fence(epoch: number): void {
    this.#pieces = this.#pieces.filter((piece) => piece.epoch === epoch);
    this.#cursor = null;
  }

  /** Drops the pieces that `recalled` names. Sound goes on without a cut: the next piece begins where the last one that is left ends. */
  drop(recalled: (revision: number, end90k: MediaTime90k) => boolean): void {
    if (this.#pieces.some(({ revision, end90k }) => recalled(revision, end90k))) this.#pieces = this.#pieces.filter(({ revision, end90k }) => !recalled(revision, end90k));
  }

  /** End of the last piece that a window from `media90k` on would hold anything of; null where it would hold silence. */
  reach(samples: number, media90k: MediaTime90k): MediaTime90k | null {
    const begin = this.#begin(media90k);
    let end90k: MediaTime90k | null = null;
    for (const piece of this.#pieces) if (piece.firstSample < begin + samples && piece.firstSample + piece.samples.length > begin) end90k = Math.max(end90k ?? 0, piece.end90k);
    return end90k;
  }

  /**
   * Fills `out` with the sound from `media90k` on, or with silence for null; `leadIn` samples of silence come first where the
   * timeline begins within the window. Edges are faded: an onset by a 5 ms fade-in, an end by a 5 ms ramp from the last sample.
   */
  read(out: Int16Array, media90k: MediaTime90k | null, leadIn = 0): SoundWindow {
    out.fill(0);
    const range = media90k === null ? null : this.#copy(out, this.#begin(media90k), leadIn);
    if (range === null) {
      if (media90k === null) this.#cursor = null;
      this.#rampDown(out, 0, out.length);
      return { epoch: null, start90k: null, end90k: null };
    }
    const { from, to, epoch, firstSample } = range;
    this.#tone?.fill(out, from, to - from, epoch);
    if (from > 0) this.#rampDown(out, 0, from);
    if (this.#silent) this.#fadeIn(out, from, to);
    this.#silent = false;
    this.#last = out[to - 1]!;
    if (to < out.length) this.#rampDown(out, to, out.length - to);
    return { epoch, start90k: this.#mediaAt(firstSample), end90k: this.#mediaAt(firstSample + to - from) };
  }

  /** Copies what there is from sample `begin` on; returns where in `out` it lies, or null for nothing. */
  #copy(out: Int16Array, begin: number, leadIn: number): { from: number; to: number; epoch: number; firstSample: number } | null {
    const stop = begin + out.length - leadIn;
    let range: { from: number; to: number; epoch: number; firstSample: number } | null = null;
    for (const piece of this.#pieces) {
      const first = Math.max(begin, piece.firstSample);
      const end = Math.min(stop, piece.firstSample + piece.samples.length);
      if (first >= end) continue;
      out.set(piece.samples.subarray(first - piece.firstSample, end - piece.firstSample), leadIn + first - begin);
      range ??= { from: leadIn + first - begin, to: 0, epoch: piece.epoch, firstSample: first };
      range.to = Math.max(range.to, leadIn + end - begin);
      range.epoch = piece.epoch;
    }
    this.#cursor = stop;
    this.#pieces = this.#pieces.filter((piece) => piece.firstSample + piece.samples.length > stop);
    return range;
  }

  /** Rounding may put consecutive windows a sample apart: within two samples the sound simply goes on. */
  #begin(media90k: MediaTime90k): number {
    const exact = this.#sampleAt(media90k);
    return this.#cursor !== null && Math.abs(exact - this.#cursor) <= 2 ? this.#cursor : exact;
  }

  #fadeIn(out: Int16Array, from: number, to: number): void {
    const length = Math.min(this.#fade, to - from);
    for (let i = 0; i < length; i++) out[from + i] = Math.round((out[from + i]! * i) / length);
  }

  /** From the last sample that was heard to zero: no click, and nothing of the sound itself. */
  #rampDown(out: Int16Array, from: number, room: number): void {
    if (this.#silent) return;
    const length = Math.min(this.#fade, room);
    for (let i = 0; i < length; i++) out[from + i] = Math.round(this.#last * (1 - (i + 1) / length));
    this.#last = 0;
    this.#silent = true;
  }

  #sampleAt(media90k: MediaTime90k): number {
    return Math.round((media90k * this.#sampleRate) / MEDIA_CLOCK_HZ);
  }

  #mediaAt(sample: number): MediaTime90k {
    return Math.round((sample * MEDIA_CLOCK_HZ) / this.#sampleRate);
  }
}
