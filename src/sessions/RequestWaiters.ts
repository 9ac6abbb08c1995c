import type { Clock, Timer } from '../observe/clock.ts';
import { SegueError } from '../protocol/errors.ts';
import type { RequestAnswer } from './RequestLedger.ts';

/** REST callers that wait for answers at once. */
export const MAX_WAITERS = 64;

export type WaitUntil = 'accepted' | 'settled';

interface Waiter {
  readonly until: WaitUntil;
  readonly resolve: (answer: RequestAnswer) => void;
  readonly reject: (error: SegueError) => void;
  watchdog: Timer;
}

/** Who waits by REST for the answers to a session's requests, by request id. */
export class RequestWaiters {
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  readonly #waiters = new Map<string, Set<Waiter>>();
  #size = 0;

  constructor(clock: Clock, timeoutMs: number) {
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
  }

  /** Resolves with `accepted` or, `until: 'settled'`, with the last answer. Rejects with what the request was refused with, or timed_out. Throws rate_limited. */
  wait(requestId: string, until: WaitUntil): Promise<RequestAnswer> {
    if (this.#size >= MAX_WAITERS) throw new SegueError('rate_limited', `${MAX_WAITERS} calls are waiting for this session`, { retryAfterMs: 1_000 });
    const { promise, resolve, reject } = Promise.withResolvers<RequestAnswer>();
    const waiter: Waiter = {
      until,
      resolve,
      reject,
      watchdog: this.#clock.schedule(this.#clock.now() + this.#timeoutMs, () => {
        this.#forget(requestId, waiter);
        reject(new SegueError('timed_out', `no answer within ${this.#timeoutMs} ms`));
      }),
    };
    const waiters = this.#waiters.get(requestId) ?? new Set();
    this.#waiters.set(requestId, waiters.add(waiter));
    this.#size += 1;
    return promise;
  }

  tell(requestId: string, answer: RequestAnswer): void {
    for (const waiter of [...(this.#waiters.get(requestId) ?? [])]) {
      if (answer.type === 'accepted' && waiter.until === 'settled') continue;
      this.#forget(requestId, waiter);
      if (answer.type === 'error') waiter.reject(SegueError.from(answer.error));
      else waiter.resolve(answer);
    }
  }

  fail(requestId: string, error: SegueError): void {
    for (const waiter of [...(this.#waiters.get(requestId) ?? [])]) {
      this.#forget(requestId, waiter);
      waiter.reject(error);
    }
  }

  /** Nobody waits after this. */
  failAll(error: SegueError): void {
    for (const requestId of [...this.#waiters.keys()]) this.fail(requestId, error);
  }

  #forget(requestId: string, waiter: Waiter): void {
    waiter.watchdog.cancel();
    const waiters = this.#waiters.get(requestId);
    if (!waiters?.delete(waiter)) return;
    this.#size -= 1;
    if (waiters.size === 0) this.#waiters.delete(requestId);
  }
}
