import type { Clock } from '../observe/clock.ts';
import { asksForScene, PROTOCOL_VERSION, type ControlMessage, type SessionRequest } from '../protocol/channel.ts';
import { SegueError } from '../protocol/errors.ts';
import { adapterWish } from '../protocol/session_adapter.ts';
import type { EngineToControl } from '../streams/messages.ts';
import type { SessionWords } from '../streams/session_words.ts';
import { ROLES } from './ports.ts';
import type { PromptMemory } from './PromptMemory.ts';
import { isSceneKind, outlivesProcess, type LedgerEntry, type RequestAnswer } from './RequestLedger.ts';
import type { WaitUntil } from './RequestWaiters.ts';
import type { SessionActivity } from './SessionActivity.ts';
import { SessionCaptions } from './SessionCaptions.ts';
import { SessionDrafts } from './SessionDrafts.ts';
import type { SessionConnections } from './SessionConnections.ts';
import type { SessionEventLog } from './SessionEventLog.ts';
import type { SessionFlow } from './SessionFlow.ts';
import type { SessionKeeper } from './SessionKeeper.ts';
import type { SessionOptions } from './session_options.ts';
import type { SessionReport } from './SessionReport.ts';
import { SessionRequests, type ChannelMessage } from './SessionRequests.ts';
import type { SessionReturn } from './session_return.ts';
import type { SessionStatus } from './SessionStatus.ts';
import type { StoryPosition } from './StoryPosition.ts';

export interface ConversationParts {
  readonly words: SessionWords;
  readonly status: SessionStatus;
  readonly position: StoryPosition;
  readonly connections: SessionConnections;
  readonly flow: SessionFlow;
  readonly events: SessionEventLog;
  readonly memory: PromptMemory;
  readonly report: SessionReport;
  readonly activity: SessionActivity;
  readonly onActivity: () => void;
  /** Where requests are written down; null: nowhere. */
  readonly keeper: SessionKeeper | null;
}

type AnswerMessage = Extract<EngineToControl, { type: 'request.applied' | 'request.superseded' | 'request.failed' }>;
type NoticeMessage = Extract<EngineToControl, { type: 'request.completed' | 'hold.expired' }>;
type DraftPreviewMessage = Extract<EngineToControl, { type: 'draft.preview' }>;
type TextMessage = Extract<EngineToControl, { type: 'text' }>;

/** What is said in a session: the handshake, what people ask for and what becomes of it, the model's own words, and what is remembered of that. */
export class SessionConversation {
  readonly #options: SessionOptions;
  readonly #parts: ConversationParts;
  readonly #captions = new SessionCaptions();
  readonly #requests: SessionRequests;
  readonly #drafts: SessionDrafts;
  readonly #clock: Clock;
  /** Requests that were accepted here, by id, until they have their last answer: the message, and the number of its write. */
  readonly #kept = new Map<string, { readonly body: string; readonly conditioningVersion: number; readonly number: number | null }>();

  constructor(options: SessionOptions, parts: ConversationParts) {
    this.#options = options;
    this.#parts = parts;
    this.#clock = options.clock;
    this.#requests = this.#createRequests();
    this.#drafts = this.#createDrafts();
  }

  get conditioningVersion(): number {
    return this.#requests.conditioningVersion;
  }

  /** What was said and asked before the process ended. */
  restore({ requests, again, conditioningVersion, turns }: SessionReturn): void {
    const { turn } = turns.at(-1) ?? {};
    for (const stream of ['plan', 'narration'] as const) {
      if (turn !== undefined && turn[stream] !== '') this.#captions.take({ requestId: turn.requestId, stream, text: turn[stream], complete: true });
    }
    this.#requests.restore(requests, again, conditioningVersion);
    for (const { entry, body, conditioningVersion: version } of requests) if (!entry.done) this.#kept.set(entry.id, { body: JSON.stringify(body), conditioningVersion: version, number: null });
  }

  /** The engine has the session: what it was asked for and hasn't shown for good is asked for again. */
  goOn({ again }: SessionReturn): void {
    for (const request of again) this.#requests.askAgain(request);
  }

  receive(message: ChannelMessage): void {
    this.#requests.receive(message);
  }

  /** A request by REST. Rejects with what it is refused with. */
  request(request: SessionRequest, until: WaitUntil): Promise<RequestAnswer> {
    return this.#requests.submit(request, until);
  }

  onAnswer(message: AnswerMessage): void {
    switch (message.type) {
      case 'request.applied':
        this.#parts.memory.shown(message.requestId, message.media90k);
        return this.#requests.onApplied(message);
      case 'request.superseded':
        return this.#requests.onSuperseded(message.requestId, message.by);
      case 'request.failed':
        return this.#requests.onFailed(message.requestId, message.error);
    }
  }

  /** What is told of a request besides its answers: that its blend is done, that its hold has ended by itself. */
  onNotice(message: NoticeMessage): void {
    const { connections, events } = this.#parts;
    const { requestId: re } = message;
    const told =
      message.type === 'hold.expired'
        ? { type: message.type, re }
        : { type: message.type, re, epoch: message.epoch, conditioningVersion: message.conditioningVersion, chunk: message.chunk, media90k: message.media90k };
    connections.broadcast('state', told);
    const { type, ...body } = told;
    events.append(type, body);
    if (type === 'hold.expired') this.#parts.activity.holdExpired();
  }

  onDraftPreview(message: DraftPreviewMessage): void {
    this.#drafts.onPreview(message);
  }

  onText(message: TextMessage): void {
    const { words, connections, events, memory } = this.#parts;
    if (message.epoch !== words.epoch) return;
    const told = this.#captions.take(message);
    // Of a plan only what came of it is remembered, not how it was thought of.
    if (message.stream === 'narration' || message.complete) memory.write(message.requestId, message.stream, this.#captions.textOf(message.stream), message.attributes);
    connections.broadcast('state', told);
    const { type, ...body } = told;
    events.append(type, body);
  }

  /** The story has gone back: the words that go with it are those of the turn that is in force there. */
  sayAgain(): void {
    const { memory, connections } = this.#parts;
    const turn = memory.turnInForce;
    if (turn === null) return;
    for (const stream of ['plan', 'narration'] as const) {
      if (turn[stream] !== '') connections.broadcast('state', this.#captions.take({ requestId: turn.requestId, stream, text: turn[stream], complete: true }));
    }
  }

  /** Ends every open request and every waiting caller. Idempotent. */
  close(error: SegueError): void {
    this.#requests.close(error);
  }

  #createRequests(): SessionRequests {
    const { engine, media, log, prompts, id, card } = this.#options;
    const { words, position, status, connections } = this.#parts;
    return new SessionRequests({
      clock: this.#clock,
      prompts,
      adapters: card.adapters ?? [],
      plays: this.#options.replay ?? null,
      sessionId: id,
      get epoch() {
        return words.epoch;
      },
      get presented90k() {
        return position.presented90k;
      },
      held: (media90k) => position.held(media90k),
      refusal: () => status.requestRefusal() ?? this.#storageRefusal(),
      mayDrive: (connectionId) => connectionId === null || (connections.roles(connectionId)?.has('drive') ?? false),
      toEngine: (request) => {
        if (!engine.send(request)) log.warn({ requestId: request.requestId }, 'the engine is gone');
      },
      inject: (text) => media.send({ type: 'channel.inject', sessionId: id, connectionId: null, channel: 'control', text }),
      toConnection: (connectionId, answer) => void connections.send(connectionId, 'control', answer),
      onHello: (connectionId, hello) => this.#onHello(connectionId, hello),
      onDraft: (connectionId, draft) => this.#drafts.receive(connectionId, draft),
      fork: async ({ media90k, ticket }, connectionId) => {
        const { fork } = this.#options;
        if (fork === undefined) throw new SegueError('forbidden', 'sessions can’t be forked here');
        return fork(id, { media90k, ticket, roles: [...((connectionId === null ? null : connections.roles(connectionId)) ?? ROLES)] });
      },
      onActivity: () => this.#parts.onActivity(),
      onAccepted: (request, entry, version, held90k) => this.#onAccepted(request, entry, version, held90k),
      onAnswer: (entry, answer) => this.#onAnswer(entry, answer),
      whenKept: (entry, run) => {
        const { keeper } = this.#parts;
        if (keeper === null) run();
        else keeper.whenStored(this.#kept.get(entry.id)?.number ?? null, run);
        this.#kept.delete(entry.id);
      },
    });
  }

  #createDrafts(): SessionDrafts {
    const { engine, prompts, id } = this.#options;
    const { status, connections } = this.#parts;
    return new SessionDrafts({
      sessionId: id,
      prompts,
      mayDrive: (connectionId) => connections.roles(connectionId)?.has('drive') ?? false,
      takesRequests: () => status.requestRefusal() === null,
      // Where the engine is gone, requests say so.
      toEngine: (message) => void engine.send(message),
      toConnection: (connectionId, message) => void connections.send(connectionId, 'control', message),
    });
  }

  #onHello(connectionId: string, hello: Extract<ControlMessage, { type: 'hello' }>): void {
    const { connections, words, report } = this.#parts;
    if (hello.protocol !== PROTOCOL_VERSION) {
      const error = new SegueError('unsupported_protocol', `protocol ${hello.protocol} is not spoken here; supported: ${PROTOCOL_VERSION}`, { param: 'protocol' });
      connections.send(connectionId, 'control', { type: 'error', re: hello.id, error: error.toBody() });
      return;
    }
    connections.markConnected(connectionId);
    const { card, id } = this.#options;
    connections.send(connectionId, 'control', {
      ...(this.#options.transform == null ? {} : { takesVideo: true as const }),
      type: 'ready',
      re: hello.id,
      protocol: PROTOCOL_VERSION,
      session: id,
      epoch: words.epoch,
      model: card.modelId,
      format: { ...card.format },
      framesPerChunk: card.framesPerChunk,
      vocabulary: [...card.vocabulary],
      ...(card.adapters === undefined || card.adapters.length === 0 ? {} : { adapters: card.adapters.map((adapter) => ({ ...adapter })) }),
    });
    connections.send(connectionId, 'state', this.#parts.activity.current);
    connections.send(connectionId, 'state', report.update);
    // Whoever comes, or comes back, sees the words that go with the picture, and not only from the next plan on.
    for (const caption of this.#captions.messages()) connections.send(connectionId, 'state', caption);
  }

  /** A request that can't be written down would be lost with the process, whatever was answered. */
  #storageRefusal(): SegueError | null {
    const { keeper } = this.#parts;
    return keeper === null || keeper.canTake ? null : new SegueError('rate_limited', 'the storage does not follow', { retryAfterMs: 1_000 });
  }

  #onAccepted(request: SessionRequest, entry: LedgerEntry, conditioningVersion: number, held90k: number | null): void {
    const { position, flow, memory, keeper } = this.#parts;
    // What fences also rewinds: the positions go back to what was seen.
    if (held90k !== null) {
      position.rewindTo(held90k);
      // A rewind says itself, once it is done, what is left of each turn.
      if (request.type !== 'rewind') memory.rewind(held90k);
    }
    if (asksForScene(request)) {
      // What a cut or a blend doesn't name stays as it was last asked for: so does the engine.
      const adapter = request.type === 'redirect' ? adapterWish(request.adapter, this.#options.card.adapters ?? []) : undefined;
      const prompt = request.type === 'redirect' && request.plan !== undefined ? (request.prompt ?? null) : request.prompt;
      memory.append({ requestId: entry.id, prompt, adapter, at: new Date().toISOString(), presented90k: position.presented90k, epoch: entry.epoch });
    }
    // Behind its turn, so that whoever finds the one finds the other.
    if (keeper !== null) {
      const body = JSON.stringify(request);
      this.#kept.set(entry.id, { body, conditioningVersion, number: this.#keep(keeper, entry, { body, conditioningVersion }) });
    }
    flow.accepted(entry.id, request);
    this.#parts.activity.accepted(entry.id, request);
  }

  #onAnswer(entry: LedgerEntry, answer: RequestAnswer): void {
    const { events, flow, memory, report } = this.#parts;
    // Whoever reads events may not drive: a token for the fork is its driver's alone.
    const { type, ...data } = answer.type === 'forked' ? { type: answer.type, re: answer.re, session: answer.session, media90k: answer.media90k } : answer;
    const kept = this.#kept.get(entry.id);
    if (this.#parts.keeper !== null && kept !== undefined) {
      const number = this.#keep(this.#parts.keeper, entry, kept);
      if (entry.done && !outlivesProcess(entry.kind)) this.#kept.delete(entry.id);
      else this.#kept.set(entry.id, { ...kept, number });
    }
    events.append(`request.${type}`, { kind: entry.kind, ...data });
    if (answer.type !== 'accepted') this.#options.onSettled?.(entry.kind, answer.type, this.#clock.now() - entry.acceptedMs);
    if (answer.type === 'error' && answer.error.code !== 'timed_out') flow.failed(entry.id);
    if (isSceneKind(entry.kind) && answer.type !== 'accepted' && answer.type !== 'forked') memory.settle(entry.id, answer.type === 'error' ? 'failed' : answer.type, answer.type === 'superseded' ? answer.by : null);
    if (entry.done) this.#parts.activity.settled(entry.id);
    report.tell();
  }

  #keep(keeper: SessionKeeper, { id, kind, epoch, answers, done }: LedgerEntry, { body, conditioningVersion }: { readonly body: string; readonly conditioningVersion: number }): number | null {
    return keeper.request({ requestId: id, kind, body, epoch, conditioningVersion, answers: JSON.stringify(answers), done });
  }
}
