/**
 * Position on a session's output timeline: the story as it is remembered. Integer ticks of 90 kHz since the session's first frame,
 * so that 12, 24, 25 and 30 frames/s and 24 and 48 kHz samples all fall on whole ticks. After a rewind the timeline continues
 * from the committed position under a new epoch; RTP time, in contrast, only ever advances with elapsed time.
 */
export type MediaTime90k = number;

export const MEDIA_CLOCK_HZ = 90_000;

export function msToMediaTime90k(ms: number): MediaTime90k {
  return Math.round(ms * (MEDIA_CLOCK_HZ / 1000));
}

export function mediaTime90kToMs(time: MediaTime90k): number {
  return time / (MEDIA_CLOCK_HZ / 1000);
}

/** What a model's output streams look like; fixed for the life of a session. */
export interface MediaFormat {
  /** Pixels. */
  readonly width: number;
  readonly height: number;
  readonly framesPerSecond: number;
  /** Samples per second, mono. */
  readonly audioSampleRate: number;
}

/** Ticks of one video frame; throws where the rate doesn't divide the media clock. */
export function frameDuration90k(format: MediaFormat): number {
  const ticks = MEDIA_CLOCK_HZ / format.framesPerSecond;
  if (!Number.isInteger(ticks)) throw new TypeError(`framesPerSecond ${format.framesPerSecond} does not divide ${MEDIA_CLOCK_HZ}`);
  return ticks;
}
