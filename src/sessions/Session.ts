import type { SessionRequest } from '../protocol/channel.ts';
import type { Degraded } from '../protocol/degraded.ts';
import { SegueError } from '../protocol/errors.ts';
import type { PromptWarning } from '../protocol/prompt_warning.ts';
import type { SessionStateName, SessionView } from '../protocol/rest.ts';
import type { EngineCard, EngineToControl, IceCandidate, InjectedFault, MediaToControl } from '../streams/messages.ts';
import type { KeptRange } from '../streams/kept_range.ts';
import type { SessionWords } from '../streams/session_words.ts';
import type { Role } from './ports.ts';
import type { PromptMemory } from './PromptMemory.ts';
import type { RequestAnswer } from './RequestLedger.ts';
import type { WaitUntil } from './RequestWaiters.ts';
import type { SessionOptions } from './session_options.ts';
import { finite } from './SessionBudget.ts';
import type { ConnectionView, RelaySink } from './SessionConnections.ts';
import type { SessionEventLog } from './SessionEventLog.ts';
import type { KeptOptions } from './session_return.ts';
import { SessionParts } from './SessionParts.ts';
import type { Stay } from './StayEstimate.ts';

/** Peers closing after their `closed` message has gone out. */
const DRAIN_WATCHDOG_MS = 1_000;

type EngineMessage = Extract<EngineToControl, { readonly sessionId: string }>;
type MediaMessage = Extract<MediaToControl, { readonly sessionId: string }>;

/**
 * One live session: opened with the engine and the media thread, connected to, talked with, ended in order. Runs on the control thread and never
 * computes, encodes or fences; the engine and the media thread are reached through ports, time through a clock.
 */
export class Session {
  readonly id: string;
  readonly events: SessionEventLog;
  readonly memory: PromptMemory;
  readonly words: SessionWords;
  readonly #options: SessionOptions;
  readonly #parts: SessionParts;
  /** What is committed is told by the storage. */
  #storyKept = false;
  readonly #opened = Promise.withResolvers<void>();
  #ending: Promise<void> | null = null;

  constructor(options: SessionOptions) {
    this.#options = options;
    this.id = options.id;
    this.#parts = new SessionParts(options, {
      moved: () => this.#onMoved(),
      close: (reason) => this.close(reason),
      fail: (error) => this.fail(error),
      endWith: (transition, error) => this.#endWith(transition, error),
    });
    ({ events: this.events, memory: this.memory, words: this.words } = this.#parts);
    // Whoever closes a session that nobody waits to open must not cause an unhandled rejection.
    this.#opened.promise.catch(() => undefined);
  }

  get state(): SessionStateName {
    return this.#parts.status.state;
  }

  /** It has a place in the engine, or is being given one: nobody else can have that. */
  get holdsPlace(): boolean {
    return this.#parts.reservation.held;
  }

  /** How long it has been open, and by when it must end, ms. */
  get stay(): Stay {
    return this.#parts.budget.stay;
  }

  get connections(): readonly ConnectionView[] {
    return this.#parts.connections.views;
  }

  /** What of the prompt that it was opened with has no effect. */
  get promptWarnings(): readonly PromptWarning[] {
    return this.#options.promptWarnings;
  }

  /** Whose story it plays; null: it makes its own. */
  get plays(): KeptRange | null {
    return this.#options.replay ?? null;
  }

  /** Shared memory that it refers to. */
  get buffers(): readonly SharedArrayBuffer[] {
    return [this.#parts.channels.video.buffer, this.#parts.channels.audio.buffer];
  }

  /** What it goes without, on the degrade ladder; null: nothing. */
  get degraded(): Degraded | null {
    return this.#parts.report.degraded;
  }

  /** Where the story stands: what is presented. */
  get branch(): number {
    return this.#parts.position.branch;
  }

  get presented90k(): number {
    return this.#parts.position.presented90k;
  }

  /** What another session that goes on with this one's past is made like. */
  get origin() {
    const { program, seed, prompt, image, adapter = null, plan = null, transform = null, tenant, stamp, voice, endsOnLeave, limits } = this.#options;
    const { idleMs, orphanMs, budget } = limits;
    return { program, seed, prompt, image, adapter, plan, transform, tenant, stamp, voice, endsOnLeave, limits: { idleMs, orphanMs, ...budget } };
  }

  /** Resolves when something of its story is on disk, where it is kept, and after a second in any case. */
  kept(): Promise<void> {
    return (this.#storyKept ? this.#parts.keeper?.whenDurable() : null) ?? Promise.resolve();
  }

  get view(): SessionView {
    return this.#parts.report.view;
  }

  /** Asks the engine for capacity. Rejects with what it refused with, engine_unavailable, or timed_out; the session is then failed and cleaned up. */
  open(): Promise<void> {
    if (this.state !== 'created') return this.#opened.promise;
    this.#keep();
    this.#parts.status.move('open');
    const { returning, forked = null, prompt, adapter = null, memory = [], replay } = this.#options;
    if (returning === null && forked === null) {
      if (memory.length > 0) this.memory.import(memory, null);
      if (replay !== undefined) this.#parts.position.restore(replay.from90k, 0);
      else this.memory.append({ requestId: null, prompt: prompt ?? this.memory.prompt, adapter, at: this.#parts.report.createdAt, presented90k: 0, epoch: this.words.epoch, from90k: 0 });
    }
    this.#parts.reservation.request();
    return this.#opened.promise;
  }

  onEngine(message: EngineMessage): void {
    switch (message.type) {
      case 'session.opened':
        this.#storyKept = message.kept === true;
        return this.#onOpened(message.format, message.resumedExactly === true, message.at90k ?? 0, message.whole90k);
      case 'session.refused':
        this.#parts.reservation.onClosed();
        void this.fail(SegueError.from(message.error));
        return;
      case 'request.applied':
      case 'request.superseded':
      case 'request.failed':
        this.#parts.conversation.onAnswer(message);
        return this.#parts.gaps.check();
      case 'request.completed':
      case 'hold.expired':
        return this.#parts.conversation.onNotice(message);
      case 'draft.preview':
        return this.#parts.conversation.onDraftPreview(message);
      case 'text':
        return this.#parts.conversation.onText(message);
      case 'session.committed':
        if (!this.#storyKept) this.#parts.position.commit(message.media90k);
        return;
      case 'session.degraded':
        this.#parts.report.degraded = message.degraded;
        this.events.append('session.updated', { ...this.view });
        return this.#parts.report.tell();
      case 'session.usage': {
        const { deviceMs, lateFrames } = message;
        return this.#parts.budget.report({ deviceMs, lateFrames });
      }
      case 'story.wanted':
        void this.#parts.story.read(message);
        return;
      case 'session.rewound':
        return this.#parts.story.onRewound(message);
      case 'session.keeping': {
        const { behindFromChunk, reason } = message;
        this.#options.log.warn({ behindFromChunk, reason }, behindFromChunk === null ? 'the story is kept again' : 'the story is not kept');
        this.events.append('session.keeping', { behindFromChunk, ...(reason === undefined ? {} : { reason }) });
        return;
      }
      case 'session.fault':
        this.events.append('session.fault', { error: message.error, fatal: message.fatal });
        if (message.fatal) void this.fail(SegueError.from(message.error));
        else this.#parts.connections.broadcast('control', { type: 'error', error: message.error });
        return;
      case 'session.closed':
        this.#parts.reservation.onClosed();
        if (!this.#parts.status.ending) void this.fail(new SegueError('internal', 'the engine closed the session'));
        return;
    }
  }

  onMedia(message: MediaMessage): void {
    switch (message.type) {
      case 'connection.answer':
        return this.#parts.connections.onAnswer(message.connectionId, message.sdp);
      case 'connection.failed':
        return this.#parts.connections.onFailed(message.connectionId, SegueError.from(message.error));
      case 'connection.state':
        return this.#parts.connections.onState(message.connectionId, message.state);
      case 'channel.message':
        return this.#parts.conversation.receive(message);
      case 'media.position':
        if (message.epoch !== this.words.epoch || this.#parts.status.ending) return;
        this.#parts.position.report(message.sent90k, message.presented90k, message.epoch);
        this.memory.present(message.presented90k);
        this.#parts.gaps.moved(message.sent90k, message.presented90k);
        return this.#parts.report.tellPosition();
      case 'media.usage':
        return this.#parts.budget.report({ sentBytes: message.sentBytes });
      case 'media.flowing':
        this.#parts.activity.shown();
        this.events.append('media.flowing', { epoch: message.epoch, media90k: message.media90k });
        return;
      case 'voice.speaking':
        this.#parts.idle.touch();
        return this.#parts.activity.speaking(message.speaking);
      case 'connection.trouble':
        this.#parts.connections.send(message.connectionId, 'control', { type: 'error', error: message.error });
        return;
      case 'relay.text':
        return this.#parts.connections.onRelayText(message.connectionId, message.channel, message.text);
      case 'relay.media':
        return this.#parts.connections.onRelayMedia(message);
    }
  }

  /** A request by REST. Rejects with what it is refused with. */
  request(request: SessionRequest, until: WaitUntil): Promise<RequestAnswer> {
    return this.#parts.conversation.request(request, until);
  }

  /** A message of a WebSocket, or (null) an input by REST: to the media thread, as if it had come over a data channel. */
  inject(connectionId: string | null, channel: 'control' | 'input', text: string): void {
    if (connectionId === null || this.#parts.connections.has(connectionId)) this.#options.media.send({ type: 'channel.inject', sessionId: this.id, connectionId, channel, text });
  }

  /** Samples of a WebSocket's microphone. Throws conflict where the session listens to none, forbidden where this connection may not speak. */
  hear(connectionId: string, data: Uint8Array): void {
    const roles = this.#parts.connections.roles(connectionId);
    if (roles === null) return;
    if (!this.#options.voice.enabled) throw new SegueError('conflict', 'this session listens to no voice');
    if (!roles.has('drive') && !roles.has('speak')) throw new SegueError('forbidden', 'this connection may watch, not speak');
    this.#options.media.send({ type: 'connection.voice', sessionId: this.id, connectionId, data });
  }

  /** A VP8 frame of a WebSocket's camera. Throws conflict where the session takes no video in, forbidden where this connection may not drive. */
  see(connectionId: string, data: Uint8Array): void {
    const roles = this.#parts.connections.roles(connectionId);
    if (roles === null) return;
    if (this.#options.transform == null) throw new SegueError('conflict', 'this session takes no video in');
    if (!roles.has('drive')) throw new SegueError('forbidden', 'this connection may watch, not drive');
    this.#options.media.send({ type: 'connection.video', sessionId: this.id, connectionId, data });
  }

  /** Opens a WebRTC connection: see {@link SessionConnections.offer}. */
  async connect(sdp: string, roles: readonly Role[], replaces: string | null = null): Promise<{ readonly id: string; readonly sdp: string }> {
    this.#assertConnectable();
    const answer = await this.#parts.connections.offer(sdp, roles, replaces);
    this.#parts.idle.touch();
    return answer;
  }

  attachRelay(roles: readonly Role[], sink: RelaySink): string {
    this.#assertConnectable();
    const id = this.#parts.connections.attachRelay(roles, sink);
    this.#parts.idle.touch();
    return id;
  }

  candidate(connectionId: string, candidate: IceCandidate | null): void {
    this.#parts.connections.candidate(connectionId, candidate);
  }

  requestKeyframe(connectionId: string): void {
    this.#parts.connections.requestKeyframe(connectionId);
  }

  /** Someone leaves on purpose. Throws connection_not_found. */
  disconnect(connectionId: string, reason: string): void {
    this.#parts.connections.close(connectionId, reason);
    if (this.#options.endsOnLeave && this.#parts.connections.views.length === 0) void this.close(reason);
  }

  /** A WebSocket is gone, on purpose or not. */
  detachRelay(connectionId: string, left: boolean): void {
    if (!this.#parts.connections.has(connectionId)) return;
    if (left) this.disconnect(connectionId, 'the client left');
    else this.#parts.connections.close(connectionId, 'the WebSocket closed');
  }

  /** The server drains: tells every connection. */
  goaway(deadlineMs: number, reason: string): void {
    if (this.#parts.status.ending) return;
    this.#parts.connections.broadcast('control', { type: 'goaway', deadlineMs, reason });
    this.events.append('session.goaway', { deadlineMs, reason });
  }

  /** Test mode: the engine makes the session's next unit fail. */
  injectFault(fault: InjectedFault): void {
    this.#parts.reservation.injectFault(fault);
  }

  /** Ends streams in order, frees what is reserved, says why. Idempotent; resolves when all is done, and never later than its watchdogs. */
  close(reason: string): Promise<void> {
    this.#ending ??= this.#end('close', reason, null);
    return this.#ending;
  }

  /** As {@link close}, into `failed`. */
  fail(error: SegueError): Promise<void> {
    return this.#endWith('fail', error);
  }

  #endWith(transition: 'close' | 'fail', error: SegueError): Promise<void> {
    this.#ending ??= this.#end(transition, error.message, error);
    return this.#ending;
  }

  async #end(transition: 'close' | 'fail', reason: string, error: SegueError | null): Promise<void> {
    const { media, log } = this.#options;
    const wasOpen = this.state !== 'created';
    const cause = error ?? new SegueError('session_closed', reason);
    this.#parts.status.end(transition, reason, error?.code ?? null);
    const failed = transition === 'fail';
    log[failed && error?.code !== 'at_capacity' ? 'warn' : 'info']({ reason, ...(error ? { code: error.code } : {}) }, failed ? 'session failed' : 'session closing');
    this.#parts.reservation.settle();
    this.#parts.flow.close();
    this.#parts.idle.close();
    this.#parts.budget.close();
    this.#parts.gaps.close();
    this.#parts.activity.refresh();
    this.#parts.activity.close();
    this.#opened.reject(cause);
    this.#parts.conversation.close(cause);
    this.#parts.connections.stopAccepting(reason);
    // From here on nobody commits, sends or accepts anything for this session, whatever is still on its way.
    this.words.markClosed();
    if (wasOpen) await this.#parts.reservation.release(this.#parts.position.reported);
    if (failed) this.#parts.connections.broadcast('control', { type: 'error', error: cause.toBody() });
    this.#parts.connections.broadcast('control', { type: 'closed', reason, ...(error ? { code: error.code } : {}) });
    const sent = media.send({ type: 'session.close', sessionId: this.id, reason });
    await this.#parts.connections.drained(sent ? DRAIN_WATCHDOG_MS : 0);
    if (!failed) this.#parts.status.move('closed');
    this.events.append('session.closed', { reason, ...(error ? { error: error.toBody() } : {}) });
    await this.events.settled();
    this.events.end();
  }

  /** Written down when it opens: what it was created with. */
  #keep(): void {
    const { id, program, seed, prompt, image, plan = null, tenant, stamp, voice, endsOnLeave, limits, archive, forked = null } = this.#options;
    if (archive === null || this.#parts.keeper === null) return;
    const options: KeptOptions = { tenant, stamp, voice, endsOnLeave, idleMs: limits.idleMs, orphanMs: limits.orphanMs, budget: finite(limits.budget), ...(plan === null ? {} : { plan }) };
    this.#parts.keeper.created({ sessionId: id, createdAt: this.#parts.report.createdAt, program, seed, prompt, image, fingerprint: archive.fingerprint(), options: JSON.stringify(options), ...(forked === null ? {} : { lineage: forked.lineage }) });
    // Of a live one the engine sees to it: what it has sent on its way to the disk comes first.
    if (forked?.story != null) archive.write({ type: 'fork', sessionId: id, from: forked.from, branch: forked.story.branch ?? 0, throughChunk: forked.story.chunks.at(-1)!.chunk });
  }

  /** Nothing more is written of it. @param reason why it has ended for good; null: it may come back. */
  letGo(reason: string | null): void {
    if (reason !== null) this.#parts.keeper?.ended(reason);
    this.#options.archive?.letGo(this.id);
  }

  #assertConnectable(): void {
    const refusal = this.#parts.status.connectRefusal();
    if (refusal) throw refusal;
  }

  #onOpened(format: EngineCard['format'], exact: boolean, at90k: number, whole90k = at90k): void {
    if (this.state !== 'waiting') return;
    const { media, stamp, voice, transform = null, card, returning } = this.#options;
    this.#parts.reservation.settle();
    const { forked = null } = this.#options;
    if (forked !== null) this.#parts.position.restore(at90k, 0, whole90k);
    const more = { from90k: this.#parts.position.presented90k, ...(transform === null ? {} : { takesVideo: { framesPerChunk: card.framesPerChunk } }), ...(returning === null || returning.from.flow === 'running' ? {} : { stopped: true }) };
    if (!media.send({ type: 'session.open', sessionId: this.id, channels: this.#parts.channels, format, stamp, voice, ...more })) return void this.fail(new SegueError('engine_unavailable', 'the media thread is gone'));
    this.#parts.status.move('opened');
    if (forked !== null) {
      this.memory.adopt(forked.turnsAt(at90k));
      this.events.append('session.forked', { from: forked.from, media90k: at90k, exact });
      this.#parts.conversation.sayAgain();
    }
    if (returning !== null) {
      this.events.append('session.resumed', { media90k: returning.from.position90k, exact, epoch: this.words.epoch });
      this.#parts.flow.restore(returning.from.flow);
      this.#parts.conversation.goOn(returning.from);
    }
    this.#parts.flow.awaitConnection();
    this.#parts.idle.start();
    this.#opened.resolve();
    this.#parts.budget.start();
  }

  #onMoved(): void {
    this.#options.log.info({ state: this.state }, 'session state');
    this.events.append('session.updated', { ...this.view });
    this.#parts.report.tell();
    this.#parts.activity.refresh();
  }
}
