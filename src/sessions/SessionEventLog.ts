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

/** Where events are kept: writes one down and calls `told` once it is on disk. */
export type KeepEvent = (event: SessionEvent, told: () => void) => void;

/**
 * The last events of a session, and whoever listens. Where they are kept, an event is told once it is on disk: whoever has read it finds it under its number after a
 * restart too. Listeners must not throw; one that does is removed and the error is passed to `onListenerError`. */
export class SessionEventLog {
  readonly #clock: Clock;
  readonly #onListenerError: (error: unknown) => void;
  readonly #events: SessionEvent[] = [];
  readonly #listeners = new Set<SessionEventListener>();
  readonly #endListeners = new Set<() => void>();
  readonly #keep: KeepEvent | null;
  #sequence = 0;
  /** Events up to here were told. */
  #told = 0;
  #whenTold: (() => void) | null = null;
  #ended = false;

  /** @param keep null: nowhere. */
  constructor(clock: Clock, onListenerError: (error: unknown) => void, keep: KeepEvent | null = null) {
    this.#clock = clock;
    this.#keep = keep;
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
    this.#sequence = this.#told = events.at(-1)?.sequence ?? 0;
  }

  append(type: string, data: Readonly<Record<string, unknown>>): void {
    if (this.#ended) return;
    const event: SessionEvent = { sequence: ++this.#sequence, type, at: new Date().toISOString(), atMs: this.#clock.now(), data };
    this.#events.push(event);
    if (this.#events.length > MAX_EVENTS) this.#events.shift();
    if (this.#keep === null) this.#tell(event.sequence);
    else this.#keep(event, () => this.#tell(event.sequence));
  }

  /** Resolves when all events so far were told. */
  async settled(): Promise<void> {
    if (this.#told >= this.#sequence) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#whenTold = resolve;
    await promise;
  }

  /** Up to and with `sequence`, in order: where one can't be kept any more, those before it aren't waited for. */
  #tell(sequence: number): void {
    for (const event of this.#events.filter((waiting) => waiting.sequence > this.#told && waiting.sequence <= sequence)) {
      this.#told = event.sequence;
      for (const listener of [...this.#listeners]) this.#call(listener, event);
    }
    if (this.#told >= this.#sequence) this.#whenTold?.();
  }

  #call(listener: SessionEventListener, event: SessionEvent): void {
    try {
      listener(event);
    } catch (error) {
      this.#listeners.delete(listener);
      this.#onListenerError(error);
    }
  }

  /** Events after `sequence` that were told and are still there, and how many before them are not. */
  since(sequence: number): { readonly events: readonly SessionEvent[]; readonly missed: number } {
    const oldest = this.#events[0]?.sequence ?? this.#sequence + 1;
    return { events: this.#events.filter((event) => event.sequence > sequence && event.sequence <= this.#told), missed: Math.max(0, oldest - 1 - Math.max(0, sequence)) };
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
