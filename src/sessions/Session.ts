import type { Clock, Timer } from '../observe/clock.ts';
import type { Logger } from '../observe/log.ts';
import { PROTOCOL_VERSION, type ControlMessage, type SessionRequest, type StateUpdate } from '../protocol/channel.ts';
import { SegueError, type ErrorBody } from '../protocol/errors.ts';
import type { SessionStateName, SessionView } from '../protocol/rest.ts';
import type { EngineCard, EngineToControl, IceCandidate, InjectedFault, MediaToControl } from '../streams/messages.ts';
import { SessionWords } from '../streams/session_words.ts';
import { SharedPool } from '../streams/shared_pool.ts';
import { IdleWatch } from './IdleWatch.ts';
import type { EnginePort, MediaPort, Role } from './ports.ts';
import { PromptMemory, type Turn } from './PromptMemory.ts';
import type { LedgerEntry, RequestAnswer } from './RequestLedger.ts';
import { SessionConnections, type ConnectionView, type RelaySink } from './SessionConnections.ts';
import { SessionEventLog } from './SessionEventLog.ts';
import { SessionRequests } from './SessionRequests.ts';
import { isEnding, nextSessionState, type SessionTransition } from './session_state.ts';

export interface SessionLimits {
  /** Without a request or a change of action: then the session closes. */
  readonly idleMs: number;
  /** How long before that it says so. */
  readonly idleWarningMs: number;
  /** Without a connection: kept this long. */
  readonly orphanMs: number;
}

export interface SessionOptions {
  readonly id: string;
  readonly card: EngineCard;
  readonly program: string;
  readonly seed: number;
  readonly prompt: string | null;
  readonly tenant: string;
  readonly stamp: boolean;
  /** Leaving on purpose ends the session, instead of keeping it for a rejoin: nobody else can come back to it. */
  readonly endsOnLeave: boolean;
  readonly limits: SessionLimits;
  readonly engine: EnginePort;
  readonly media: MediaPort;
  readonly clock: Clock;
  readonly log: Logger;
  /** Each last answer to a request, for the metrics. */
  readonly onSettled?: (kind: string, answer: string, elapsedMs: number) => void;
}

/** Engine's answer to `session.open`. */
const OPEN_WATCHDOG_MS = 5_000;
/** Engine's answer to `session.close`: a cancelled task has 2 s. */
const CLOSE_WATCHDOG_MS = 2_000;
/** Peers closing after their `closed` message has gone out. */
const DRAIN_WATCHDOG_MS = 1_000;
/** Positions go out at most this often; changes of state at once. */
const STATE_INTERVAL_MS = 1_000;
/** Raw pictures in flight per session: the chunk that is made, two that wait (the horizon), and room for those being encoded. */
const VIDEO_SLOTS_PER_CHUNK = 8;
const MIN_SLOTS = 24;

type EngineMessage = Extract<EngineToControl, { readonly sessionId: string }>;
type MediaMessage = Extract<MediaToControl, { readonly sessionId: string }>;

/**
 * One live session: its state, what it was asked and remembers, its connections, and how it ends. Runs on the control thread and never computes,
 * encodes or fences; the engine and the media thread are reached through ports, time through a clock.
 */
export class Session {
  readonly id: string;
  readonly createdAt = new Date().toISOString();
  readonly events: SessionEventLog;
  readonly memory = new PromptMemory();
  readonly words = new SessionWords();
  readonly #options: SessionOptions;
  readonly #video: SharedPool;
  readonly #audio: SharedPool;
  readonly #connections: SessionConnections;
  readonly #requests: SessionRequests;
  readonly #idle: IdleWatch;
  readonly #opened = Promise.withResolvers<void>();
  readonly #engineClosed = Promise.withResolvers<void>();
  #state: SessionStateName = 'created';
  #reason: string | null = null;
  #sent90k = 0;
  #presented90k = 0;
  #committed90k = 0;
  #paused = false;
  /** Frozen until the next redirect or resume. */
  #interrupted = false;
  /** What a redirect that turns out not to be understood leaves as it was. */
  #before: { readonly requestId: string; readonly paused: boolean; readonly interrupted: boolean } | null = null;
  #holds = 0;
  #openTimer: Timer | null = null;
  #orphanTimer: Timer | null = null;
  #lastStateMs = Number.NEGATIVE_INFINITY;
  #ending: Promise<void> | null = null;

  constructor(options: SessionOptions) {
    this.#options = options;
    this.id = options.id;
    const { format, framesPerChunk } = options.card;
    const slots = Math.max(MIN_SLOTS, VIDEO_SLOTS_PER_CHUNK * framesPerChunk);
    this.#video = SharedPool.create(multipleOf8(format.width * format.height * 3), slots);
    this.#audio = SharedPool.create(multipleOf8(Math.ceil(format.audioSampleRate / format.framesPerSecond) * 2), slots);
    this.events = new SessionEventLog(options.clock, (error) => options.log.error({ err: error }, 'a reader of session events failed'));
    this.#connections = new SessionConnections({ sessionId: this.id, media: options.media, clock: options.clock, log: options.log, onPresence: () => this.#onPresence() });
    this.#requests = this.#createRequests();
    const { idleMs, idleWarningMs } = options.limits;
    this.#idle = new IdleWatch({
      clock: options.clock,
      idleMs,
      warningMs: idleWarningMs,
      action: () => this.words.action.sequence,
      warn: (closesInMs) => {
        this.#connections.broadcast('control', { type: 'idle', closesInMs });
        this.events.append('session.idle', { closesInMs });
      },
      expire: () => void this.close(`idle for ${Math.round(idleMs / 1000)} s`),
    });
    // Whoever closes a session that nobody waits to open must not cause an unhandled rejection.
    this.#opened.promise.catch(() => undefined);
  }

  get state(): SessionStateName {
    return this.#state;
  }

  get connections(): readonly ConnectionView[] {
    return this.#connections.views;
  }

  get view(): SessionView {
    const { card, program, seed } = this.#options;
    return {
      id: this.id,
      state: this.#state,
      model: card.modelId,
      program,
      seed,
      createdAt: this.createdAt,
      epoch: this.words.epoch,
      conditioningVersion: this.#requests.conditioningVersion,
      sent90k: this.#sent90k,
      presented90k: this.#presented90k,
      committed90k: this.#committed90k,
      prompt: this.memory.prompt,
      connections: this.#connections.present,
      ...(this.#reason === null ? {} : { reason: this.#reason }),
    };
  }

  get turns(): readonly Turn[] {
    return this.memory.turns;
  }

  /** Asks the engine for capacity. Rejects with what it refused with, engine_unavailable, or timed_out; the session is then failed and cleaned up. */
  open(): Promise<void> {
    if (this.#state !== 'created') return this.#opened.promise;
    const { engine, clock, card, program, seed, prompt, tenant } = this.#options;
    this.#move('open');
    this.memory.append({ requestId: null, prompt, at: this.createdAt, presented90k: 0, epoch: this.words.epoch });
    this.#openTimer = clock.schedule(clock.now() + OPEN_WATCHDOG_MS, () => void this.fail(new SegueError('timed_out', 'the engine did not answer')));
    const sent = engine.send({
      type: 'session.open',
      sessionId: this.id,
      model: card.modelId,
      program,
      seed,
      prompt,
      tenant,
      channels: { words: this.words.buffer, video: this.#video.descriptor, audio: this.#audio.descriptor },
    });
    if (!sent) void this.fail(new SegueError('engine_unavailable', 'the engine is gone'));
    return this.#opened.promise;
  }

  onEngine(message: EngineMessage): void {
    switch (message.type) {
      case 'session.opened':
        return this.#onOpened(message.format);
      case 'session.refused':
        this.#engineClosed.resolve();
        void this.fail(errorOf(message.error));
        return;
      case 'request.applied':
        return this.#requests.onApplied(message);
      case 'request.superseded':
        return this.#requests.onSuperseded(message.requestId, message.by);
      case 'request.failed':
        return this.#requests.onFailed(message.requestId, message.error);
      case 'text':
        return this.#onText(message);
      case 'session.committed':
        // Committed never goes back, so one that was told before a fence still counts: the engine won't say it again.
        this.#committed90k = Math.max(this.#committed90k, message.media90k);
        return;
      case 'session.fault':
        this.events.append('session.fault', { error: message.error, fatal: message.fatal });
        if (message.fatal) void this.fail(errorOf(message.error));
        else this.#connections.broadcast('control', { type: 'error', error: message.error });
        return;
      case 'session.closed':
        this.#engineClosed.resolve();
        if (!isEnding(this.#state)) void this.fail(new SegueError('internal', 'the engine closed the session'));
        return;
    }
  }

  onMedia(message: MediaMessage): void {
    switch (message.type) {
      case 'connection.answer':
        return this.#connections.onAnswer(message.connectionId, message.sdp);
      case 'connection.failed':
        return this.#connections.onFailed(message.connectionId, errorOf(message.error));
      case 'connection.state':
        return this.#connections.onState(message.connectionId, message.state);
      case 'channel.message':
        return this.#requests.receive(message);
      case 'media.position':
        return this.#onPosition(message);
      case 'media.flowing':
        this.events.append('media.flowing', { epoch: message.epoch, media90k: message.media90k });
        return;
      case 'relay.text':
        return this.#connections.onRelayText(message.connectionId, message.channel, message.text);
      case 'relay.media':
        return this.#connections.onRelayMedia(message);
    }
  }

  /** A request by REST. Rejects with what it is refused with. */
  request(request: SessionRequest, until: 'accepted' | 'settled'): Promise<RequestAnswer> {
    return this.#requests.submit(request, until);
  }

  /** A message of a WebSocket, or (null) an input by REST: to the media thread, as if it had come over a data channel. */
  inject(connectionId: string | null, channel: 'control' | 'input', text: string): void {
    if (connectionId === null || this.#connections.has(connectionId)) this.#options.media.send({ type: 'channel.inject', sessionId: this.id, connectionId, channel, text });
  }

  /** Opens a WebRTC connection: see {@link SessionConnections.offer}. */
  async connect(sdp: string, roles: readonly Role[], replaces: string | null = null): Promise<{ readonly id: string; readonly sdp: string }> {
    this.#assertConnectable();
    const answer = await this.#connections.offer(sdp, roles, replaces);
    this.#idle.touch();
    return answer;
  }

  attachRelay(roles: readonly Role[], sink: RelaySink): string {
    this.#assertConnectable();
    const id = this.#connections.attachRelay(roles, sink);
    this.#idle.touch();
    return id;
  }

  candidate(connectionId: string, candidate: IceCandidate | null): void {
    this.#connections.candidate(connectionId, candidate);
  }

  requestKeyframe(connectionId: string): void {
    this.#connections.requestKeyframe(connectionId);
  }

  /** Someone leaves on purpose. Throws connection_not_found. */
  disconnect(connectionId: string, reason: string): void {
    this.#connections.close(connectionId, reason);
    if (this.#options.endsOnLeave && this.#connections.views.length === 0) void this.close(reason);
  }

  /** A WebSocket is gone, on purpose or not. */
  detachRelay(connectionId: string, left: boolean): void {
    if (!this.#connections.has(connectionId)) return;
    if (left) this.disconnect(connectionId, 'the client left');
    else this.#connections.close(connectionId, 'the WebSocket closed');
  }

  hasConnection(connectionId: string): boolean {
    return this.#connections.has(connectionId);
  }

  /** The server drains: tells every connection. */
  goaway(deadlineMs: number, reason: string): void {
    if (isEnding(this.#state)) return;
    this.#connections.broadcast('control', { type: 'goaway', deadlineMs, reason });
    this.events.append('session.goaway', { deadlineMs, reason });
  }

  /** Test mode: the engine makes the session's next unit fail. */
  injectFault(fault: InjectedFault): void {
    this.#options.engine.send({ type: 'fault.inject', sessionId: this.id, fault });
  }

  /** Ends streams in order, frees what is reserved, says why. Idempotent; resolves when all is done, and never later than its watchdogs. */
  close(reason: string): Promise<void> {
    this.#ending ??= this.#end(reason, null);
    return this.#ending;
  }

  /** As {@link close}, into `failed`. */
  fail(error: SegueError): Promise<void> {
    this.#ending ??= this.#end(error.message, error);
    return this.#ending;
  }

  async #end(reason: string, error: SegueError | null): Promise<void> {
    const { engine, media, clock, log } = this.#options;
    const wasOpen = this.#state !== 'created';
    this.#reason = reason;
    this.#move(error ? 'fail' : 'close');
    log[error && error.code !== 'at_capacity' ? 'warn' : 'info']({ reason, ...(error ? { code: error.code } : {}) }, error ? 'session failed' : 'session closing');
    for (const timer of [this.#openTimer, this.#orphanTimer]) timer?.cancel();
    this.#idle.close();
    this.#opened.reject(error ?? new SegueError('session_closed', reason));
    this.#requests.close(error ?? new SegueError('session_closed', reason));
    this.#connections.stopAccepting(reason);
    // From here on nobody commits, sends or accepts anything for this session, whatever is still on its way.
    this.words.markClosed();
    if (wasOpen && engine.send({ type: 'session.close', sessionId: this.id })) {
      const watchdog = clock.schedule(clock.now() + CLOSE_WATCHDOG_MS, () => {
        log.warn('the engine did not confirm the end of the session');
        this.#engineClosed.resolve();
      });
      await this.#engineClosed.promise;
      watchdog.cancel();
    }
    if (error) this.#connections.broadcast('control', { type: 'error', error: error.toBody() });
    this.#connections.broadcast('control', { type: 'closed', reason });
    const sent = media.send({ type: 'session.close', sessionId: this.id, reason });
    await this.#connections.drained(sent ? DRAIN_WATCHDOG_MS : 0);
    if (!error) this.#move('closed');
    this.events.append('session.closed', { reason, ...(error ? { error: error.toBody() } : {}) });
    this.events.end();
  }

  #createRequests(): SessionRequests {
    const { clock, engine, media, log } = this.#options;
    // eslint-disable-next-line @typescript-eslint/no-this-alias -- getters of the host need the session, not the literal
    const session = this;
    return new SessionRequests({
      clock,
      sessionId: this.id,
      get epoch() {
        return session.words.epoch;
      },
      get presented90k() {
        return session.#presented90k;
      },
      refusal: () => this.#refusal(),
      mayDrive: (connectionId) => connectionId === null || (this.#connections.roles(connectionId)?.has('drive') ?? false),
      toEngine: (request) => {
        if (!engine.send(request)) log.warn({ requestId: request.requestId }, 'the engine is gone');
      },
      inject: (text) => media.send({ type: 'channel.inject', sessionId: this.id, connectionId: null, channel: 'control', text }),
      toConnection: (connectionId, answer) => void this.#connections.send(connectionId, 'control', answer),
      onHello: (connectionId, hello) => this.#onHello(connectionId, hello),
      onActivity: () => this.#idle.touch(),
      onAccepted: (request, entry, _version, held90k) => this.#onAccepted(request, entry, held90k),
      onAnswer: (entry, answer) => this.#onAnswer(entry, answer),
    });
  }

  #refusal(): SegueError | null {
    if (isEnding(this.#state)) return new SegueError('session_closed', this.#reason ?? 'the session is closed');
    if (this.#state === 'created' || this.#state === 'waiting') return new SegueError('conflict', 'the session is not open yet');
    // Nothing moves without a connection, so nothing could be applied in time.
    if (this.#state === 'orphaned') return new SegueError('conflict', 'the session has no connection');
    return null;
  }

  #assertConnectable(): void {
    if (isEnding(this.#state)) throw new SegueError('session_closed', this.#reason ?? 'the session is closed');
    if (this.#state === 'created' || this.#state === 'waiting') throw new SegueError('conflict', 'the session is not open yet');
  }

  #onOpened(format: EngineCard['format']): void {
    if (this.#state !== 'waiting') return;
    const { media, stamp } = this.#options;
    this.#openTimer?.cancel();
    this.#openTimer = null;
    const sent = media.send({
      type: 'session.open',
      sessionId: this.id,
      channels: { words: this.words.buffer, video: this.#video.descriptor, audio: this.#audio.descriptor },
      format,
      stamp,
    });
    if (!sent) return void this.fail(new SegueError('engine_unavailable', 'the media thread is gone'));
    this.#move('opened');
    this.#watchOrphan();
    this.#idle.start();
    this.#opened.resolve();
  }

  #onHello(connectionId: string, hello: Extract<ControlMessage, { type: 'hello' }>): void {
    if (hello.protocol !== PROTOCOL_VERSION) {
      const error = new SegueError('unsupported_protocol', `protocol ${hello.protocol} is not spoken here; supported: ${PROTOCOL_VERSION}`, { param: 'protocol' });
      this.#connections.send(connectionId, 'control', { type: 'error', re: hello.id, error: error.toBody() });
      return;
    }
    this.#connections.markConnected(connectionId);
    const { card } = this.#options;
    this.#connections.send(connectionId, 'control', {
      type: 'ready',
      re: hello.id,
      protocol: PROTOCOL_VERSION,
      session: this.id,
      epoch: this.words.epoch,
      model: card.modelId,
      format: { ...card.format },
      framesPerChunk: card.framesPerChunk,
      vocabulary: [...card.vocabulary],
    });
    this.#connections.send(connectionId, 'state', this.#stateUpdate());
  }

  #onAccepted(request: SessionRequest, entry: LedgerEntry, held90k: number | null): void {
    // What fences also rewinds: the positions go back to what was seen.
    if (held90k !== null) this.#presented90k = held90k;
    if (request.type === 'redirect') {
      this.memory.append({ requestId: entry.id, prompt: request.prompt, at: new Date().toISOString(), presented90k: this.#presented90k, epoch: entry.epoch });
    }
    // As in the media thread, a fence ends a pause: whoever asks for something else wants to see it.
    this.#before = request.type === 'redirect' ? { requestId: entry.id, paused: this.#paused, interrupted: this.#interrupted } : null;
    if (request.type !== 'pause') this.#interrupted = request.type === 'interrupt';
    this.#setPaused(request.type === 'pause');
  }

  #onAnswer(entry: LedgerEntry, answer: RequestAnswer): void {
    const { type, ...data } = answer;
    this.events.append(`request.${type}`, { kind: entry.kind, ...data });
    if (answer.type !== 'accepted') this.#options.onSettled?.(entry.kind, answer.type, this.#options.clock.now() - entry.acceptedMs);
    if (answer.type === 'error' && answer.error.code !== 'timed_out' && this.#before?.requestId === entry.id) {
      const { paused, interrupted } = this.#before;
      this.#before = null;
      this.#interrupted = interrupted;
      this.#setPaused(paused);
    }
    if (entry.kind === 'redirect' && answer.type !== 'accepted') this.memory.settle(entry.id, answer.type === 'error' ? 'failed' : answer.type);
    this.#tellState();
  }

  #onText(message: Extract<EngineMessage, { type: 'text' }>): void {
    if (message.epoch !== this.words.epoch) return;
    const { requestId, stream, text, complete } = message;
    if (complete) this.memory.complete(requestId, stream, text);
    else this.memory.write(requestId, stream, text);
    const type = complete ? 'text.complete' : 'text.delta';
    const body = { stream, text, ...(requestId === null ? {} : { re: requestId }) };
    this.#connections.broadcast('state', { type, ...body });
    this.events.append(type, body);
  }

  #onPosition(message: Extract<MediaMessage, { type: 'media.position' }>): void {
    if (message.epoch !== this.words.epoch || isEnding(this.#state)) return;
    this.#sent90k = message.sent90k;
    this.#presented90k = message.presented90k;
    if (this.#options.clock.now() - this.#lastStateMs >= STATE_INTERVAL_MS) this.#tellState();
  }

  #onPresence(): void {
    if (isEnding(this.#state)) return;
    if (this.#connections.present > 0) {
      if (this.#state !== 'connecting' && this.#state !== 'orphaned') return;
      const rejoined = this.#state === 'orphaned';
      this.#orphanTimer?.cancel();
      this.#orphanTimer = null;
      this.#move('connected');
      if (this.#paused) this.#move('paused');
      // A session that was frozen by its driver stays so: `resume` would end that too.
      else if (rejoined && !this.#interrupted) this.#hold('resume');
      this.#idle.touch();
    } else if (this.#state === 'active' || this.#state === 'paused') {
      // Nobody watches: nothing is generated, so that nothing is remembered that nobody saw.
      if (!this.#paused && !this.#interrupted) this.#hold('pause');
      this.#move('lost');
      this.#watchOrphan();
    }
  }

  /** Pauses and resumes on the session's own account; no client waits for the answer. */
  #hold(request: 'pause' | 'resume'): void {
    this.#holds += 1;
    this.#options.engine.send({
      type: 'session.request',
      sessionId: this.id,
      requestId: `presence:${this.#holds}`,
      epoch: this.words.epoch,
      conditioningVersion: this.#requests.conditioningVersion,
      request,
    });
  }

  #setPaused(paused: boolean): void {
    if (this.#paused === paused) return;
    this.#paused = paused;
    this.#move(paused ? 'paused' : 'resumed');
  }

  #move(transition: SessionTransition): void {
    const next = nextSessionState(this.#state, transition);
    if (next === null) return;
    this.#state = next;
    this.#options.log.info({ state: next }, 'session state');
    this.events.append('session.updated', { ...this.view });
    this.#tellState();
  }

  #tellState(): void {
    this.#lastStateMs = this.#options.clock.now();
    this.#connections.broadcast('state', this.#stateUpdate());
  }

  #stateUpdate(): StateUpdate {
    const { state, epoch, conditioningVersion, sent90k, presented90k, committed90k, prompt } = this.view;
    return { type: 'session.updated', state, epoch, conditioningVersion, sent90k, presented90k, committed90k, prompt };
  }

  #watchOrphan(): void {
    const { clock, limits } = this.#options;
    this.#orphanTimer = clock.schedule(clock.now() + limits.orphanMs, () => {
      const seconds = Math.round(limits.orphanMs / 1000);
      void this.close(this.#state === 'connecting' ? `nobody connected within ${seconds} s` : `no connection for ${seconds} s`);
    });
  }
}

function multipleOf8(bytes: number): number {
  return Math.ceil(bytes / 8) * 8;
}

function errorOf({ code, message, param, retryAfterMs }: ErrorBody): SegueError {
  return new SegueError(code, message, { ...(param === undefined ? {} : { param }), ...(retryAfterMs === undefined ? {} : { retryAfterMs }) });
}
