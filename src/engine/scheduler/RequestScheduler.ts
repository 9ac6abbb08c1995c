import type { EngineRequest } from '../../streams/messages.ts';

export type RequestKind = EngineRequest['request'];

export interface PendingRequest {
  readonly requestId: string;
  readonly kind: RequestKind;
  readonly arrivedAtMs: number;
}

export type Acceptance =
  /** Known already, answered or not: nothing happens again. */
  | { readonly outcome: 'duplicate' }
  /** Fences an epoch that a later request has fenced since. */
  | { readonly outcome: 'stale'; readonly by: string }
  /** Runs now; `superseded` are to be told so first. */
  | { readonly outcome: 'run'; readonly superseded: readonly string[] };

/**
 * Requests of one session, each answered exactly once. Newest wins per kind, redirect, cut and blend being one; an interrupt or a rewind also ends one that nothing has been
 * seen of, because what was typed before "stop" must not start by itself afterwards.
 */
export class RequestScheduler {
  readonly #pending = new Map<string, PendingRequest>();
  /** Ids that were seen, oldest first: what is repeated by another way is not done again. */
  readonly #seen = new Set<string>();
  #lastFencing = '';

  /** @param epoch the epoch in force before this request. */
  accept(request: EngineRequest, epoch: number, nowMs: number): Acceptance {
    const { requestId, request: kind } = request;
    if (this.#seen.has(requestId)) return { outcome: 'duplicate' };
    this.#remember(requestId);
    if (request.epoch < epoch && fencing(request)) return { outcome: 'stale', by: this.#lastFencing };
    if (fencing(request)) this.#lastFencing = requestId;
    if (kind === 'adopt') return { outcome: 'run', superseded: [] };
    const superseded = [...this.#pending.values()].filter((other) => other.kind === kind || (isScene(other.kind) && (isScene(kind) || kind === 'interrupt' || kind === 'rewind'))).map((other) => other.requestId);
    for (const id of superseded) this.#pending.delete(id);
    this.#pending.set(requestId, { requestId, kind, arrivedAtMs: nowMs });
    return { outcome: 'run', superseded };
  }

  get(requestId: string): PendingRequest | null {
    return this.#pending.get(requestId) ?? null;
  }

  /** The redirect, cut or blend of which nothing has been shown yet; null where there is none. */
  get redirect(): PendingRequest | null {
    for (const pending of this.#pending.values()) if (isScene(pending.kind)) return pending;
    return null;
  }

  /** Takes a request off the list to answer it; null where it has been answered. */
  settle(requestId: string): PendingRequest | null {
    const pending = this.#pending.get(requestId) ?? null;
    this.#pending.delete(requestId);
    return pending;
  }

  /** Takes all that is unanswered, to fail it. */
  drain(): PendingRequest[] {
    const pending = [...this.#pending.values()];
    this.#pending.clear();
    return pending;
  }

  #remember(requestId: string): void {
    this.#seen.add(requestId);
    if (this.#seen.size <= REMEMBERED_REQUESTS) return;
    for (const oldest of this.#seen) {
      this.#seen.delete(oldest);
      return;
    }
  }
}

/** They ask for another scene, each in its own way: a session shows one. */
function isScene(kind: RequestKind): boolean {
  return kind === 'redirect' || kind === 'cut' || kind === 'blend';
}

/** Ids remembered per session, as the protocol promises. */
export const REMEMBERED_REQUESTS = 1024;

/** Requests for which the media thread raised the epoch. */
export function fencing(request: EngineRequest): boolean {
  return request.request === 'interrupt' || request.request === 'adopt' || request.request === 'cut' || request.request === 'rewind' || (request.request === 'redirect' && !request.seamless);
}
