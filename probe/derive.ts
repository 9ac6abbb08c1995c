/** Figures from raw samples. Definitions and units: README.md. Everything here is a pure function of the log. */
import { EPOCHS, FRAMES, TONES, wrappedDistance, type Stamp } from './barcode.ts';
import type { PaintedSample, PressSample, Sample, SoundSample } from './samples.ts';

/**
 * Sound may fade within one packet of 20 ms after the page has handled the press; a block that is rendered later must be silent or new. The audio
 * thread doesn't wait for the page's, so what it renders before the page's handlers have run no page can take back.
 */
export const FADE_MS = 20;
/** A page that takes longer than this to handle a press is not excused: a frame time of a slow display, twice. */
const MAX_HANDLING_MS = 66;
/** Below this a block counts as silence (−60 dB of full scale). */
export const SILENCE_RMS = 0.001;
/** Less change than this between two paints is the same picture again: what a codec's refinement of a still picture stays under. */
export const STILL_CHANGE = 0.75;

type StampedPaint = PaintedSample & { readonly stamp: Stamp };

export const painted = (samples: readonly Sample[]): PaintedSample[] => samples.filter((sample) => sample.kind === 'painted');
export const heard = (samples: readonly Sample[]): SoundSample[] => samples.filter((sample) => sample.kind === 'sound');
export const pressed = (samples: readonly Sample[]): PressSample[] => samples.filter((sample) => sample.kind === 'press');
export const stamped = (samples: readonly Sample[]): StampedPaint[] => painted(samples).filter((sample): sample is StampedPaint => sample.stamp !== null);

/** Paints that show another source frame than the paint before them: by key, else by stamp, else by change of the picture. */
export function distinctPaints(paints: readonly PaintedSample[]): PaintedSample[] {
  return paints.filter((paint, at) => {
    const before = paints[at - 1];
    if (before === undefined) return true;
    if (paint.key !== null && before.key !== null) return paint.key !== before.key;
    if (paint.stamp !== null && before.stamp !== null) return !sameStamp(paint.stamp, before.stamp);
    return (paint.change ?? Infinity) > STILL_CHANGE;
  });
}

/** Distinct pictures painted per second in `[from, to)`. */
export function framesPerSecond(samples: readonly Sample[], from: number, to: number): number {
  return (distinctPaints(painted(samples)).filter(({ t }) => t >= from && t < to).length * 1000) / (to - from);
}

/** Gaps between distinct pictures longer than `limitMs`. */
export function stalls(samples: readonly Sample[], limitMs: number): { readonly from: number; readonly durationMs: number }[] {
  const paints = distinctPaints(painted(samples));
  return paints.flatMap((paint, at) => {
    const before = paints[at - 1];
    return before !== undefined && paint.t - before.t > limitMs ? [{ from: before.t, durationMs: paint.t - before.t }] : [];
  });
}

/** Share of the time in `[from, to)` in which something above silence is heard, whatever audio context it comes from. */
export function audibleShare(samples: readonly Sample[], from: number, to: number): number {
  const audible = heard(samples).filter(({ t, rms }) => t >= from && t < to && rms > SILENCE_RMS);
  return Math.min(1, audible.reduce((sum, { durationMs }) => sum + durationMs, 0) / (to - from));
}

/** The picture on the glass when the press came: the last one painted before it. */
export function heldAt(samples: readonly Sample[], press: PressSample): PaintedSample | undefined {
  return painted(samples).findLast(({ t }) => t < press.t);
}

export interface OldMedia {
  /** Paints after the press of an older epoch than `newEpoch` that show another picture than the paint before, the one held at first. */
  readonly frames: readonly StampedPaint[];
  /** Blocks rendered later than {@link FADE_MS} after the press was handled that carry an older epoch's tone. */
  readonly blocks: readonly SoundSample[];
  /** Press → last such paint, ms; 0 where there is none. */
  readonly lastOldFrameMs: number;
  /** Paints between the press and `until` without a legible stamp: neither old nor new, so a strict test wants none. */
  readonly unread: number;
}

/**
 * What of the old world still reached eye or ear after a press that fences.
 *
 * @param newEpoch epoch that the press opened, as the server counts (not wrapped)
 * @param until end of the look, page's ms: the next press, or the end of the log
 * @param maxHandlingMs what a page may take to handle the press before its sound counts all the same
 */
export function oldMediaAfter(samples: readonly Sample[], press: PressSample, newEpoch: number, until = Infinity, maxHandlingMs = MAX_HANDLING_MS): OldMedia {
  const held = heldAt(samples, press);
  const after = painted(samples)
    .filter(({ t }) => t >= press.t && t < until)
    .sort((a, b) => a.t - b.t);
  let shown = held?.stamp ?? null;
  const frames = after.filter((paint): paint is StampedPaint => {
    if (paint.stamp === null) return false;
    const again = shown !== null && sameStamp(paint.stamp, shown);
    shown = paint.stamp;
    return !again && wrappedDistance(paint.stamp.epoch, newEpoch % EPOCHS, EPOCHS) < 0;
  });
  const blocks = heard(samples).filter((block) => {
    const pressedAt = soundStopsAt(press, block.context, maxHandlingMs);
    if (block.t >= until || block.tone === null) return false;
    // A context that began to play after the press has only the time at which it is heard.
    const late = pressedAt === undefined ? block.t >= press.t + FADE_MS : block.at >= pressedAt + FADE_MS / 1000;
    return late && wrappedDistance(block.tone, newEpoch % TONES, TONES) < 0;
  });
  const last = frames.at(-1);
  return { frames, blocks, lastOldFrameMs: last === undefined ? 0 : last.t - press.t, unread: after.filter(({ stamp }) => stamp === null).length };
}

/** Seconds of an audio context from which the fade counts; undefined where the context was not there yet. */
function soundStopsAt(press: PressSample, context: number, maxHandlingMs: number): number | undefined {
  const at = (audio: PressSample['audio']): number | undefined => audio.find((moment) => moment.context === context)?.at;
  const pressed = at(press.audio);
  const handled = press.handled === null ? undefined : at(press.handled.audio);
  return pressed === undefined || handled === undefined ? pressed : Math.min(handled, pressed + maxHandlingMs / 1000);
}

/** Press → first paint that satisfies `shows`, ms; null where none came before `until`. */
export function pressToGlass(samples: readonly Sample[], press: PressSample, shows: (paint: PaintedSample) => boolean, until = Infinity): number | null {
  const first = painted(samples).find((paint) => paint.t >= press.t && paint.t < until && shows(paint));
  return first === undefined ? null : first.t - press.t;
}

/** Whether a painted stamp belongs to `epoch` (as the server counts) or later. */
export function isEpochOrLater(paint: PaintedSample, epoch: number): boolean {
  return paint.stamp !== null && wrappedDistance(paint.stamp.epoch, epoch % EPOCHS, EPOCHS) >= 0;
}

/**
 * Skew of sound against picture at each change of epoch: first block of the new tone heard − first picture of the new epoch painted, ms
 * (positive: sound is late). A change is measured where both come within a second.
 */
export function audioVideoSkew(samples: readonly Sample[]): { readonly epoch: number; readonly t: number; readonly skewMs: number }[] {
  const paints = stamped(samples);
  const blocks = heard(samples).filter(({ tone }) => tone !== null);
  return paints.flatMap((paint, at) => {
    const before = paints[at - 1];
    if (before === undefined || before.stamp.epoch === paint.stamp.epoch) return [];
    const tone = paint.stamp.epoch % TONES;
    const first = blocks.find((block, index) => block.tone === tone && Math.abs(block.t - paint.t) < 1000 && blocks[index - 1]?.tone !== tone);
    return first === undefined ? [] : [{ epoch: paint.stamp.epoch, t: paint.t, skewMs: first.t - paint.t }];
  });
}

/** Signed distance in frames of two stamps' media positions, `a − b`. */
export function frameDistance(a: number, b: number): number {
  return wrappedDistance(a % FRAMES, b % FRAMES, FRAMES);
}

export interface Summary {
  readonly n: number;
  readonly min: number;
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
  readonly max: number;
}

/** Nearest-rank percentiles. @throws TypeError on an empty list */
export function summarise(values: readonly number[]): Summary {
  if (values.length === 0) throw new TypeError('no values to summarise');
  const sorted = [...values].sort((a, b) => a - b);
  const rank = (share: number): number => sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(share * sorted.length) - 1))]!;
  return { n: sorted.length, min: sorted[0]!, p50: rank(0.5), p95: rank(0.95), p99: rank(0.99), max: sorted.at(-1)! };
}

function sameStamp(a: Stamp, b: Stamp): boolean {
  return a.epoch === b.epoch && a.frame === b.frame;
}
