import type { FrameNotice } from './messages.ts';
import { rtpAtOrAfter, rtpDifference } from './rtp_time.ts';

/** At one notice a second and one per change, more than a minute of ordinary play. */
const MAX_NOTICES = 128;

/** Frame notices by RTP time: says what a painted frame shows. Bounded; forgets the oldest. */
export class NoticeLog {
  #notices: FrameNotice[] = [];

  add(notice: FrameNotice): void {
    // Nearly always at the end; the channel is ordered and so is RTP time.
    let at = this.#notices.length;
    while (at > 0 && rtpDifference(notice.rtp, this.#notices[at - 1]!.rtp) < 0) at -= 1;
    this.#notices.splice(at, 0, notice);
    if (this.#notices.length > MAX_NOTICES) this.#notices.shift();
  }

  /** The latest notice at or before `rtp`, or null. Frames between two notices differ in nothing that a notice tells, but in chunk and time. */
  at(rtp: number): FrameNotice | null {
    return this.#notices.findLast((notice) => rtpAtOrAfter(rtp, notice.rtp)) ?? null;
  }

  /** A new connection has RTP times of its own. */
  clear(): void {
    this.#notices = [];
  }
}
