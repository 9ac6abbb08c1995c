import type { TraceEvent } from '../streams/messages.ts';

/** A trace event in the form that chrome://tracing and Perfetto read. Source: "Trace Event Format", Chromium project. */
export interface ChromeTraceEvent {
  readonly name: string;
  readonly cat: string;
  /** `X` complete, `i` instant, `M` metadata. */
  readonly ph: 'X' | 'i' | 'M';
  /** Microseconds. */
  readonly ts: number;
  readonly dur?: number;
  readonly pid: number;
  readonly tid: number;
  readonly s?: 't';
  readonly args: Readonly<Record<string, unknown>>;
}

/** Events kept of a session, the newest: about a minute of steps. */
export const MAX_TRACE_EVENTS = 8_192;

/** The last trace events of one session. */
export class TraceRing {
  readonly #events: TraceEvent[] = [];
  #next = 0;
  #dropped = 0;

  push(event: TraceEvent): void {
    if (this.#events.length < MAX_TRACE_EVENTS) this.#events.push(event);
    else {
      this.#events[this.#next] = event;
      this.#dropped += 1;
    }
    this.#next = (this.#next + 1) % MAX_TRACE_EVENTS;
  }

  get length(): number {
    return this.#events.length;
  }

  /** Oldest first. */
  events(): TraceEvent[] {
    return this.#events.length < MAX_TRACE_EVENTS ? [...this.#events] : [...this.#events.slice(this.#next), ...this.#events.slice(0, this.#next)];
  }

  /** One track per loop or worker, named; one process per kind of event. */
  toChromeTrace(sessionId: string): { readonly traceEvents: readonly ChromeTraceEvent[]; readonly displayTimeUnit: 'ms'; readonly otherData: Readonly<Record<string, unknown>> } {
    const tracks = new Map<string, number>();
    const processes = new Map<string, number>();
    const metadata: ChromeTraceEvent[] = [];
    const number = (table: Map<string, number>, name: string, announce: (id: number) => ChromeTraceEvent): number => {
      const known = table.get(name);
      if (known !== undefined) return known;
      const id = table.size + 1;
      table.set(name, id);
      metadata.push(announce(id));
      return id;
    };
    const traceEvents = this.events().map((event): ChromeTraceEvent => {
      const { type, name, atMs, durationMs, args, ...ids } = event;
      const pid = number(processes, type, (id) => ({ name: 'process_name', cat: '__metadata', ph: 'M', ts: 0, pid: id, tid: 0, args: { name: type } }));
      const track = event.loopId ?? event.workerId ?? 'session';
      const tid = number(tracks, `${pid} ${track}`, (id) => ({ name: 'thread_name', cat: '__metadata', ph: 'M', ts: 0, pid, tid: id, args: { name: track } }));
      const common = { name, cat: type, ts: Math.round(atMs * 1000), pid, tid, args: { ...ids, ...args } };
      return durationMs === undefined ? { ...common, ph: 'i', s: 't' } : { ...common, ph: 'X', dur: Math.round(durationMs * 1000) };
    });
    return { traceEvents: [...metadata, ...traceEvents], displayTimeUnit: 'ms', otherData: { sessionId, dropped: this.#dropped } };
  }
}
