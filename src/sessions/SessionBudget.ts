import type { Clock, Timer } from '../observe/clock.ts';
import { RESOURCES, type Resource, type SessionUsage } from '../protocol/session_usage.ts';
import type { Stay } from './StayEstimate.ts';

/** `Infinity`: no limit. */
export type Budget = Readonly<Record<Resource, number>>;

export interface SessionBudgetOptions {
  readonly clock: Clock;
  readonly budget: Budget;
  /** Used before, in another life of the session. */
  readonly used: SessionUsage;
  /** {@link WARNED_AT} of a limit is used up. Once a resource. */
  readonly warn: (resource: Resource, used: number, limit: number) => void;
  /** A limit is used up. Once. */
  readonly exhausted: (resource: Resource, limit: number) => void;
  /** Once in {@link NOTE_INTERVAL_MS} where something was used: what is to be known after a restart. */
  readonly note: (usage: SessionUsage) => void;
}

export const WARNED_AT = 0.8;
const NOTE_INTERVAL_MS = 30_000;

/**
 * What a session has used, and what it may. Device time and bytes are counted where they are spent and reported once a second, so
 * a session may go over its limit by what a second takes; wall time is this side's own, and exact.
 */
export class SessionBudget {
  readonly #options: SessionBudgetOptions;
  readonly #warned = new Set<Resource>();
  #here = { deviceMs: 0, sentBytes: 0, lateFrames: 0 };
  #openedMs: number | null = null;
  #endedMs: number | null = null;
  #notedMs: number;
  #timer: Timer | null = null;

  constructor(options: SessionBudgetOptions) {
    this.#options = options;
    this.#notedMs = options.clock.now();
  }

  get usage(): SessionUsage {
    const { clock, used } = this.#options;
    const wallMs = this.#openedMs === null ? 0 : (this.#endedMs ?? clock.now()) - this.#openedMs;
    return {
      deviceMs: Math.round(used.deviceMs + this.#here.deviceMs),
      wallMs: Math.round(used.wallMs + wallMs),
      sentBytes: used.sentBytes + this.#here.sentBytes,
      lateFrames: used.lateFrames + this.#here.lateFrames,
    };
  }

  get stay(): Stay {
    const { wallMs } = this.usage;
    return { ageMs: wallMs, endsInMs: Math.max(0, this.#options.budget.wallMs - wallMs) };
  }

  /** The session is open: its time runs. */
  start(): void {
    if (this.#openedMs !== null) return;
    this.#openedMs = this.#options.clock.now();
    this.#check();
  }

  /** Totals of this life, as they were counted where they were spent. */
  report(spent: { readonly deviceMs?: number; readonly lateFrames?: number; readonly sentBytes?: number }): void {
    this.#here = { ...this.#here, ...spent };
    if (this.#endedMs === null) this.#check();
  }

  /** The session ends: no more time passes for it, and nothing more comes of a limit. Idempotent. */
  close(): void {
    this.#endedMs ??= this.#options.clock.now();
    this.#timer?.cancel();
    this.#timer = null;
  }

  #check(): void {
    const { budget, warn, exhausted, note, clock } = this.#options;
    const { usage } = this;
    for (const resource of RESOURCES) {
      const limit = budget[resource];
      if (usage[resource] >= limit) {
        this.close();
        return exhausted(resource, limit);
      }
      if (usage[resource] < limit * WARNED_AT || this.#warned.has(resource)) continue;
      this.#warned.add(resource);
      warn(resource, usage[resource], limit);
    }
    if (clock.now() - this.#notedMs >= NOTE_INTERVAL_MS) {
      this.#notedMs = clock.now();
      note(usage);
    }
    this.#schedule(usage.wallMs, budget.wallMs);
  }

  /** For the wall time alone: nobody reports it. */
  #schedule(wallMs: number, limit: number): void {
    this.#timer?.cancel();
    this.#timer = null;
    if (limit === Infinity || this.#openedMs === null) return;
    const { clock } = this.#options;
    const next = this.#warned.has('wallMs') ? limit : Math.ceil(limit * WARNED_AT);
    this.#timer = clock.schedule(clock.now() + Math.max(0, next - wallMs), () => this.#check());
  }
}

/** Without what has no limit: `Infinity` is not JSON. */
export function finite(budget: Budget): Partial<Budget> {
  return Object.fromEntries(Object.entries(budget).filter(([, limit]) => limit !== Infinity));
}
