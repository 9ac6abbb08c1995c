import type { SegueError } from '../../protocol/errors.ts';
import type { PromptWarning } from '../../protocol/prompt_warning.ts';
import type { AdapterInForce } from '../../protocol/session_adapter.ts';
import type { AppliedHow, EngineRequest, EngineToControl } from '../../streams/messages.ts';
import type { MediaTime90k } from '../../streams/media_time.ts';
import type { AppliedChange } from '../programs/RealtimeProgram.ts';
import { RequestScheduler, type Acceptance } from '../scheduler/RequestScheduler.ts';

/** The first media that shows a change. */
export interface ShownAt {
  readonly chunk: number;
  readonly step: number;
  readonly media90k: MediaTime90k;
  /** Of a redirect: the adapter that it is made with. */
  readonly adapter?: AdapterInForce | null;
}

/** What a session's requests were promised, and what they are told: each exactly one of applied, superseded or failed. */
export class SessionAnswers {
  readonly #sessionId: string;
  readonly #send: (message: EngineToControl) => void;
  readonly #requests = new RequestScheduler();
  /** The last blend that was told to be done. */
  #completedId: string | null = null;
  readonly #predicted = new Map<string, { readonly predictedMs: number; readonly warnings: readonly PromptWarning[] }>();

  constructor(sessionId: string, send: (message: EngineToControl) => void) {
    this.#sessionId = sessionId;
    this.#send = send;
  }

  /** The redirect of which nothing has been shown yet arrived then; null where there is none. */
  get redirectSinceMs(): number | null {
    return this.#requests.redirect?.arrivedAtMs ?? null;
  }

  /** Takes a request in, and tells those that it replaces. @param epoch the epoch in force before it. */
  accept(request: EngineRequest, epoch: number, nowMs: number): Acceptance {
    const { requestId } = request;
    const acceptance = this.#requests.accept(request, epoch, nowMs);
    if (acceptance.outcome === 'stale' && request.request !== 'adopt') this.#tellSuperseded(requestId, acceptance.by);
    if (acceptance.outcome === 'run') for (const id of acceptance.superseded) this.#tellSuperseded(id, requestId);
    return acceptance;
  }

  predict(requestId: string, predictedMs: number, warnings: readonly PromptWarning[]): void {
    this.#predicted.set(requestId, { predictedMs, warnings });
  }

  /** Null where it was answered before; else what was said of the time it took. */
  applied(requestId: string, how: AppliedHow, nowMs: number, versions: { readonly epoch: number; readonly conditioningVersion: number }, { chunk, step, media90k, adapter }: ShownAt): { readonly elapsedMs: number; readonly predictedMs: number | null } | null {
    const pending = this.#requests.settle(requestId);
    if (pending === null) return null;
    const { predictedMs = null, warnings = [] } = this.#predicted.get(requestId) ?? {};
    this.#predicted.delete(requestId);
    const elapsedMs = nowMs - pending.arrivedAtMs;
    this.#send({ type: 'request.applied', sessionId: this.#sessionId, requestId, how, ...versions, chunk, step, media90k, predictedMs, elapsedMs, warnings, ...(adapter === undefined ? {} : { adapter }) });
    return { elapsedMs, predictedMs };
  }

  /** A blend is done. Told once, also where its last chunk is made again: false then. */
  completed({ requestId, chunk, media90k }: Pick<AppliedChange, 'requestId' | 'chunk' | 'media90k'>, versions: { readonly epoch: number; readonly conditioningVersion: number }): boolean {
    if (this.#completedId === requestId) return false;
    this.#completedId = requestId;
    this.#send({ type: 'request.completed', sessionId: this.#sessionId, requestId, ...versions, chunk, media90k });
    return true;
  }

  failed(requestId: string, error: SegueError): void {
    this.#requests.settle(requestId);
    this.#predicted.delete(requestId);
    this.#send({ type: 'request.failed', sessionId: this.#sessionId, requestId, error: error.toBody() });
  }

  /** Whatever is unanswered, and `others` that were never taken in. */
  failAll(error: SegueError, others: readonly EngineRequest[]): void {
    for (const { requestId } of this.#requests.drain()) this.failed(requestId, error);
    for (const { requestId, request } of others) if (request !== 'adopt') this.failed(requestId, error);
    this.#predicted.clear();
  }

  /** Another has taken its place, which was found out here and not when it came. */
  superseded(requestId: string, by: string): void {
    if (this.#requests.settle(requestId) !== null) this.#tellSuperseded(requestId, by);
  }

  #tellSuperseded(requestId: string, by: string): void {
    this.#predicted.delete(requestId);
    this.#send({ type: 'request.superseded', sessionId: this.#sessionId, requestId, by });
  }
}
