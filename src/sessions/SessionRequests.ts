import type { Clock, Timer } from '../observe/clock.ts';
import type { ControlMessage, InputMessage, SessionRequest } from '../protocol/channel.ts';
import { asksForScene, BLEND_CHUNKS, fences } from '../protocol/channel.ts';
import { parseChannelMessage } from '../protocol/channel_parser.ts';
import { SegueError, type ErrorBody } from '../protocol/errors.ts';
import type { PromptWarning } from '../protocol/prompt_warning.ts';
import { adapterWish, type AdapterOffer } from '../protocol/session_adapter.ts';
import { shownFrom, type KeptRange } from '../streams/kept_range.ts';
import type { EngineRequest, EngineToControl, MediaToControl } from '../streams/messages.ts';
import type { PromptReader } from './ports.ts';
import { isSceneKind, outlivesProcess, RequestLedger, requestKind, supersedes, type LedgerEntry, type RequestAnswer } from './RequestLedger.ts';
import { RequestWaiters, type WaitUntil } from './RequestWaiters.ts';
import type { MadeFork } from './session_options.ts';
import type { ReturnedRequest } from './session_return.ts';

/** From `accepted` to the last answer. */
export const REQUEST_WATCHDOG_MS = 5_000;
/** A caller waits a little longer than the request itself, so that the request's own answer is what it gets. */
const WAITER_GRACE_MS = 500;

export type ChannelMessage = Extract<MediaToControl, { type: 'channel.message' }>;
type Applied = Extract<EngineToControl, { type: 'request.applied' }>;
type EngineRequestBody = EngineRequest extends infer R ? (R extends unknown ? Omit<R, 'type' | 'sessionId' | 'requestId' | 'epoch' | 'conditioningVersion'> : never) : never;

/** What the requests of a session need of it. */
export interface RequestHost {
  readonly clock: Clock;
  readonly prompts: PromptReader;
  /** It plays what was: nothing of it can be changed, and a rewind goes to any moment of it. */
  readonly plays: KeptRange | null;
  /** Adapters that the model has. */
  readonly adapters: readonly AdapterOffer[];
  /** The epoch word. */
  readonly epoch: number;
  readonly presented90k: number;
  /** What was in front of the driver, as a position in the story. */
  held(media90k: number): number;
  /** Why no request can be taken now, or null. */
  refusal(): SegueError | null;
  mayDrive(connectionId: string | null): boolean;
  toEngine(request: EngineRequest): void;
  /** Hands a message to the media thread, which alone fences. False: it is gone. */
  inject(text: string): boolean;
  toConnection(connectionId: string, answer: RequestAnswer): void;
  readonly sessionId: string;
  onHello(connectionId: string, hello: Extract<ControlMessage, { type: 'hello' }>): void;
  onDraft(connectionId: string, draft: Extract<ControlMessage, { type: 'draft' }>): void;
  fork(request: Extract<SessionRequest, { type: 'fork' }>, connectionId: string | null): Promise<MadeFork>;
  onActivity(): void;
  onAccepted(request: SessionRequest, entry: LedgerEntry, conditioningVersion: number, held90k: number | null): void;
  /** Each answer, as it is given. */
  onAnswer(entry: LedgerEntry, answer: RequestAnswer): void;
  /** Runs when what was promised with the request survives the process. */
  whenKept(entry: LedgerEntry, run: () => void): void;
}

/**
 * The life of a session's requests: parsed, checked, accepted, handed to the engine, answered. Every id is answered once; newest wins per kind;
 * a watchdog ends what the engine never answers; an epoch that was raised for a request which turns out void is adopted, so that nothing stalls.
 */
export class SessionRequests {
  readonly #host: RequestHost;
  readonly #ledger = new RequestLedger();
  readonly #watchdogs = new Map<string, Timer>();
  readonly #waiters: RequestWaiters;
  #conditioningVersion = 0;
  #closed = false;

  constructor(host: RequestHost) {
    this.#host = host;
    this.#waiters = new RequestWaiters(host.clock, REQUEST_WATCHDOG_MS + WAITER_GRACE_MS);
  }

  get conditioningVersion(): number {
    return this.#conditioningVersion;
  }

  get remembered(): number {
    return this.#ledger.size;
  }

  /**
   * Requests of a session that comes back: each id stays answered as it was. What was open and isn't asked for again is over.
   * Call {@link askAgain} once the engine has the session.
   */
  restore(requests: readonly ReturnedRequest[], again: readonly ReturnedRequest[], conditioningVersion: number): void {
    this.#conditioningVersion = conditioningVersion;
    const { clock } = this.#host;
    for (const { entry: kept } of requests) {
      const entry = this.#ledger.restore(kept, clock.now());
      if (entry.done || again.some(({ entry: { id } }) => id === kept.id)) continue;
      const by = isSceneKind(entry.kind) ? again.at(-1) : undefined;
      this.#answer(entry, by !== undefined ? { type: 'superseded', re: entry.id, by: by.entry.id } : { type: 'error', re: entry.id, error: new SegueError('engine_unavailable', 'the server was restarted before it answered').toBody() });
    }
  }

  /** A redirect, cut, blend or rewind whose effect was lost, under its own id: it is answered once, before or now. */
  askAgain({ entry: { id }, body, conditioningVersion }: ReturnedRequest): void {
    const entry = this.#ledger.get(id);
    if (entry === undefined || this.#closed) return;
    if (!entry.done) this.#watch(entry);
    const { sessionId, epoch, presented90k } = this.#host;
    this.#host.toEngine({ type: 'session.request', sessionId, requestId: id, epoch, conditioningVersion, ...engineRequest(body, this.#host.adapters, presented90k) });
  }

  /** A message of a data channel, a WebSocket or REST, after the media thread has fenced it where it fences. Never throws. */
  receive(message: ChannelMessage): void {
    if (this.#closed || message.channel === 'state') return;
    const parsed = parseChannelMessage(message.channel, message.text);
    if ('error' in parsed) return this.#refuse(message, parsed.re, parsed.error);
    const request: ControlMessage | InputMessage = parsed.message;
    switch (request.type) {
      case 'action':
      case 'position':
        return; // the media thread's business; what it forwards is only for the record
      case 'hello':
        if (message.connectionId !== null) this.#host.onHello(message.connectionId, request);
        return;
      case 'draft':
        if (message.connectionId !== null) this.#host.onDraft(message.connectionId, request);
        return;
      case 'ping':
        if (message.connectionId !== null) this.#host.toConnection(message.connectionId, { type: 'accepted', re: request.id, epoch: this.#host.epoch, conditioningVersion: this.#conditioningVersion });
        return;
      default:
        return this.#request(message, request);
    }
  }

  /**
   * A request by REST: what can't be accepted is refused here; the rest goes to the media thread first, like every other.
   * Resolves with `accepted` or, `until: 'settled'`, with the last answer. Rejects with what the request was refused with, or timed_out.
   */
  async submit(request: SessionRequest, until: WaitUntil): Promise<RequestAnswer> {
    const refusal = this.#host.refusal() ?? this.#unplayable(request);
    if (refusal) throw refusal;
    const known = this.#ledger.get(request.id);
    const answer = known && (until === 'settled' ? (known.done ? known.answers.at(-1) : undefined) : known.answers[0]);
    if (answer?.type === 'error') throw SegueError.from(answer.error);
    if (answer) return answer;
    if (!known) this.#warningsOf(request);
    const answered = this.#waiters.wait(request.id, until);
    if (!known && !this.#host.inject(JSON.stringify(request))) this.#waiters.fail(request.id, new SegueError('engine_unavailable', 'the media thread is gone'));
    return answered;
  }

  onApplied(message: Applied): void {
    const entry = this.#ledger.get(message.requestId);
    if (!entry) return;
    const { how, epoch, conditioningVersion, chunk, step, media90k, predictedMs, elapsedMs, warnings, adapter } = message;
    this.#answer(entry, { type: 'applied', re: entry.id, how, epoch, conditioningVersion, chunk, step, media90k, predictedMs, elapsedMs, warnings: [...warnings], ...(adapter === undefined ? {} : { adapter }) });
  }

  onSuperseded(requestId: string, by: string): void {
    const entry = this.#ledger.get(requestId);
    if (entry) this.#answer(entry, { type: 'superseded', re: entry.id, by });
  }

  onFailed(requestId: string, error: ErrorBody): void {
    const entry = this.#ledger.get(requestId);
    if (entry) this.#answer(entry, { type: 'error', re: entry.id, error });
  }

  /** Ends every open request and every waiting caller. Idempotent. */
  close(error: SegueError): void {
    if (this.#closed) return;
    for (const entry of this.#ledger.open()) this.#answer(entry, { type: 'error', re: entry.id, error: error.toBody() });
    this.#closed = true;
    for (const watchdog of this.#watchdogs.values()) watchdog.cancel();
    this.#watchdogs.clear();
    this.#waiters.failAll(error);
  }

  #request(message: ChannelMessage, request: SessionRequest): void {
    if (!this.#host.mayDrive(message.connectionId)) return this.#refuse(message, request.id, new SegueError('forbidden', 'this connection may watch, not drive'));
    const known = this.#ledger.get(request.id);
    if (known) return this.#repeat(message, known);
    const refusal = this.#host.refusal() ?? this.#unplayable(request);
    if (refusal) return this.#refuse(message, request.id, refusal);
    if (!this.#ledger.canAdd) return this.#refuse(message, request.id, new SegueError('rate_limited', 'too many requests are unanswered', { retryAfterMs: 1_000 }));
    let warnings: readonly PromptWarning[];
    try {
      warnings = this.#warningsOf(request);
    } catch (error) {
      // Whatever the reader stumbles over, a raised epoch must be adopted.
      return this.#refuse(message, request.id, error instanceof SegueError ? error : new SegueError('internal', 'the prompt could not be read', { cause: error }));
    }
    if (fences(request) && message.fencedEpoch === null) {
      // The media thread remembers the id, this thread does not: older than what is remembered.
      return this.#refuse(message, request.id, new SegueError('conflict', 'this id was used before', { param: 'id' }));
    }
    this.#host.onActivity();
    if (request.type === 'fork') return this.#fork(message, request);
    this.#accept(message, request, warnings);
  }

  #unplayable(request: SessionRequest): SegueError | null {
    return this.#host.plays !== null && (asksForScene(request) || request.type === 'fork') ? new SegueError('conflict', 'a replay shows what was: there is nothing to ask of it') : null;
  }

  /** What of a prompt has no effect. Throws prompt_not_understood, plan_not_usable, adapter_not_usable. */
  #warningsOf(request: SessionRequest): readonly PromptWarning[] {
    if (!asksForScene(request)) return [];
    if (request.type === 'redirect') {
      adapterWish(request.adapter, this.#host.adapters);
      if (request.plan !== undefined) this.#host.prompts.readPlan(request.plan);
    }
    return request.prompt === undefined ? [] : this.#host.prompts.read(request.prompt);
  }

  #accept(message: ChannelMessage, request: SessionRequest, warnings: readonly PromptWarning[]): void {
    const kind = requestKind(request.type);
    const epoch = message.fencedEpoch ?? this.#host.epoch;
    for (const older of this.#ledger.open()) {
      if (supersedes(kind, older.kind)) this.#answer(older, { type: 'superseded', re: older.id, by: request.id });
    }
    const entry = this.#ledger.add({ id: request.id, kind, epoch, acceptedMs: this.#host.clock.now(), connectionId: message.connectionId });
    if (message.channel === 'control') entry.controlCopies.add(message.connectionId);
    if (asksForScene(request) || request.type === 'rewind') this.#conditioningVersion += 1;
    const held90k = message.held === null ? null : this.#host.held(message.held.media90k);
    this.#watch(entry);
    this.#answer(entry, { type: 'accepted', re: entry.id, epoch, conditioningVersion: this.#conditioningVersion, ...(held90k === null ? {} : standing(request, held90k)), ...(warnings.length === 0 ? {} : { warnings: [...warnings] }) });
    this.#host.onAccepted(request, entry, this.#conditioningVersion, held90k);
    this.#toEngine(entry.id, epoch, this.#engineRequest(request, held90k ?? this.#host.presented90k));
  }

  #engineRequest(request: SessionRequest, presented90k: number): EngineRequestBody {
    const { plays } = this.#host;
    if (plays !== null && request.type === 'rewind') return { request: 'rewind', to90k: shownFrom(plays, request.media90k), exact: false, presented90k };
    return engineRequest(request, this.#host.adapters, presented90k);
  }

  /** It fences nothing and voids nothing: the session goes on, and another is made beside it. */
  #fork(message: ChannelMessage, request: Extract<SessionRequest, { type: 'fork' }>): void {
    const { epoch, presented90k, clock } = this.#host;
    const entry = this.#ledger.add({ id: request.id, kind: 'fork', epoch, acceptedMs: clock.now(), connectionId: message.connectionId });
    const wanted90k = request.media90k ?? presented90k;
    this.#watch(entry);
    this.#answer(entry, { type: 'accepted', re: entry.id, epoch, conditioningVersion: this.#conditioningVersion, held90k: Math.min(wanted90k, presented90k), ...(wanted90k > presented90k ? { clamped: true } : {}) });
    this.#host.fork(request, message.connectionId).then(
      ({ abandon, ...fork }) => {
        if (this.#closed || entry.done) abandon();
        else this.#answer(entry, { type: 'forked', re: entry.id, ...fork });
      },
      (error: unknown) => this.#answer(entry, { type: 'error', re: entry.id, error: (error instanceof SegueError ? error : new SegueError('internal', 'the session could not be forked', { cause: error })).toBody() }),
    );
  }

  #watch(entry: LedgerEntry): void {
    const { clock } = this.#host;
    this.#watchdogs.set(
      entry.id,
      clock.schedule(clock.now() + REQUEST_WATCHDOG_MS, () => {
        this.#answer(entry, { type: 'error', re: entry.id, error: new SegueError('timed_out', `not applied within ${REQUEST_WATCHDOG_MS} ms`).toBody() });
      }),
    );
  }

  /** The same id again: the same answers again, once per copy that asks for them. */
  #repeat(message: ChannelMessage, entry: LedgerEntry): void {
    if (message.fencedEpoch !== null) this.#adopt(entry.id, message.fencedEpoch, message.held);
    if (message.channel !== 'control' || message.connectionId === null) return;
    const firstCopy = entry.connectionId === message.connectionId && !entry.controlCopies.has(message.connectionId);
    entry.controlCopies.add(message.connectionId);
    // Answers that are still to come go to whoever asked last: after a rejoin the old connection is nobody's.
    entry.connectionId = message.connectionId;
    if (firstCopy) return;
    for (const answer of entry.answers) this.#host.toConnection(message.connectionId, answer);
  }

  /** Not remembered: the same id may be tried again. */
  #refuse(message: ChannelMessage, re: string | null, error: SegueError): void {
    const answer: RequestAnswer = { type: 'error', ...(re === null ? {} : { re }), error: error.toBody() };
    if (message.fencedEpoch !== null) this.#adopt(re ?? 'unusable', message.fencedEpoch, message.held);
    // The copies on `input` repeat one on `control`, which gets the answer.
    if (message.connectionId !== null && message.channel === 'control') this.#host.toConnection(message.connectionId, answer);
    if (re !== null) this.#waiters.tell(re, answer);
  }

  #adopt(requestId: string, epoch: number, held: ChannelMessage['held']): void {
    this.#toEngine(requestId, epoch, { request: 'adopt', presented90k: held === null ? this.#host.presented90k : this.#host.held(held.media90k) });
  }

  #toEngine(requestId: string, epoch: number, body: EngineRequestBody): void {
    this.#host.toEngine({ type: 'session.request', sessionId: this.#host.sessionId, requestId, epoch, conditioningVersion: this.#conditioningVersion, ...body });
  }

  #answer(entry: LedgerEntry, answer: RequestAnswer): void {
    if (this.#closed || !this.#ledger.answer(entry, answer)) return;
    if (entry.done) {
      this.#watchdogs.get(entry.id)?.cancel();
      this.#watchdogs.delete(entry.id);
    }
    this.#host.onAnswer(entry, answer);
    const tell = (): void => {
      if (entry.connectionId !== null) this.#host.toConnection(entry.connectionId, answer);
      this.#waiters.tell(entry.id, answer);
    };
    // Whoever was told how it ended must not find another end after a restart.
    if (entry.done && outlivesProcess(entry.kind)) this.#host.whenKept(entry, tell);
    else tell();
  }
}

/** Where the story stands with a request that fences. */
function standing(request: SessionRequest, held90k: number): { readonly held90k: number; readonly clamped?: true } {
  if (request.type !== 'rewind' || request.media90k <= held90k) return { held90k: request.type === 'rewind' ? request.media90k : held90k };
  return { held90k, clamped: true };
}

function engineRequest(request: SessionRequest, adapters: readonly AdapterOffer[], presented90k: number): EngineRequestBody {
  switch (request.type) {
    case 'interrupt':
      return { request: 'interrupt', presented90k };
    case 'redirect': {
      const adapter = adapterWish(request.adapter, adapters);
      return { request: 'redirect', prompt: request.prompt ?? null, ...(request.plan === undefined ? {} : { plan: request.plan }), ...(adapter === undefined ? {} : { adapter }), seamless: request.seamless === true, presented90k };
    }
    case 'cut':
      return { request: 'cut', prompt: request.prompt, presented90k };
    case 'blend':
      return { request: 'blend', prompt: request.prompt, chunks: request.chunks ?? BLEND_CHUNKS.default };
    case 'rewind':
      return { request: 'rewind', to90k: Math.min(request.media90k, presented90k), exact: request.exact === true, presented90k };
    case 'fork':
      throw new TypeError('a fork is no request to the engine');
    case 'hold':
    case 'release':
    case 'pause':
    case 'resume':
      return { request: request.type };
  }
}
