import type { Clock } from '../observe/clock.ts';

export interface SessionEvent {
  /** Rises by one per event of the session, from 1. */
  readonly sequence: number;
  readonly type: string;
  /** Calendar time. */
  readonly at: string;
  /** Monotonic ms of the process. */
  readonly atMs: number;
  readonly data: Readonly<Record<string, unknown>>;
}

export type SessionEventListener = (event: SessionEvent) => void;

/** Events kept for those who come back; older ones are dropped and a reader who missed them is told how many. */
export const MAX_EVENTS = 512;
/** Readers at once. */
export const MAX_READERS = 16;

/** The last events of a session, and whoever listens. Listeners must not throw; one that does is removed and the error is passed to `onListenerError`. */
export class SessionEventLog {
  readonly #clock: Clock;
  readonly #onListenerError: (error: unknown) => void;
  readonly #events: SessionEvent[] = [];
  readonly #listeners = new Set<SessionEventListener>();
  readonly #endListeners = new Set<() => void>();
  readonly #onAppend: ((event: SessionEvent) => void) | null;
  #sequence = 0;
  #ended = false;

  /** @param onAppend told of every event, to keep it; not a reader. */
  constructor(clock: Clock, onListenerError: (error: unknown) => void, onAppend: ((event: SessionEvent) => void) | null = null) {
    this.#clock = clock;
    this.#onAppend = onAppend;
    this.#onListenerError = onListenerError;
  }

  get sequence(): number {
    return this.#sequence;
  }

  get ended(): boolean {
    return this.#ended;
  }

  /** Goes on behind events that were kept. Only before the first. */
  restore(events: readonly SessionEvent[]): void {
    this.#events.push(...events.slice(-MAX_EVENTS));
    this.#sequence = events.at(-1)?.sequence ?? 0;
  }

  append(type: string, data: Readonly<Record<string, unknown>>): void {
    if (this.#ended) return;
    const event: SessionEvent = { sequence: ++this.#sequence, type, at: new Date().toISOString(), atMs: this.#clock.now(), data };
    this.#events.push(event);
    if (this.#events.length > MAX_EVENTS) this.#events.shift();
    this.#onAppend?.(event);
    for (const listener of [...this.#listeners]) {
      try {
        listener(event);
      } catch (error) {
        this.#listeners.delete(listener);
        this.#onListenerError(error);
      }
    }
  }

  /** Events after `sequence` that are still there, and how many before them are not. */
  since(sequence: number): { readonly events: readonly SessionEvent[]; readonly missed: number } {
    const oldest = this.#events[0]?.sequence ?? this.#sequence + 1;
    return { events: this.#events.filter((event) => event.sequence > sequence), missed: Math.max(0, oldest - 1 - Math.max(0, sequence)) };
  }

  /** Returns null when there are {@link MAX_READERS} already, else what ends the subscription. */
  subscribe(onEvent: SessionEventListener, onEnd: () => void): (() => void) | null {
    if (this.#listeners.size >= MAX_READERS) return null;
    this.#listeners.add(onEvent);
    this.#endListeners.add(onEnd);
    return () => {
      this.#listeners.delete(onEvent);
      this.#endListeners.delete(onEnd);
    };
  }

  /** Calls `onEnd` once, at the end; not a reader. */
  onEnd(onEnd: () => void): void {
    this.#endListeners.add(onEnd);
  }

  /** No more events; readers are told. Idempotent. */
  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    for (const onEnd of [...this.#endListeners]) onEnd();
    this.#listeners.clear();
    this.#endListeners.clear();
  }
}
