import { ClientError } from './ClientError.ts';
import type { Accepted, Applied, ErrorBody, Forked, ServerControlMessage, SessionRequest } from './messages.ts';

/** A request's two answers. Both promises reject with a {@link ClientError}; leaving them unhandled is fine, as the client emits `error` too. */
export interface RequestHandle {
  readonly id: string;
  readonly accepted: Promise<Accepted>;
  readonly applied: Promise<Applied>;
}

/** As {@link RequestHandle}, of a fork: its last answer is the session that it has made. */
export interface ForkHandle extends Pick<RequestHandle, 'id' | 'accepted'> {
  readonly forked: Promise<Forked>;
}

/** What the book tells its owner. */
export interface RequestBookEvents {
  accepted(answer: Accepted, request: SessionRequest): void;
  applied(answer: Applied, request: SessionRequest): void;
  forked(answer: Forked): void;
  failed(error: ClientError, request: SessionRequest): void;
}

interface Entry {
  readonly request: SessionRequest;
  readonly accepted: PromiseWithResolvers<Accepted>;
  readonly applied: PromiseWithResolvers<Applied>;
  readonly forked: PromiseWithResolvers<Forked>;
  wasAccepted: boolean;
  watchdog: ReturnType<typeof setTimeout> | null;
}

/** The protocol's bound on every wait. */
export const REQUEST_TIMEOUT_MS = 5_000;
/** More than a person can press; a program that asks faster than it is answered is refused, nothing old is lost. */
export const MAX_OPEN_REQUESTS = 64;

/**
 * Requests in flight: matched to their answers by id, each with a watchdog between send, `accepted` and `applied`.
 * They survive a lost connection: {@link open} lists what must be sent again, under the same ids, so that nothing is done twice.
 */
export class RequestBook {
  readonly #entries = new Map<string, Entry>();
  readonly #events: RequestBookEvents;
  readonly #prefix: string;
  #count = 0;

  /** `prefix` makes the ids of this client unlike those of any other of the same session. */
  constructor(events: RequestBookEvents, prefix: string) {
    this.#events = events;
    this.#prefix = prefix;
  }

  nextId(): string {
    this.#count += 1;
    return `${this.#prefix}.${this.#count}`;
  }

  /** Requests that have not had their last answer, oldest first. */
  get open(): readonly SessionRequest[] {
    return [...this.#entries.values()].map((entry) => entry.request);
  }

  /** Throws ClientError `rate_limited` when {@link MAX_OPEN_REQUESTS} are open. */
  add(request: SessionRequest): RequestHandle {
    const { accepted, applied } = this.#add(request);
    return { id: request.id, accepted: accepted.promise, applied: applied.promise };
  }

  /** As {@link add}. */
  addFork(request: SessionRequest): ForkHandle {
    const { accepted, forked } = this.#add(request);
    return { id: request.id, accepted: accepted.promise, forked: forked.promise };
  }

  #add(request: SessionRequest): Entry {
    if (this.#entries.size >= MAX_OPEN_REQUESTS) throw new ClientError('rate_limited', `${MAX_OPEN_REQUESTS} requests are still unanswered`);
    const entry: Entry = { request, accepted: Promise.withResolvers(), applied: Promise.withResolvers(), forked: Promise.withResolvers(), wasAccepted: false, watchdog: null };
    // A failure is told by the `error` event; a caller who doesn't look at the promise must not get an unhandled rejection besides.
    for (const { promise } of [entry.accepted, entry.applied, entry.forked]) promise.catch(() => undefined);
    this.#entries.set(request.id, entry);
    return entry;
  }

  /** A request that is not sent at all: both promises reject, and `failed` is told. */
  refuse(request: SessionRequest, error: ClientError): RequestHandle {
    const refused = Promise.reject(error);
    refused.catch(() => undefined);
    this.#events.failed(error, request);
    return { id: request.id, accepted: refused, applied: refused };
  }

  /** The request has gone out (again): its answer is due within {@link REQUEST_TIMEOUT_MS}. */
  sent(id: string): void {
    const entry = this.#entries.get(id);
    if (entry) this.#watch(entry);
  }

  /** The connection is lost: no answer can come, so no watchdog runs until the request is sent again. */
  suspend(): void {
    for (const entry of this.#entries.values()) if (entry.watchdog !== null) clearTimeout(entry.watchdog);
  }

  /** Returns whether the message was an answer to a request of this book. Late and repeated answers are answers to nothing. */
  answer(message: ServerControlMessage): boolean {
    if (!('re' in message) || message.re === undefined) return false;
    const entry = this.#entries.get(message.re);
    if (!entry) return false;
    switch (message.type) {
      case 'accepted':
        if (entry.wasAccepted) return true;
        entry.wasAccepted = true;
        this.#watch(entry);
        entry.accepted.resolve(message);
        this.#events.accepted(message, entry.request);
        return true;
      case 'applied':
        this.#remove(entry);
        entry.accepted.resolve({ type: 'accepted', re: message.re, epoch: message.epoch, conditioningVersion: message.conditioningVersion });
        entry.applied.resolve(message);
        this.#events.applied(message, entry.request);
        return true;
      case 'forked':
        this.#remove(entry);
        entry.forked.resolve(message);
        this.#events.forked(message);
        return true;
      case 'superseded':
        this.#fail(entry, new ClientError('superseded', `replaced by the newer request ${message.by}`));
        return true;
      case 'error':
        this.#fail(entry, ClientError.from(message.error));
        return true;
      default:
        return false;
    }
  }

  /** Ends every open request. Idempotent. */
  close(error: ClientError): void {
    for (const entry of [...this.#entries.values()]) this.#fail(entry, error);
  }

  #watch(entry: Entry): void {
    if (entry.watchdog !== null) clearTimeout(entry.watchdog);
    entry.watchdog = setTimeout(() => {
      const body: ErrorBody = { code: 'timed_out', message: `no answer to ${entry.request.type} within ${REQUEST_TIMEOUT_MS} ms`, retryable: true };
      this.#fail(entry, ClientError.from(body));
    }, REQUEST_TIMEOUT_MS);
  }

  #fail(entry: Entry, error: ClientError): void {
    this.#remove(entry);
    entry.accepted.reject(error);
    entry.applied.reject(error);
    entry.forked.reject(error);
    this.#events.failed(error, entry.request);
  }

  #remove(entry: Entry): void {
    if (entry.watchdog !== null) clearTimeout(entry.watchdog);
    entry.watchdog = null;
    this.#entries.delete(entry.request.id);
  }
}
