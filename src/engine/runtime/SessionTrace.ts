import type { Clock } from '../../observe/clock.ts';
import type { TraceEvent } from '../../streams/messages.ts';
import type { Decision } from '../programs/RealtimeProgram.ts';

export type TraceArgs = Readonly<Record<string, string | number | boolean>>;

/** What is decided for a session, as its trace tells it. */
export class SessionTrace {
  readonly #clock: Clock;
  readonly #send: (event: TraceEvent) => void;
  readonly #place: () => Pick<TraceEvent, 'sessionId' | 'epoch' | 'chunk'>;

  constructor(clock: Clock, send: (event: TraceEvent) => void, place: () => Pick<TraceEvent, 'sessionId' | 'epoch' | 'chunk'>) {
    this.#clock = clock;
    this.#send = send;
    this.#place = place;
  }

  tell(name: string, args: TraceArgs, requestId?: string): void {
    this.#send({ type: 'trace.scheduler', name, atMs: this.#clock.now(), ...this.#place(), ...(requestId === undefined ? {} : { requestId }), args });
  }

  decided(decisions: readonly Decision[]): void {
    const atMs = this.#clock.now();
    for (const { name, args, ...place } of decisions) {
      const { chunk: _, ...where } = this.#place();
      this.#send({ type: 'trace.scheduler', name, atMs, ...where, ...place, args });
    }
  }
}
