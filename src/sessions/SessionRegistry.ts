import { randomInt } from 'node:crypto';
import { DroppedMemory } from '../observe/DroppedMemory.ts';
import type { Clock } from '../observe/clock.ts';
import type { Logger } from '../observe/log.ts';
import { SegueError } from '../protocol/errors.ts';
import type { PromptWarning } from '../protocol/prompt_warning.ts';
import type { MemoryImport, MemoryView } from '../protocol/prompt_memory.ts';
import type { ForkedFrom, SessionView } from '../protocol/rest.ts';
import { RESOURCES, type Resource } from '../protocol/session_usage.ts';
import { adapterInForce, type SessionAdapter } from '../protocol/session_adapter.ts';
import { voiceInForce, type SessionVoice } from '../protocol/session_voice.ts';
import { REPLAY_PROGRAM, type KeptRange } from '../streams/kept_range.ts';
import type { EngineCard, EngineToControl, MediaToControl } from '../streams/messages.ts';
import type { KeptHead } from '../streams/storage_messages.ts';
import { AdmissionQueue, type QueuePlace } from './AdmissionQueue.ts';
import { DormantSessions } from './DormantSessions.ts';
import { liveMemory, memoryView, seedOf } from './memory_changes.ts';
import { BLANK_TURN } from './memory_turn.ts';
import type { EnginePort, MediaPort, PromptReader, Role } from './ports.ts';
import { ServedWeights } from './ServedWeights.ts';
import { PresentedFrames } from './PresentedFrames.ts';
import { Session } from './Session.ts';
import type { SessionArchive } from './SessionArchive.ts';
import type { Budget } from './SessionBudget.ts';
import type { SessionEventLog } from './SessionEventLog.ts';
import { createId } from './session_ids.ts';
import { SessionForks } from './SessionForks.ts';
import type { ForkWish, MadeFork, SessionLimits, SessionOptions } from './session_options.ts';
import { readReturn } from './session_return.ts';
import { StayEstimate } from './StayEstimate.ts';
import { TraceRing } from './TraceRing.ts';

export interface RegistryOptions {
  readonly engine: EnginePort;
  readonly media: MediaPort;
  readonly clock: Clock;
  readonly log: Logger;
  readonly card: EngineCard;
  readonly prompts: PromptReader;
  /** Programs that the deployment serves; the first is the default. */
  readonly programs: readonly string[];
  /** Defaults and upper bounds of what a session may ask for. */
  readonly limits: SessionLimits;
  /** Sessions that the server holds, whatever the engine would take. */
  readonly maxSessions: number;
  readonly maxWaiting: number;
  /** Where sessions are kept; null: nowhere, they end with the process. */
  readonly archive?: SessionArchive | null;
  /** How long after it was last written a session of the process before this one can be come back to. */
  readonly resumeMs?: number;
  readonly onSettled?: (kind: string, answer: string, elapsedMs: number) => void;
  /** Makes client tokens; absent: forks by a data channel are refused. */
  readonly tokens?: { issue(token: { readonly sessionId: string; readonly roles: readonly Role[] }): Promise<{ readonly token: string; readonly expiresAt: string }> };
}

export interface SessionWish {
  readonly model?: string | undefined;
  readonly program?: string | undefined;
  readonly prompt?: string | undefined;
  /** RGB of the model's size: the story starts from it. */
  readonly image?: SharedArrayBuffer | undefined;
  readonly adapter?: SessionAdapter | undefined;
  /** Turns of another session: the story begins with what was in force in it. */
  readonly memory?: MemoryImport | undefined;
  readonly seed?: number | undefined;
  readonly limits?: LimitsWish | undefined;
  readonly voice?: SessionVoice | undefined;
  readonly transform?: { readonly strength: number } | undefined;
  readonly ticket?: string | undefined;
  readonly stamp?: boolean | undefined;
  readonly tenant: string;
  readonly endsOnLeave?: boolean;
}

/** No more than the deployment's own. */
export type LimitsWish = { readonly [limit in 'idleMs' | 'orphanMs' | Resource]?: number | undefined };

/** What is left of a session that has ended. */
interface EndedSession {
  readonly view: SessionView;
  readonly events: SessionEventLog;
}

/** What a session opens with. */
type Beginning = Pick<Required<SessionOptions>, 'prompt' | 'adapter' | 'plan' | 'memory'>;

/** Ended sessions that can still be asked about; the oldest is forgotten beyond that. */
export const MAX_ENDED = 128;

/** All sessions of the server: created through admission, found by id, fed with what engine and media thread say, ended together. */
export class SessionRegistry {
  readonly queue: AdmissionQueue;
  readonly frames: PresentedFrames;
  readonly weights: ServedWeights;
  readonly #options: RegistryOptions;
  readonly #sessions = new Map<string, Session>();
  readonly #ended = new Map<string, EndedSession>();
  readonly #droppedMemory = new DroppedMemory();
  readonly #stays = new StayEstimate();
  readonly #traces = new Map<string, TraceRing>();
  readonly #dormant: DormantSessions;
  /** Sessions that are on their way back: whoever else comes waits for the same. */
  readonly #returning = new Map<string, Promise<Session>>();
  readonly #archive: SessionArchive | null;
  #admitting = true;
  /** Sessions that end from here on end with the process, and can be come back to. */
  #suspending = false;
  #created = 0;

  constructor(options: RegistryOptions) {
    this.#options = options;
    this.#archive = options.archive ?? null;
    const { clock, card, resumeMs = 0 } = options;
    this.#dormant = new DormantSessions({ clock, resumeMs, modelId: card.modelId, expired: (sessionId) => void this.#archive?.write({ type: 'ended', sessionId, reason: 'nobody came back to it after a restart' }) });
    this.queue = new AdmissionQueue(options.clock, options.maxWaiting);
    const { engine, prompts } = options;
    this.weights = new ServedWeights({ engine, clock, card });
    this.frames = new PresentedFrames({ engine, archive: this.#archive, clock, card, prompts, source: (id) => this.#sourceOf(id), session: (id) => ({ ...this.view(id), presented90k: this.#sessions.get(id)?.presented90k ?? null, branch: this.#sessions.get(id)?.branch ?? null }) });
  }

  /** Live sessions, oldest first. */
  get live(): readonly Session[] {
    return [...this.#sessions.values()];
  }

  get views(): readonly SessionView[] {
    return [...this.live.map(({ view }) => view), ...this.#dormant.views, ...[...this.#ended.values()].map(({ view }) => view)];
  }

  get admitting(): boolean {
    return this.#admitting;
  }

  /** Sessions opened since the start. */
  get created(): number {
    return this.#created;
  }

  /**
   * Opens a session, or throws at_capacity with a place in the queue. Whoever waits goes first: a newcomer without a ticket is tried only
   * when there are more free places than people in line.
   * Errors: draining, model_not_found, program_not_found, adapter_not_usable, plan_not_usable, prompt_not_understood, at_capacity, engine_unavailable, timed_out.
   */
  async create(wish: SessionWish): Promise<Session> {
    const { card, programs, prompts } = this.#options;
    if (!this.#admitting) throw new SegueError('draining', 'the server is shutting down');
    if (wish.model !== undefined && wish.model !== card.modelId) throw new SegueError('model_not_found', `model ${wish.model} is not served here; it has ${card.modelId}`, { param: 'model' });
    const program = wish.program ?? programs[0];
    if (program === undefined || !programs.includes(program)) throw new SegueError('program_not_found', `program ${program ?? ''} is not served here; it has ${programs.join(', ')}`, { param: 'program' });
    const takesVideo = card.programs?.find(({ id }) => id === program)?.takesVideo === true;
    if (wish.transform !== undefined && !takesVideo) throw new SegueError('bad_request', `program ${program} takes no video in`, { param: 'transform' });
    if (wish.memory !== undefined && wish.image !== undefined) throw new SegueError('bad_request', 'a picture says what the story begins with, and so does a memory: one of them', { param: 'memory' });
    const seeded = wish.memory === undefined ? null : seedOf(wish.memory, wish.prompt);
    const wished = wish.adapter ?? seeded?.opening.adapter ?? null;
    const begin: Beginning = {
      prompt: seeded === null ? (wish.prompt ?? null) : seeded.opening.prompt,
      adapter: wished === null ? null : adapterInForce(wished, card.adapters ?? []),
      plan: seeded?.opening.attributes ?? null,
      memory: seeded?.turns ?? [],
    };
    if (begin.plan !== null) prompts.readPlan(begin.plan);
    const promptWarnings = begin.prompt === null ? [] : prompts.read(begin.prompt);
    return this.#admit(wish.ticket, () => this.#open(wish, program, begin, promptWarnings));
  }

  /**
   * Opens a session with the past of another, live or kept, up to a moment of it; the other goes on undisturbed. Through admission like a new one, and on disk before it resolves.
   * Errors: those of {@link create}, session_not_found, session_closed where nothing is kept of it, not_kept.
   */
  async fork(id: string, { media90k, ticket }: Omit<ForkWish, 'roles'>): Promise<{ readonly session: Session; readonly from: ForkedFrom }> {
    if (!this.#admitting) throw new SegueError('draining', 'the server is shutting down');
    const forks = new SessionForks({ archive: this.#archive, live: (sessionId) => this.#sessions.get(sessionId), find: (sessionId) => this.get(sessionId) });
    const session = await this.#admit(ticket, () => forks.open(id, media90k, (options) => this.#openSession({ ...options, id: createId('ses'), promptWarnings: [], returning: null, limits: this.#limits(options.limits) })));
    await session.kept();
    return { session, from: { session: id, media90k: session.presented90k } };
  }

  async #admit(ticket: string | undefined, open: () => Promise<Session>): Promise<Session> {
    const held = ticket === undefined ? null : this.queue.find(ticket);
    const line = held ? held.position : this.queue.length + 1;
    if (line > 1 && line > this.#free) throw this.#atCapacity(held);
    if (held && !this.queue.beginTry(held.ticket)) throw this.#atCapacity(held);
    try {
      const session = await open();
      if (held) this.queue.leave(held.ticket);
      return session;
    } catch (error) {
      if (held) this.queue.endTry(held.ticket);
      if (error instanceof SegueError && error.code === 'at_capacity') throw this.#atCapacity(held);
      throw error;
    }
  }

  /**
   * What of a session can be played again: within the limits asked for, and presented. Rejects with not_kept, session_not_found, timed_out.
   */
  async shareable(id: string, { from90k = 0, to90k = Infinity }: { readonly from90k?: number | undefined; readonly to90k?: number | undefined } = {}): Promise<KeptRange> {
    const live = this.#sessions.get(id);
    if (live === undefined && !this.#known(id)) await this.#headOf(id);
    if (live?.plays != null) throw new SegueError('conflict', 'a replay is of another session: share that');
    const range = (await this.#archive?.range(id, from90k, Math.min(to90k, live?.view.presented90k ?? Infinity))) ?? null;
    if (range === null) throw new SegueError('not_kept', 'nothing of that is kept to be played again', { param: 'from90k' });
    return { ...range, sessionId: id };
  }

  /** A session that plays what another has shown. Rejects as {@link shareable} and {@link create}. */
  async replay(id: string, limits: { readonly from90k: number; readonly to90k: number }): Promise<Session> {
    if (!this.#admitting) throw new SegueError('draining', 'the server is shutting down');
    const replay = await this.shareable(id, limits);
    const { turns } = await this.memory(id);
    const shown = turns.filter(({ presented }) => presented !== null && presented.start90k < replay.to90k && presented.end90k > replay.from90k);
    const memory = shown.map(({ turn: _, ...turn }) => ({ ...BLANK_TURN, ...turn, imported: true }));
    return this.#openSession({
      id: createId('ses'),
      program: REPLAY_PROGRAM,
      seed: (await this.#headOf(id)).seed,
      prompt: null,
      image: null,
      replay,
      memory,
      promptWarnings: [],
      voice: voiceInForce(),
      tenant: 'replay',
      stamp: false,
      endsOnLeave: true,
      limits: this.#limits({}),
      returning: null,
    });
  }

  /** Finds out which sessions of the process before this one can be come back to. None where that can't be read: new ones are served all the same. */
  async wake(): Promise<void> {
    if (this.#archive === null) return;
    try {
      this.#dormant.take(await this.#archive.heads(), Date.now());
    } catch (error) {
      this.#options.log.error({ err: error }, 'sessions of before could not be listed');
    }
    if (this.#dormant.size > 0) this.#options.log.info({ sessions: this.#dormant.size }, 'sessions of before can be come back to');
  }

  /**
   * As {@link get}, for somebody who comes to stay: a session of the process before this one is opened again, through admission like a new one.
   * Rejects also with draining, at_capacity, engine_unavailable, timed_out, conflict (other weights).
   */
  async reach(id: string): Promise<Session> {
    if (this.#sessions.has(id) && !this.#returning.has(id)) return this.get(id);
    const returning = this.#returning.get(id);
    if (returning !== undefined) return returning;
    if (!this.#dormant.has(id)) return this.get(id);
    const opening = this.#return(id).finally(() => this.#returning.delete(id));
    this.#returning.set(id, opening);
    return opening;
  }

  /**
   * Ends a session, live or not, and deletes all that is kept of it. Resolves with what it looked like at last, when nothing of it is on disk any more.
   * Rejects with session_not_found, timed_out.
   */
  async remove(id: string, reason: string): Promise<SessionView> {
    await this.#returning.get(id)?.catch(() => undefined);
    const replays = this.live.filter((session) => session.plays?.sessionId === id);
    await Promise.all([this.#sessions.get(id)?.close(reason), ...replays.map((session) => session.close('what it plays was deleted'))]);
    const view = this.#known(id) ? this.view(id) : this.#dormant.viewOfEnded(await this.#headOf(id));
    this.#dormant.forget(id);
    await this.#archive?.delete(id);
    return view;
  }

  /** Throws session_not_found, or session_closed where it is known to have ended, or conflict where nobody has come back to it. */
  get(id: string): Session {
    const session = this.#sessions.get(id);
    if (session) return session;
    const ended = this.#ended.get(id);
    if (ended) throw new SegueError('session_closed', ended.view.reason ?? 'the session is closed');
    if (this.#dormant.has(id)) throw new SegueError('conflict', 'the session has no connection');
    throw new SegueError('session_not_found', `no session ${id.slice(0, 64)}`);
  }

  /** The prompt memory of a session, live or kept. Rejects with session_not_found, session_closed where nothing is kept of it, timed_out. */
  async memory(id: string): Promise<MemoryView> {
    const live = this.#sessions.get(id);
    if (live !== undefined) return liveMemory(live);
    const world = (await this.#archive?.load(id)) ?? null;
    return world === null ? liveMemory(this.get(id)) : memoryView(id, readReturn(world).turns.map(({ ordinal, turn }) => ({ ordinal, turn: { ...BLANK_TURN, ...turn } })));
  }

  /** Also of a session that has ended. Throws session_not_found. */
  view(id: string): SessionView {
    return this.#sessions.get(id)?.view ?? this.#dormant.view(id) ?? this.#lookUpEnded(id).view;
  }

  /** As {@link view}, with what its story was made with. Also of one that is only on disk. Rejects with session_not_found, timed_out. */
  async viewWhole(id: string): Promise<SessionView> {
    const view = this.#known(id) ? this.view(id) : this.#dormant.viewOfEnded(await this.#headOf(id));
    const spans = (await this.#archive?.versions(id)) ?? [];
    if (spans.length === 0) return view;
    const isLive = this.#sessions.has(id);
    const weightVersions = spans.map(({ adapterVersions, ...span }, index) => ({ ...span, to90k: isLive && index === spans.length - 1 ? null : span.to90k, adapterVersions: { ...adapterVersions } }));
    return { ...view, weightVersions };
  }

  /** Also of a session that has ended. Throws session_not_found. */
  events(id: string): SessionEventLog {
    return this.#sessions.get(id)?.events ?? this.#lookUpEnded(id).events;
  }

  /** Also of a session that has ended. Throws session_not_found. */
  trace(id: string): TraceRing {
    const trace = this.#traces.get(id);
    if (!trace) throw new SegueError('session_not_found', `no session ${id.slice(0, 64)}`);
    return trace;
  }

  onEngine(message: EngineToControl): void {
    if (message.type === 'trace') {
      for (const event of message.events) if (event.sessionId !== undefined) this.#traces.get(event.sessionId)?.push(event);
    } else if (message.type === 'frame.found' || message.type === 'frame.decoded') this.frames.receive(message);
    else if (message.type === 'model.reloaded') this.weights.receive(message);
    else if ('sessionId' in message) this.#sessions.get(message.sessionId)?.onEngine(message);
  }

  onMedia(message: MediaToControl): void {
    if ('sessionId' in message) this.#sessions.get(message.sessionId)?.onMedia(message);
  }

  stopAdmitting(): void {
    this.#admitting = false;
  }

  /** Tells all clients, then ends all sessions; those that are kept can be come back to. Resolves when each is closed. Idempotent. */
  async closeAll(reason: string): Promise<void> {
    this.stopAdmitting();
    this.#suspending = true;
    this.#dormant.close();
    await Promise.all(this.live.map((session) => session.close(reason)));
  }

  goaway(deadlineMs: number, reason: string): void {
    for (const session of this.live) session.goaway(deadlineMs, reason);
  }

  async failAll(error: SegueError): Promise<void> {
    this.stopAdmitting();
    this.#suspending = true;
    this.#dormant.close();
    await Promise.all(this.live.map((session) => session.fail(error)));
  }

  get #holders(): readonly Session[] {
    return this.live.filter(({ holdsPlace }) => holdsPlace);
  }

  /** Places that nobody has, as far as is known here; the engine decides. */
  get #free(): number {
    return Math.min(this.#options.card.maxSessions, this.#options.maxSessions) - this.#holders.length;
  }

  #open(wish: SessionWish, program: string, begin: Beginning, promptWarnings: readonly PromptWarning[]): Promise<Session> {
    return this.#openSession({
      id: createId('ses'),
      program,
      seed: wish.seed ?? randomInt(0x7fffffff),
      image: wish.image ?? null,
      ...begin,
      promptWarnings,
      tenant: wish.tenant,
      stamp: wish.stamp === true,
      voice: voiceInForce(wish.voice),
      transform: this.#options.card.programs?.find(({ id }) => id === program)?.takesVideo === true ? { ...wish.transform } : null,
      endsOnLeave: wish.endsOnLeave === true,
      limits: this.#limits(wish.limits ?? {}),
      returning: null,
    });
  }

  /** A session of the process before this one, as it was kept. */
  async #return(id: string): Promise<Session> {
    if (!this.#admitting) throw new SegueError('draining', 'the server is shutting down');
    const world = await this.#archive!.load(id);
    if (world === null) {
      this.#dormant.forget(id);
      return this.get(id);
    }
    const { program, seed, prompt, image } = world.session;
    const from = readReturn(world);
    const { tenant, stamp, endsOnLeave, idleMs, orphanMs, budget = {}, plan = null, voice = voiceInForce() } = from.options;
    const session = await this.#openSession({
      id,
      program,
      seed,
      prompt,
      image: image === null || image instanceof SharedArrayBuffer ? image : null,
      plan,
      promptWarnings: [],
      tenant,
      stamp,
      voice,
      endsOnLeave,
      limits: this.#limits({ idleMs, orphanMs, ...budget }),
      returning: { from, story: world.story },
    });
    this.#dormant.forget(id);
    return session;
  }

  /** A session with a short time-out is still warned: at most half of it before the end. */
  #limits({ idleMs = Infinity, orphanMs = Infinity, ...wished }: LimitsWish): SessionLimits {
    const { limits } = this.#options;
    const idle = Math.min(limits.idleMs, idleMs);
    const budget = Object.fromEntries(RESOURCES.map((resource) => [resource, Math.min(limits.budget[resource], wished[resource] ?? Infinity)])) as Budget;
    return { idleMs: idle, idleWarningMs: Math.min(limits.idleWarningMs, idle / 2), orphanMs: Math.min(limits.orphanMs, orphanMs), budget };
  }

  async #openSession(options: Omit<SessionOptions, 'card' | 'engine' | 'media' | 'prompts' | 'clock' | 'log' | 'archive' | 'fork' | 'onSettled'>): Promise<Session> {
    const { engine, media, prompts, clock, log, card, maxSessions, onSettled } = this.#options;
    if (this.#holders.length >= maxSessions) throw new SegueError('at_capacity', `the server holds at most ${maxSessions} sessions`);
    const { id } = options;
    const session = new Session({ ...options, card, engine, media, prompts, clock, log: log.child({ sessionId: id }), archive: options.replay === undefined && options.transform == null ? this.#archive : null, fork: (sessionId, wish) => this.#forkFor(sessionId, wish), ...(onSettled ? { onSettled } : {}) });
    this.#sessions.set(id, session);
    this.#traces.set(id, new TraceRing());
    try {
      await session.open();
    } catch (error) {
      // Its clean-up goes on; a refused session leaves nothing to ask about.
      void session.fail(error instanceof SegueError ? error : new SegueError('internal', 'the session could not be opened', { cause: error })).then(() => {
        this.#sessions.delete(id);
        this.#traces.delete(id);
        session.letGo(null);
        if (options.returning === null) this.#archive?.write({ type: 'delete', sessionId: id });
      });
      throw error;
    }
    this.#created += 1;
    session.events.onEnd(() => this.#retire(session));
    return session;
  }

  async #forkFor(id: string, { roles, ...wish }: ForkWish): Promise<MadeFork> {
    const { tokens } = this.#options;
    if (tokens === undefined) throw new SegueError('forbidden', 'there is nobody here who makes tokens for forks');
    const { session, from } = await this.fork(id, wish);
    const { token, expiresAt } = await tokens.issue({ sessionId: session.id, roles });
    return { session: session.id, clientToken: token, expiresAt, media90k: from.media90k, abandon: () => void this.remove(session.id, 'nobody was told of it').catch(() => undefined) };
  }

  #retire(session: Session): void {
    if (!this.#sessions.delete(session.id)) return;
    // What ends with the process can be come back to; what a client, or time, has ended can't.
    session.letGo(this.#suspending ? null : (session.view.reason ?? 'closed'));
    this.#droppedMemory.dropped(...session.buffers);
    this.#stays.ended(session.stay.ageMs);
    this.#ended.set(session.id, { view: session.view, events: session.events });
    if (this.#ended.size <= MAX_ENDED) return;
    const [oldest] = this.#ended.keys();
    if (oldest === undefined) return;
    this.#ended.delete(oldest);
    this.#traces.delete(oldest);
  }

  /** Of a replay, also one that has just ended: what it plays. */
  #sourceOf(id: string): { readonly id: string; readonly to90k: number | null } {
    const { replay } = (this.#sessions.get(id) ?? this.#ended.get(id))?.view ?? {};
    return replay === undefined ? { id, to90k: null } : { id: replay.session, to90k: replay.to90k };
  }

  #known(id: string): boolean {
    return this.#sessions.has(id) || this.#dormant.has(id) || this.#ended.has(id);
  }

  /** Of a session that is only on disk. */
  async #headOf(id: string): Promise<KeptHead> {
    const head = (await this.#archive?.heads())?.find(({ sessionId }) => sessionId === id);
    if (head === undefined) throw new SegueError('session_not_found', `no session ${id.slice(0, 64)}`);
    return head;
  }

  #lookUpEnded(id: string): EndedSession {
    const ended = this.#ended.get(id);
    if (!ended) throw new SegueError('session_not_found', `no session ${id.slice(0, 64)}`);
    return ended;
  }

  #atCapacity(held: QueuePlace | null): SegueError {
    const place = held ?? this.queue.join();
    if (!place) return new SegueError('at_capacity', 'all places are taken, and the queue is full', { retryAfterMs: 10_000 });
    const estimateMs = this.#stays.waitMs(place.position, this.#holders.map(({ stay }) => stay));
    return new SegueError('at_capacity', `all places are taken; number ${place.position} in the queue`, { ...place, ...(estimateMs === null ? {} : { estimateMs }) });
  }
}
