import type { FrameNotice } from './messages.ts';

/** A frame that was painted. */
export interface PaintedFrame {
  readonly rtp: number;
  /** `performance.now()`. */
  readonly paintedAt: number;
  /** The latest frame notice at or before this frame; null before the first. */
  readonly notice: FrameNotice | null;
  /** The notice came after its frame: the frame is told again, as what it was. */
  readonly late: boolean;
}
