/**
 * RTP timestamps are 32-bit and wrap: every 13.2 hours at 90 kHz. Two of them are ordered by the shorter way around
 * (RFC 3550 §5.1, RFC 1982), which is right as long as they are less than 2³¹ ticks apart.
 */
export const VIDEO_CLOCK_HZ = 90_000;
export const AUDIO_CLOCK_HZ = 48_000;

/** Ticks from `b` to `a`, in [−2³¹, 2³¹). */
export function rtpDifference(a: number, b: number): number {
  return (a - b) | 0;
}

export function rtpAtOrAfter(a: number, b: number): boolean {
  return rtpDifference(a, b) >= 0;
}

/** `rtp` moved by `ticks`, wrapped into [0, 2³²). */
export function rtpAdd(rtp: number, ticks: number): number {
  return (rtp + ticks) >>> 0;
}
