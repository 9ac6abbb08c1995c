import type { SessionRequest } from '../protocol/channel.ts';
import type { Logger } from '../observe/log.ts';
import type { Degraded } from '../protocol/degraded.ts';
import { SegueError } from '../protocol/errors.ts';
import type { PromptWarning } from '../protocol/prompt_warning.ts';
import type { SessionStateName, SessionView } from '../protocol/rest.ts';
import { NO_USAGE, type Resource } from '../protocol/session_usage.ts';
import type { EngineCard, EngineToControl, IceCandidate, InjectedFault, MediaToControl, SessionChannels } from '../streams/messages.ts';
import type { KeptRange } from '../streams/kept_range.ts';
import { SessionWords } from '../streams/session_words.ts';
import { EngineReservation } from './EngineReservation.ts';
import { IdleWatch } from './IdleWatch.ts';
import { SessionActivity } from './SessionActivity.ts';
import type { Role } from './ports.ts';
import { ReplayGaps } from './ReplayGaps.ts';
import { createId } from './session_ids.ts';
import { PromptMemory } from './PromptMemory.ts';
import type { RequestAnswer } from './RequestLedger.ts';
import type { WaitUntil } from './RequestWaiters.ts';
import { createSessionChannels } from './session_channels.ts';
import type { SessionOptions } from './session_options.ts';
import { SessionBudget, type Budget } from './SessionBudget.ts';
import { SessionConnections, type ConnectionView, type RelaySink } from './SessionConnections.ts';
import { SessionConversation } from './SessionConversation.ts';
import { SessionEventLog } from './SessionEventLog.ts';
import { SessionFlow } from './SessionFlow.ts';
import type { SessionKeeper } from './SessionKeeper.ts';
import type { KeptOptions } from './session_return.ts';
import { SessionReport } from './SessionReport.ts';
import { SessionStatus } from './SessionStatus.ts';
import { SessionStory } from './SessionStory.ts';
import type { Stay } from './StayEstimate.ts';
import { StoryPosition } from './StoryPosition.ts';

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
  readonly words = new SessionWords();
  readonly #options: SessionOptions;
  readonly #channels: SessionChannels;
  readonly #position = new StoryPosition();
  readonly #status: SessionStatus;
  readonly #connections: SessionConnections;
  readonly #report: SessionReport;
  readonly #reservation: EngineReservation;
  readonly #flow: SessionFlow;
  readonly #conversation: SessionConversation;
  readonly #story: SessionStory;
  readonly #idle: IdleWatch;
  readonly #budget: SessionBudget;
  readonly #activity: SessionActivity;
  readonly #gaps: ReplayGaps;
  readonly #keeper: SessionKeeper | null;
  /** What is committed is told by the storage. */
  #storyKept = false;
  readonly #opened = Promise.withResolvers<void>();
  #ending: Promise<void> | null = null;

  constructor(options: SessionOptions) {
    const { id, card, clock, log, media, limits, archive, returning } = options;
    this.#options = options;
    this.id = id;
    this.#channels = createSessionChannels(this.words, card);
    // Committed is what survives: where the story is kept, that is what has reached the disk.
    const keeper = archive?.keeper(id, ({ media90k, branch }) => this.#position.commit(media90k, branch)) ?? null;
    this.#keeper = keeper;
    this.events = new SessionEventLog(clock, readerFailed(log), keeper && ((event, told) => keeper.event(event, told)));
    this.memory = new PromptMemory({
      turn: (ordinal, turn) => keeper?.turn(ordinal, turn),
      turns: (changes) => keeper?.turns(changes),
      condensed: (turn, { standsFor }) => this.events.append('memory.condensed', { turn, standsFor }),
    });
    if (returning !== null) {
      const { epoch, position90k, branch, events, turns, gone } = returning.from;
      this.words.restoreEpoch(epoch);
      this.#position.restore(position90k, branch);
      this.events.restore(events);
      this.memory.restore(turns);
      if (gone !== null) this.memory.goBack(gone.from90k, gone.epoch);
      this.memory.rewind(position90k);
    }
    this.#status = new SessionStatus(() => this.#onMoved());
    this.#connections = new SessionConnections({
      sessionId: id,
      media,
      clock,
      log,
      onPresence: () => {
        this.#flow.presence(this.#connections.present);
        this.#activity.refresh();
      },
    });
    this.#report = new SessionReport(options, {
      words: this.words,
      status: this.#status,
      position: this.#position,
      memory: this.memory,
      connections: this.#connections,
      conditioningVersion: () => this.#conversation.conditioningVersion,
      usage: () => this.#budget.usage,
    });
    this.#reservation = new EngineReservation({ ...options, channels: this.#channels, onLost: (error) => void this.fail(error) });
    this.#idle = new IdleWatch({
      clock,
      idleMs: limits.idleMs,
      warningMs: limits.idleWarningMs,
      action: () => this.words.action.sequence,
      warn: (closesInMs) => {
        this.#connections.broadcast('control', { type: 'idle', closesInMs });
        this.events.append('session.idle', { closesInMs });
      },
      expire: () => void this.close(`idle for ${Math.round(limits.idleMs / 1000)} s`),
    });
    this.#budget = new SessionBudget({
      clock,
      budget: limits.budget,
      used: returning?.from.usage ?? NO_USAGE,
      warn: (resource, used, limit) => {
        this.#connections.broadcast('control', { type: 'budget', resource, used, limit });
        this.events.append('session.budget', { resource, used, limit, usage: this.#budget.usage });
      },
      exhausted: (resource, limit) => void this.#endWith('close', new SegueError('budget_exhausted', exhaustedMessage(resource, limit), { param: `limits.${resource}` })),
      note: (usage) => this.events.append('session.usage', { usage }),
    });
    this.#flow = new SessionFlow({
      clock,
      status: this.#status,
      orphanMs: limits.orphanMs,
      hold: (request) => this.#reservation.hold(request, { epoch: this.words.epoch, conditioningVersion: this.#conversation.conditioningVersion }),
      onJoined: () => this.#idle.touch(),
      expire: (reason) => void this.close(reason),
    });
    this.#activity = new SessionActivity({
      clock,
      present: () => this.#connections.present,
      state: () => this.#status.state,
      interrupted: () => this.#flow.interrupted,
      action: () => this.words.action.sequence,
      tell: (activity) => {
        this.#connections.broadcast('state', activity);
        this.events.append('activity', { user: activity.user, session: activity.session });
      },
    });
    this.#conversation = new SessionConversation(options, {
      words: this.words,
      status: this.#status,
      position: this.#position,
      connections: this.#connections,
      flow: this.#flow,
      events: this.events,
      memory: this.memory,
      report: this.#report,
      activity: this.#activity,
      onActivity: () => {
        this.#idle.touch();
        this.#activity.sign();
      },
      keeper,
    });
    this.#story = new SessionStory({ sessionId: id, engine: options.engine, archive, status: this.#status, position: this.#position, memory: this.memory, connections: this.#connections, conversation: this.#conversation, events: this.events, report: this.#report });
    this.#gaps = new ReplayGaps({
      clock,
      gaps: options.replay?.gaps ?? [],
      flows: () => this.state === 'active' && !this.#flow.interrupted,
      tell: ({ from90k, to90k }) => {
        this.#connections.broadcast('state', { type: 'replay.gap', from90k, to90k });
        this.events.append('replay.gap', { from90k, to90k });
      },
      goTo: async (media90k) => {
        const answer = await this.#conversation.request({ type: 'rewind', id: createId('req'), media90k }, 'settled');
        if (answer.type === 'error') throw SegueError.from(answer.error);
      },
    });
    if (returning !== null) this.#conversation.restore(returning.from);
    // Whoever closes a session that nobody waits to open must not cause an unhandled rejection.
    this.#opened.promise.catch(() => undefined);
  }

  get state(): SessionStateName {
    return this.#status.state;
  }

  /** It has a place in the engine, or is being given one: nobody else can have that. */
  get holdsPlace(): boolean {
    return this.#reservation.held;
  }

  /** How long it has been open, and by when it must end, ms. */
  get stay(): Stay {
    return this.#budget.stay;
  }

  get connections(): readonly ConnectionView[] {
    return this.#connections.views;
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
    return [this.#channels.video.buffer, this.#channels.audio.buffer];
  }

  /** What it goes without, on the degrade ladder; null: nothing. */
  get degraded(): Degraded | null {
    return this.#report.degraded;
  }

  /** Where the story stands: what is presented. */
  get branch(): number {
    return this.#position.branch;
  }

  get presented90k(): number {
    return this.#position.presented90k;
  }

  /** What another session that goes on with this one's past is made like. */
  get origin() {
    const { program, seed, prompt, image, adapter = null, plan = null, transform = null, tenant, stamp, voice, endsOnLeave, limits } = this.#options;
    const { idleMs, orphanMs, budget } = limits;
    return { program, seed, prompt, image, adapter, plan, transform, tenant, stamp, voice, endsOnLeave, limits: { idleMs, orphanMs, ...budget } };
  }

  /** Resolves when something of its story is on disk, where it is kept, and after a second in any case. */
  kept(): Promise<void> {
    return (this.#storyKept ? this.#keeper?.whenDurable() : null) ?? Promise.resolve();
  }

  get view(): SessionView {
    return this.#report.view;
  }

  /** Asks the engine for capacity. Rejects with what it refused with, engine_unavailable, or timed_out; the session is then failed and cleaned up. */
  open(): Promise<void> {
    if (this.state !== 'created') return this.#opened.promise;
    this.#keep();
    this.#status.move('open');
    const { returning, forked = null, prompt, adapter = null, memory = [], replay } = this.#options;
    if (returning === null && forked === null) {
      if (memory.length > 0) this.memory.import(memory, null);
      if (replay !== undefined) this.#position.restore(replay.from90k, 0);
      else this.memory.append({ requestId: null, prompt: prompt ?? this.memory.prompt, adapter, at: this.#report.createdAt, presented90k: 0, epoch: this.words.epoch, from90k: 0 });
    }
    this.#reservation.request();
    return this.#opened.promise;
  }

  onEngine(message: EngineMessage): void {
    switch (message.type) {
      case 'session.opened':
        this.#storyKept = message.kept === true;
        return this.#onOpened(message.format, message.resumedExactly === true, message.at90k ?? 0);
      case 'session.refused':
        this.#reservation.onClosed();
        void this.fail(SegueError.from(message.error));
        return;
      case 'request.applied':
      case 'request.superseded':
      case 'request.failed':
        this.#conversation.onAnswer(message);
        return this.#gaps.check();
      case 'request.completed':
      case 'hold.expired':
        return this.#conversation.onNotice(message);
      case 'draft.preview':
        return this.#conversation.onDraftPreview(message);
      case 'text':
        return this.#conversation.onText(message);
      case 'session.committed':
        if (!this.#storyKept) this.#position.commit(message.media90k);
        return;
      case 'session.degraded':
        this.#report.degraded = message.degraded;
        this.events.append('session.updated', { ...this.view });
        return this.#report.tell();
      case 'session.usage': {
        const { deviceMs, lateFrames } = message;
        return this.#budget.report({ deviceMs, lateFrames });
      }
      case 'story.wanted':
        void this.#story.read(message);
        return;
      case 'session.rewound':
        return this.#story.onRewound(message);
      case 'session.keeping': {
        const { behindFromChunk, reason } = message;
        this.#options.log.warn({ behindFromChunk, reason }, behindFromChunk === null ? 'the story is kept again' : 'the story is not kept');
        this.events.append('session.keeping', { behindFromChunk, ...(reason === undefined ? {} : { reason }) });
        return;
      }
      case 'session.fault':
        this.events.append('session.fault', { error: message.error, fatal: message.fatal });
        if (message.fatal) void this.fail(SegueError.from(message.error));
        else this.#connections.broadcast('control', { type: 'error', error: message.error });
        return;
      case 'session.closed':
        this.#reservation.onClosed();
        if (!this.#status.ending) void this.fail(new SegueError('internal', 'the engine closed the session'));
        return;
    }
  }

  onMedia(message: MediaMessage): void {
    switch (message.type) {
      case 'connection.answer':
        return this.#connections.onAnswer(message.connectionId, message.sdp);
      case 'connection.failed':
        return this.#connections.onFailed(message.connectionId, SegueError.from(message.error));
      case 'connection.state':
        return this.#connections.onState(message.connectionId, message.state);
      case 'channel.message':
        return this.#conversation.receive(message);
      case 'media.position':
        if (message.epoch !== this.words.epoch || this.#status.ending) return;
        this.#position.report(message.sent90k, message.presented90k);
        this.memory.present(message.presented90k);
        this.#gaps.moved(message.sent90k, message.presented90k);
        return this.#report.tellPosition();
      case 'media.usage':
        return this.#budget.report({ sentBytes: message.sentBytes });
      case 'media.flowing':
        this.#activity.shown();
        this.events.append('media.flowing', { epoch: message.epoch, media90k: message.media90k });
        return;
      case 'voice.speaking':
        this.#idle.touch();
        return this.#activity.speaking(message.speaking);
      case 'connection.trouble':
        this.#connections.send(message.connectionId, 'control', { type: 'error', error: message.error });
        return;
      case 'relay.text':
        return this.#connections.onRelayText(message.connectionId, message.channel, message.text);
      case 'relay.media':
        return this.#connections.onRelayMedia(message);
    }
  }

  /** A request by REST. Rejects with what it is refused with. */
  request(request: SessionRequest, until: WaitUntil): Promise<RequestAnswer> {
    return this.#conversation.request(request, until);
  }

  /** A message of a WebSocket, or (null) an input by REST: to the media thread, as if it had come over a data channel. */
  inject(connectionId: string | null, channel: 'control' | 'input', text: string): void {
    if (connectionId === null || this.#connections.has(connectionId)) this.#options.media.send({ type: 'channel.inject', sessionId: this.id, connectionId, channel, text });
  }

  /** Samples of a WebSocket's microphone. Throws conflict where the session listens to none, forbidden where this connection may not speak. */
  hear(connectionId: string, data: Uint8Array): void {
    const roles = this.#connections.roles(connectionId);
    if (roles === null) return;
    if (!this.#options.voice.enabled) throw new SegueError('conflict', 'this session listens to no voice');
    if (!roles.has('drive') && !roles.has('speak')) throw new SegueError('forbidden', 'this connection may watch, not speak');
    this.#options.media.send({ type: 'connection.voice', sessionId: this.id, connectionId, data });
  }

  /** A VP8 frame of a WebSocket's camera. Throws conflict where the session takes no video in, forbidden where this connection may not drive. */
  see(connectionId: string, data: Uint8Array): void {
    const roles = this.#connections.roles(connectionId);
    if (roles === null) return;
    if (this.#options.transform == null) throw new SegueError('conflict', 'this session takes no video in');
    if (!roles.has('drive')) throw new SegueError('forbidden', 'this connection may watch, not drive');
    this.#options.media.send({ type: 'connection.video', sessionId: this.id, connectionId, data });
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

  /** The server drains: tells every connection. */
  goaway(deadlineMs: number, reason: string): void {
    if (this.#status.ending) return;
    this.#connections.broadcast('control', { type: 'goaway', deadlineMs, reason });
    this.events.append('session.goaway', { deadlineMs, reason });
  }

  /** Test mode: the engine makes the session's next unit fail. */
  injectFault(fault: InjectedFault): void {
    this.#reservation.injectFault(fault);
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
    this.#status.end(transition, reason, error?.code ?? null);
    const failed = transition === 'fail';
    log[failed && error?.code !== 'at_capacity' ? 'warn' : 'info']({ reason, ...(error ? { code: error.code } : {}) }, failed ? 'session failed' : 'session closing');
    this.#reservation.settle();
    this.#flow.close();
    this.#idle.close();
    this.#budget.close();
    this.#gaps.close();
    this.#activity.refresh();
    this.#activity.close();
    this.#opened.reject(cause);
    this.#conversation.close(cause);
    this.#connections.stopAccepting(reason);
    // From here on nobody commits, sends or accepts anything for this session, whatever is still on its way.
    this.words.markClosed();
    if (wasOpen) await this.#reservation.release(this.#position.presented90k);
    if (failed) this.#connections.broadcast('control', { type: 'error', error: cause.toBody() });
    this.#connections.broadcast('control', { type: 'closed', reason, ...(error ? { code: error.code } : {}) });
    const sent = media.send({ type: 'session.close', sessionId: this.id, reason });
    await this.#connections.drained(sent ? DRAIN_WATCHDOG_MS : 0);
    if (!failed) this.#status.move('closed');
    this.events.append('session.closed', { reason, ...(error ? { error: error.toBody() } : {}) });
    await this.events.settled();
    this.events.end();
  }

  /** Written down when it opens: what it was created with. */
  #keep(): void {
    const { id, program, seed, prompt, image, plan = null, tenant, stamp, voice, endsOnLeave, limits, archive, forked = null } = this.#options;
    if (archive === null || this.#keeper === null) return;
    const options: KeptOptions = { tenant, stamp, voice, endsOnLeave, idleMs: limits.idleMs, orphanMs: limits.orphanMs, budget: finite(limits.budget), ...(plan === null ? {} : { plan }) };
    this.#keeper.created({ sessionId: id, createdAt: this.#report.createdAt, program, seed, prompt, image, fingerprint: archive.fingerprint(), options: JSON.stringify(options), ...(forked === null ? {} : { lineage: forked.lineage }) });
    // Of a live one the engine sees to it: what it has sent on its way to the disk comes first.
    if (forked?.story != null) archive.write({ type: 'fork', sessionId: id, from: forked.from, branch: forked.story.branch ?? 0, throughChunk: forked.story.chunks.at(-1)!.chunk });
  }

  /** Nothing more is written of it. @param reason why it has ended for good; null: it may come back. */
  letGo(reason: string | null): void {
    if (reason !== null) this.#keeper?.ended(reason);
    this.#options.archive?.letGo(this.id);
  }

  #assertConnectable(): void {
    const refusal = this.#status.connectRefusal();
    if (refusal) throw refusal;
  }

  #onOpened(format: EngineCard['format'], exact: boolean, at90k: number): void {
    if (this.state !== 'waiting') return;
    const { media, stamp, voice, transform = null, card, returning } = this.#options;
    this.#reservation.settle();
    const { forked = null } = this.#options;
    if (forked !== null) this.#position.restore(at90k, 0);
    const more = { from90k: this.#position.presented90k, ...(transform === null ? {} : { takesVideo: { framesPerChunk: card.framesPerChunk } }), ...(returning === null || returning.from.flow === 'running' ? {} : { stopped: true }) };
    if (!media.send({ type: 'session.open', sessionId: this.id, channels: this.#channels, format, stamp, voice, ...more })) return void this.fail(new SegueError('engine_unavailable', 'the media thread is gone'));
    this.#status.move('opened');
    if (forked !== null) {
      this.memory.adopt(forked.turnsAt(at90k));
      this.events.append('session.forked', { from: forked.from, media90k: at90k, exact });
      this.#conversation.sayAgain();
    }
    if (returning !== null) {
      this.events.append('session.resumed', { media90k: returning.from.position90k, exact, epoch: this.words.epoch });
      this.#flow.restore(returning.from.flow);
      this.#conversation.goOn(returning.from);
    }
    this.#flow.awaitConnection();
    this.#idle.start();
    this.#opened.resolve();
    this.#budget.start();
  }

  #onMoved(): void {
    this.#options.log.info({ state: this.state }, 'session state');
    this.events.append('session.updated', { ...this.view });
    this.#report.tell();
    this.#activity.refresh();
  }
}

const BUDGET_NAMES: Readonly<Record<Resource, (limit: number) => string>> = {
  deviceMs: (limit) => `device time (${limit / 1000} s)`,
  wallMs: (limit) => `time (${limit / 1000} s)`,
  sentBytes: (limit) => `volume (${limit} bytes)`,
};

function exhaustedMessage(resource: Resource, limit: number): string {
  return `the session has used up its ${BUDGET_NAMES[resource](limit)}`;
}

/** Without what has no limit: `Infinity` is not JSON. */
function finite(budget: Budget): Partial<Budget> {
  return Object.fromEntries(Object.entries(budget).filter(([, limit]) => limit !== Infinity));
}

/** Outside of the session: its events are kept when it has ended, and must not keep it. */
function readerFailed(log: Logger): (error: unknown) => void {
  return (error) => log.error({ err: error }, 'a reader of session events failed');
}
