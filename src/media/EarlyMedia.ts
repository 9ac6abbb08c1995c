import type { Clock, Timer } from '../observe/clock.ts';
import type { EngineToMedia } from '../streams/messages.ts';

/**
 * Media that comes before its session: the engine's port and the control thread's are two, so a session's first chunks may overtake the
 * message that opens it. They wait here. Bounded twice: a session that doesn't open in time, or says too much before, is forgotten.
 */
export class EarlyMedia {
  readonly #clock: Clock;
  readonly #waiting = new Map<string, { readonly events: EngineToMedia[]; readonly timer: Timer }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get sessions(): number {
    return this.#waiting.size;
  }

  /** False where it isn't kept: too many wait already. */
  keep(event: EngineToMedia): boolean {
    const { sessionId } = event;
    let entry = this.#waiting.get(sessionId);
    if (entry === undefined) {
      if (this.#waiting.size >= MAX_SESSIONS) return false;
      entry = { events: [], timer: this.#clock.schedule(this.#clock.now() + PATIENCE_MS, () => this.#waiting.delete(sessionId)) };
      this.#waiting.set(sessionId, entry);
    }
    if (entry.events.length >= MAX_EVENTS) return false;
    entry.events.push(event);
    return true;
  }

  /** What came for a session that opens now, in order. */
  take(sessionId: string): readonly EngineToMedia[] {
    const entry = this.#waiting.get(sessionId);
    if (entry === undefined) return [];
    this.#waiting.delete(sessionId);
    entry.timer.cancel();
    return entry.events;
  }

  close(): void {
    for (const { timer } of this.#waiting.values()) timer.cancel();
    this.#waiting.clear();
  }
}

const MAX_SESSIONS = 64;
/** A session can't have more chunks out than its pools have slots. */
const MAX_EVENTS = 64;
/** As long as the longest wait of any request. */
const PATIENCE_MS = 5000;
