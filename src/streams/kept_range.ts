import type { MediaTime90k } from './media_time.ts';

/** A stretch of a kept story that is played again. */
export interface KeptRange {
  /** Whose story. */
  readonly sessionId: string;
  /** Chunk that it begins with, and media time of that chunk's first frame. */
  readonly chunk: number;
  readonly from90k: MediaTime90k;
  /** Behind its last frame. */
  readonly to90k: MediaTime90k;
  /** What of it is not kept, oldest first: with something before and behind each. Absent: all is. */
  readonly gaps?: readonly KeptGap[];
}

/** From behind the last frame before it to the first behind it. */
export interface KeptGap {
  readonly from90k: MediaTime90k;
  readonly to90k: MediaTime90k;
}

/** A moment of a range that can be shown: in a gap, the first behind it. */
export function shownFrom({ gaps = [] }: Pick<KeptRange, 'gaps'>, media90k: MediaTime90k): MediaTime90k {
  return gaps.find(({ from90k, to90k }) => media90k >= from90k && media90k < to90k)?.to90k ?? media90k;
}

/** Program that plays one; nobody asks for it by name. */
export const REPLAY_PROGRAM = 'replay';
