/** Late pictures within {@link WINDOW_MS} that take a session a rung down: one or two are a hiccup, and the look-ahead grows by itself. */
const LATE_FRAMES = 3;
const WINDOW_MS = 2_000;
/** On every rung at least this long: what going down changes shows within it. */
export const DWELL_MS = 3_000;
/** Without a late picture for so long it goes up again; longer than it takes to go down, so that it doesn't swing. */
export const CALM_MS = 8_000;
/** Each relapse doubles the calm that is asked for, up to this. */
export const MAX_CALM_MS = 64_000;

export interface LadderStep {
  readonly level: number;
  readonly from: number;
  /** Late pictures that took it down; 0 where it goes up. */
  readonly late: number;
}

/**
 * Where a session stands that its device can't always serve in time. Goes down when pictures come late again and again, and up when none has for a while: with
 * hysteresis, so that it swings no faster than {@link DWELL_MS}, and slower after each relapse. Pure but for what it remembers; time is given.
 */
export class DegradeLadder {
  readonly rungs: number;
  #level = 0;
  #late: number[] = [];
  #lateMs: number;
  #changedMs: number;
  /** Since when it has been better than before; null: it never was worse. */
  #climbedMs: number | null = null;
  #calmMs = CALM_MS;

  constructor(rungs: number, nowMs: number) {
    this.rungs = rungs;
    this.#lateMs = this.#changedMs = nowMs;
  }

  /** Rungs down, 0: nothing is gone without. */
  get level(): number {
    return this.#level;
  }

  /** How long it must be calm before it goes up, ms. */
  get calmMs(): number {
    return this.#calmMs;
  }

  /** A picture came late. What changes for it, or null. */
  late(nowMs: number): LadderStep | null {
    this.#lateMs = nowMs;
    this.#late = [...this.#late.filter((atMs) => atMs > nowMs - WINDOW_MS), nowMs];
    if (this.#level === this.rungs || this.#late.length < LATE_FRAMES || (this.#level > 0 && nowMs - this.#changedMs < DWELL_MS)) return null;
    if (this.#climbedMs !== null && nowMs - this.#climbedMs < 2 * this.#calmMs) this.#calmMs = Math.min(MAX_CALM_MS, 2 * this.#calmMs);
    this.#climbedMs = null;
    return this.#move(this.#level + 1, nowMs, this.#late.length);
  }

  /** Time has passed; asked about once a second. */
  tick(nowMs: number): LadderStep | null {
    if (this.#level === 0) {
      if (this.#climbedMs !== null && nowMs - this.#climbedMs >= 2 * this.#calmMs) {
        this.#climbedMs = null;
        this.#calmMs = CALM_MS;
      }
      return null;
    }
    if (nowMs - Math.max(this.#lateMs, this.#changedMs) < this.#calmMs) return null;
    this.#climbedMs = nowMs;
    return this.#move(this.#level - 1, nowMs, 0);
  }

  #move(level: number, nowMs: number, late: number): LadderStep {
    const from = this.#level;
    this.#level = level;
    this.#changedMs = nowMs;
    // What was late before says nothing of the new rung.
    this.#late = [];
    return { level, from, late };
  }
}
