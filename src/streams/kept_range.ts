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
}

/** Program that plays one; nobody asks for it by name. */
export const REPLAY_PROGRAM = 'replay';
