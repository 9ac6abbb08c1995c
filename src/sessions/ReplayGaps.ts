import type { Clock, Timer } from '../observe/clock.ts';
import type { KeptGap } from '../streams/kept_range.ts';
import type { MediaTime90k } from '../streams/media_time.ts';

export interface ReplayGapsOptions {
  readonly clock: Clock;
  /** Oldest first. */
  readonly gaps: readonly KeptGap[];
  /** Whether its media moves: who has paused at a gap isn't taken over it. */
  readonly flows: () => boolean;
  readonly tell: (gap: KeptGap) => void;
  /** Goes to a moment as if its viewer had. Rejects where that failed. */
  readonly goTo: (media90k: MediaTime90k) => Promise<unknown>;
}

/** Who never says what was presented has seen it by then. */
const UNSEEN_MS = 1_000;
const AGAIN_MS = 2_000;

/** A replay passing over what of its story is not kept: when the last frame before it was seen, it goes on with the first one behind it. */
export class ReplayGaps {
  readonly #options: ReplayGapsOptions;
  #sent90k: MediaTime90k = 0;
  #presented90k: MediaTime90k = 0;
  /** That is being passed over. */
  #passing: KeptGap | null = null;
  #timer: Timer | null = null;
  #waited: KeptGap | null = null;
  #closed = false;

  constructor(options: ReplayGapsOptions) {
    this.#options = options;
  }

  /** Where the replay is now. */
  moved(sent90k: MediaTime90k, presented90k: MediaTime90k): void {
    this.#sent90k = sent90k;
    this.#presented90k = presented90k;
    this.check();
  }

  /** It may flow again. */
  check(): void {
    const { gaps, flows, clock, tell } = this.#options;
    const gap = gaps.find(({ from90k, to90k }) => this.#sent90k >= from90k && this.#sent90k < to90k) ?? null;
    if (gap !== this.#passing) this.#passing = null;
    if (gap !== this.#waited) this.#waited = null;
    if (this.#closed || gap === null || this.#passing !== null || !flows()) return;
    if (this.#presented90k < gap.from90k && this.#waited === null) {
      this.#timer ??= clock.schedule(clock.now() + UNSEEN_MS, () => {
        this.#timer = null;
        this.#waited = gap;
        this.check();
      });
      return;
    }
    this.#passing = gap;
    tell(gap);
    this.#options.goTo(gap.to90k).catch(() => this.#tryAgain(gap));
  }

  /** Idempotent. */
  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
    this.#timer = null;
  }

  #tryAgain(gap: KeptGap): void {
    const { clock } = this.#options;
    if (this.#closed) return;
    this.#timer ??= clock.schedule(clock.now() + AGAIN_MS, () => {
      this.#timer = null;
      if (this.#passing === gap) this.#passing = null;
      this.check();
    });
  }
}
