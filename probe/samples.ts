/**
 * Raw samples, as the page logs them and as they are kept on disk (one JSON object a line). Times named `t` are milliseconds of the
 * page's `performance.now()`; nothing here is derived: summaries come from `derive.ts` and can be made again by somebody else.
 */
import type { Stamp } from './barcode.ts';

/** A picture was handed to the glass: drawn on a visible canvas, or presented by a visible `<video>`. */
export interface PaintedSample {
  readonly kind: 'painted';
  /** Canvas: when `drawImage` returned. `<video>`: `presentationTime` of `requestVideoFrameCallback`. */
  readonly t: number;
  readonly surface: 'canvas' | 'video';
  readonly stamp: Stamp | null;
  /** Identity of the source frame: its RTP timestamp, else its own timestamp in µs, else null. */
  readonly key: number | null;
  /** Mean absolute difference in luma (0 … 255) from the picture painted before; null for the first. */
  readonly change: number | null;
  readonly width: number;
  readonly height: number;
}

/** A block of about 10 ms of what reaches the loudspeaker. */
export interface SoundSample {
  readonly kind: 'sound';
  /** When its first sample is heard: output time stamp of the audio context. */
  readonly t: number;
  /** When its first sample was rendered, seconds of its audio context: comparable with `PressSample.audio`. */
  readonly at: number;
  readonly context: number;
  readonly durationMs: number;
  /** Root mean square, 1 = full scale. */
  readonly rms: number;
  /** 0 … 15: epoch mod 16 of the loudest stamp tone; null where no tone stands out. */
  readonly tone: number | null;
  /** Share of the block's energy in that tone, 0 … 1. */
  readonly purity: number;
}

/** A key or pointer went down or a form was submitted, seen before any handler of the page; or the host's `mark`. */
export interface PressSample {
  readonly kind: 'press';
  readonly t: number;
  /** `event.timeStamp`: when the browser process took it; equals `t` for marks. */
  readonly hardware: number;
  readonly what: string;
  /** Seconds of each tapped audio context at that moment. */
  readonly audio: readonly AudioMoment[];
  /** The same when the page's handlers of the event had run; null for marks, and where the page stopped the event. */
  readonly handled: { readonly t: number; readonly audio: readonly AudioMoment[] } | null;
}

export interface AudioMoment {
  readonly context: number;
  readonly at: number;
}

export interface PeerSample {
  readonly kind: 'peer';
  readonly t: number;
  readonly peer: number;
  readonly event: 'created' | 'ice' | 'connection' | 'track' | 'closed';
  readonly detail: string;
}

/** Samples that the bounded log of the page had to drop, oldest first, because the host did not fetch them in time. */
export interface DroppedSample {
  readonly kind: 'dropped';
  readonly t: number;
  readonly count: number;
}

export type Sample = PaintedSample | SoundSample | PressSample | PeerSample | DroppedSample;

/** A painted picture, scaled to 224 × 128, RGB, base64. */
export interface CapturedPicture {
  readonly t: number;
  readonly stamp: Stamp | null;
  readonly rgb: string;
}

/** What the injected script puts at `window.__probe`. */
export interface PageProbe {
  drain(): Sample[];
  mark(what: string): number;
  /** The picture painted last, or null before the first. */
  grab(): CapturedPicture | null;
  /** The next `count` painted pictures, at most 64. */
  capture(count: number): Promise<CapturedPicture[]>;
  stats(): Promise<Record<string, unknown>[]>;
}
