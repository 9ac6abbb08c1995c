import { MEDIA_CLOCK_HZ } from '../streams/media_time.ts';

export const AUDIO_RTP_HZ = 48_000;
const NTP_UNIX_OFFSET_S = 2_208_988_800;

/**
 * The RTP clocks of one session: both are functions of the same monotonic time, so that picture and sound keep step whatever the
 * media timeline does. They advance with elapsed time and never go back, across interrupts, holds and reconnections.
 */
export class RtpClock {
  readonly originMs: number;
  readonly #videoBase: number;
  readonly #audioBase: number;
  readonly #wallOffsetMs: number;

  /**
   * @param originMs monotonic time of the session's start.
   * @param wallMs Unix time at `originMs`; sender reports use it, so that a wall clock that is set meanwhile moves nothing.
   * @param random in [0, 1): where the counters begin (RFC 3550 asks for a random start).
   */
  constructor(originMs: number, wallMs: number = Date.now(), random: () => number = Math.random) {
    this.originMs = originMs;
    this.#wallOffsetMs = wallMs - originMs;
    this.#videoBase = Math.floor(random() * 2 ** 32);
    this.#audioBase = Math.floor(random() * 2 ** 32);
  }

  video(atMs: number): number {
    return wrap(this.#videoBase + Math.round((atMs - this.originMs) * (MEDIA_CLOCK_HZ / 1000)));
  }

  audio(atMs: number): number {
    return wrap(this.#audioBase + Math.round((atMs - this.originMs) * (AUDIO_RTP_HZ / 1000)));
  }

  /** 64-bit NTP time of a monotonic time (RFC 3550 §4). */
  ntp(atMs: number): bigint {
    const unixMs = atMs + this.#wallOffsetMs;
    const seconds = Math.floor(unixMs / 1000);
    const fraction = Math.min(2 ** 32 - 1, Math.floor(((unixMs - seconds * 1000) / 1000) * 2 ** 32));
    return (BigInt(seconds + NTP_UNIX_OFFSET_S) << 32n) | BigInt(fraction);
  }
}

function wrap(value: number): number {
  return value % 2 ** 32 >>> 0;
}

/** Signed distance `a − b` of two RTP timestamps, modulo 2³². */
export function rtpDistance(a: number, b: number): number {
  return (a - b) | 0;
}
