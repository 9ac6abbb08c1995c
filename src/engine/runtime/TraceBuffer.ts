import type { TraceEvent } from '../../streams/messages.ts';

/** Gathers trace events into batches. Bounded: what isn't fetched in time is dropped, oldest first, and counted. */
export class TraceBuffer {
  readonly capacity: number;
  #events: TraceEvent[] = [];
  #dropped = 0;

  constructor(capacity = 2048) {
    if (!Number.isInteger(capacity) || capacity < 1) throw new TypeError(`capacity must be a whole number ≥ 1, got ${capacity}`);
    this.capacity = capacity;
  }

  add(event: TraceEvent): void {
    if (this.#events.length >= this.capacity) {
      // In eighths, so that a full buffer doesn't move everything for each event.
      const drop = Math.max(1, this.capacity >> 3);
      this.#events.splice(0, drop);
      this.#dropped += drop;
    }
    this.#events.push(event);
  }

  get size(): number {
    return this.#events.length;
  }

  get dropped(): number {
    return this.#dropped;
  }

  /** Takes everything gathered; says in an event of its own how many were lost since the last time. */
  take(nowMs: number): readonly TraceEvent[] {
    const events = this.#events;
    this.#events = [];
    if (this.#dropped > 0) events.push({ type: 'trace.scheduler', name: 'trace.dropped', atMs: nowMs, args: { events: this.#dropped } });
    this.#dropped = 0;
    return events;
  }
}
