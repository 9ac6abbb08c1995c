/** Latencies in ms: from the press to the first frame sent that shows it. */
export interface Latencies {
  readonly count: number;
  readonly p50: number;
  readonly p95: number;
  readonly p99: number;
  readonly max: number;
}

export const REDIRECT_KINDS = ['hard', 'seamless', 'drafted'] as const;
export type RedirectKind = (typeof REDIRECT_KINDS)[number];

/** A frame this late is a missed deadline; less is the rounding of a simulated clock. */
const LATE_MS = 0.5;

/** One viewer, as a tally sees them. */
export class Watched {
  readonly tenant: string;
  frames = 0;
  late = 0;
  worstLateMs = 0;
  #firstMs: number | null = null;
  #leftMs: number | null = null;
  #pausedMs = 0;

  constructor(tenant: string) {
    this.tenant = tenant;
  }

  frame(atMs: number, lateMs: number): void {
    this.#firstMs ??= atMs;
    this.frames++;
    if (lateMs > LATE_MS) this.late++;
    this.worstLateMs = Math.max(this.worstLateMs, lateMs);
  }

  pauses(ms: number): void {
    this.#pausedMs += ms;
  }

  leaves(atMs: number): void {
    this.#leftMs ??= atMs;
  }

  /** Frames that were sent, as a share of those that the time from the first on had room for; null for who stayed less than two seconds. */
  flow(endMs: number, framesPerSecond: number): number | null {
    if (this.#firstMs === null) return null;
    const watchedMs = (this.#leftMs ?? endMs) - this.#firstMs - this.#pausedMs;
    return watchedMs < 2000 ? null : Math.min(1, (this.frames / watchedMs) * (1000 / framesPerSecond));
  }
}

/** What is counted while a simulation runs. */
export class SimulationTally {
  readonly viewers: Watched[] = [];
  readonly failures = new Map<string, number>();
  admittedCount = 0;
  turnedAwayCount = 0;
  readonly waitsMs: number[] = [];
  readonly #redirects: Record<RedirectKind, number[]> = { hard: [], seamless: [], drafted: [] };
  readonly #actions: number[] = [];

  comes(tenant: string): Watched {
    const watched = new Watched(tenant);
    this.viewers.push(watched);
    return watched;
  }

  admitted(waitedMs: number): void {
    this.admittedCount++;
    this.waitsMs.push(waitedMs);
  }

  turnedAway(): void {
    this.turnedAwayCount++;
  }

  redirected(kind: RedirectKind, ms: number): void {
    this.#redirects[kind].push(ms);
  }

  steered(ms: number): void {
    this.#actions.push(ms);
  }

  failed(message: string): void {
    this.failures.set(message, (this.failures.get(message) ?? 0) + 1);
  }

  redirects(kind: RedirectKind): Latencies | null {
    return latencies(this.#redirects[kind]);
  }

  /** Of all kinds together. */
  allRedirects(): Latencies | null {
    return latencies(REDIRECT_KINDS.flatMap((kind) => this.#redirects[kind]));
  }

  actions(): Latencies | null {
    return latencies(this.#actions);
  }
}

export function latencies(values: readonly number[]): Latencies | null {
  if (values.length === 0) return null;
  const sorted = Float64Array.from(values).sort();
  const at = (share: number): number => rounded(sorted[Math.min(sorted.length - 1, Math.ceil(share * sorted.length) - 1)]!);
  return { count: sorted.length, p50: at(0.5), p95: at(0.95), p99: at(0.99), max: at(1) };
}

export function rounded(value: number): number {
  return Number(value.toPrecision(4));
}
