import { createHash } from 'node:crypto';
import type { TraceEvent } from '../../streams/messages.ts';
import { TraceBuffer } from './TraceBuffer.ts';

/** How much is told. `off`: nothing. `summary`: all but units, which are counted by kind instead. `full`: every unit, from its dispatch to its result. */
export const TRACE_LEVELS = ['off', 'summary', 'full'] as const;
export type TraceLevel = (typeof TRACE_LEVELS)[number];

/** What every event of an engine is of. */
export interface TraceIdentity {
  readonly modelId: string;
  readonly versions: Readonly<Record<string, string>>;
  /** Role of a worker's pool; undefined where it is in none. */
  readonly roleOf: (workerId: string) => string | undefined;
}

/** Units of a kind since the last summary. */
interface Count {
  units: number;
  deviceMs: number;
  late: number;
}

const SUMMARY_MS = 1000;
/** Trace ids that are remembered, so that a session's is computed once. */
const MAX_IDS = 1024;

/** The engine's trace: takes what happens, at the level that it is at, and gives it with all its ids. */
export class Tracer {
  readonly level: TraceLevel;
  readonly #identity: TraceIdentity;
  readonly #buffer = new TraceBuffer();
  readonly #counts = new Map<string, Count>();
  readonly #ids = new Map<string, string>();
  #countedSinceMs: number | null = null;

  constructor(level: TraceLevel, identity: TraceIdentity) {
    if (!TRACE_LEVELS.includes(level)) throw new TypeError(`traces is ${String(level)}, wanted ${TRACE_LEVELS.join(', ')}`);
    this.level = level;
    this.#identity = identity;
  }

  /** Whether units are told one by one: who builds an event for each asks first. */
  get units(): boolean {
    return this.level === 'full';
  }

  get size(): number {
    return this.#buffer.size;
  }

  add(event: TraceEvent): void {
    if (this.level !== 'off') this.#buffer.add(event);
  }

  /** A unit has ended, where units aren't told one by one. */
  count(kind: string, deviceMs: number, late: boolean, nowMs: number): void {
    if (this.level !== 'summary') return;
    this.#countedSinceMs ??= nowMs;
    let count = this.#counts.get(kind);
    if (count === undefined) this.#counts.set(kind, (count = { units: 0, deviceMs: 0, late: 0 }));
    count.units++;
    count.deviceMs += deviceMs;
    if (late) count.late++;
  }

  /** Takes what has gathered, each with the ids that it carries. */
  take(nowMs: number): readonly TraceEvent[] {
    this.#summarise(nowMs);
    return this.#buffer.take(nowMs).map((event) => this.#complete(event));
  }

  #summarise(nowMs: number): void {
    const sinceMs = this.#countedSinceMs;
    if (sinceMs === null || nowMs - sinceMs < SUMMARY_MS) return;
    for (const [kind, { units, deviceMs, late }] of this.#counts) this.#buffer.add({ type: 'trace.step', name: 'summary', atMs: sinceMs, durationMs: nowMs - sinceMs, args: { kind, units, deviceMs: Math.round(deviceMs * 1000) / 1000, late } });
    this.#counts.clear();
    this.#countedSinceMs = null;
  }

  #complete(event: TraceEvent): TraceEvent {
    const { modelId, versions, roleOf } = this.#identity;
    const { workerId, sessionId, roleId = workerId === undefined ? undefined : roleOf(workerId) } = event;
    return {
      ...event,
      modelId,
      versions,
      ...(workerId === undefined ? {} : { modelInstanceId: `${modelId}@${workerId}` }),
      ...(roleId === undefined ? {} : { roleId }),
      ...(sessionId === undefined ? {} : { traceId: this.#traceId(sessionId) }),
    };
  }

  /** 16 bytes in hex, as W3C Trace Context has them; the same for all events of a session or run. */
  #traceId(sessionId: string): string {
    const known = this.#ids.get(sessionId);
    if (known !== undefined) return known;
    if (this.#ids.size >= MAX_IDS) this.#ids.clear();
    // A stage is of its run.
    const id = createHash('sha256').update(sessionId.split('/')[0]!).digest('hex').slice(0, 32);
    this.#ids.set(sessionId, id);
    return id;
  }
}
