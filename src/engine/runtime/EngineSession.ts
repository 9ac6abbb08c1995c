import type { Clock, Timer } from '../../observe/clock.ts';
import { SegueError } from '../../protocol/errors.ts';
import type { PromptWarning } from '../../protocol/prompt_warning.ts';
import type { AppliedHow, EngineRequest, EngineToControl, SessionChannels, TraceEvent } from '../../streams/messages.ts';
import type { MediaEvent } from '../../streams/media_events.ts';
import { frameDuration90k, type MediaTime90k } from '../../streams/media_time.ts';
import { SessionWords, type ActionState } from '../../streams/session_words.ts';
import { SharedPool } from '../../streams/shared_pool.ts';
import type { Conditioning } from '../model/loop_kernel.ts';
import type { FilledSlot, ProgramState, RealtimeProgram, Transition } from '../programs/RealtimeProgram.ts';
import { ActionLatch } from '../scheduler/ActionLatch.ts';
import type { AdmissionGrant } from '../scheduler/AdmissionController.ts';
import { BandwidthServer } from '../scheduler/BandwidthServer.ts';
import type { LoopTurn } from '../scheduler/LoopTurn.ts';
import { PresentationTimeline } from '../scheduler/PresentationTimeline.ts';
import type { QueuedTurn } from '../scheduler/ReadyQueue.ts';
import { fencing, RequestScheduler } from '../scheduler/RequestScheduler.ts';
import type { WorkUnit } from '../scheduler/WorkUnit.ts';
import type { Device } from './Device.ts';
import { REQUEST_CHUNKS, type EngineOptions } from './engine_options.ts';
import { SessionStreams } from './SessionStreams.ts';
import { VersionLedger } from './VersionLedger.ts';

/**
 * Generated media this far behind the newest is committed whether it was reported or not: a silent client can't pile up versions.
 * Two chunks behind what was sent, and the one that is generated ahead of that.
 */
export const HORIZON_CHUNKS = 3;

/** Frames are made anew only where that is done so long before they are due: room for the way to the media thread and for what a prediction gets wrong. */
const RECALL_MARGIN_MS = 15;

/** Requests that wait for a baseline policy to read them; more are read at once. */
const MAX_UNREAD = 64;

export interface SessionDependencies {
  readonly clock: Clock;
  readonly options: EngineOptions;
  readonly toControl: (message: EngineToControl) => void;
  readonly toMedia: (event: MediaEvent) => void;
  readonly trace: (event: TraceEvent) => void;
  /** What may step has changed. */
  readonly changed: (session: EngineSession) => void;
}

export interface SessionOpening {
  readonly sessionId: string;
  readonly program: RealtimeProgram;
  readonly seed: number;
  readonly prompt: string | null;
  readonly channels: SessionChannels;
  readonly device: Device<EngineSession>;
  readonly grant: AdmissionGrant;
}

/**
 * One live session: its program's state and the versions of it, its epoch, its requests. The only writer of model state.
 *
 * Everything that happens to it happens between two units: a request changes the state, and whatever was in flight
 * is then compared with it and with the epoch word before it counts.
 */
export class EngineSession {
  readonly sessionId: string;
  readonly program: RealtimeProgram;
  readonly seed: number;
  readonly words: SessionWords;
  readonly device: Device<EngineSession>;
  readonly grant: AdmissionGrant;
  readonly pools: { readonly video: SharedPool; readonly audio: SharedPool };
  readonly timeline: PresentationTimeline;
  readonly reserve: BandwidthServer;
  readonly latch: ActionLatch;
  /** The unit that a worker has; one at a time, because each is planned from what the one before made. */
  inFlight: WorkUnit | null = null;
  /** Turns that wait in the device's queue. */
  queued: QueuedTurn<EngineSession>[] = [];
  /** When work without a frame began to wait. */
  slackSinceMs: number | null = null;
  /** Reservation of the next unit has failed since then. */
  refusedSinceMs: number | null = null;
  deadlinesMissed = 0;
  readonly #deps: SessionDependencies;
  readonly #requests = new RequestScheduler();
  readonly #predicted = new Map<string, { readonly predictedMs: number; readonly warnings: readonly PromptWarning[] }>();
  readonly #versions: VersionLedger<ProgramState>;
  readonly #streams: SessionStreams;
  readonly #frame90k: number;
  #state: ProgramState;
  #epoch: number;
  #conditioningVersion = 0;
  #presented90k: MediaTime90k = 0;
  #interrupted = false;
  #paused = false;
  #status: 'live' | 'failed' | 'closed' = 'live';
  #fenceWatchdog: Timer | null = null;
  #failures = 0;
  /** Requests that a baseline policy doesn't read yet. */
  readonly #unread: EngineRequest[] = [];
  #action: ActionState;
  /** Of the latest denoise step. */
  #madeUnder: Pick<Conditioning, 'steer' | 'speed'> | null = null;
  /** Frames before this are being made for the second time, with little time left: how late they are says nothing of the look-ahead. */
  #remade90k: MediaTime90k = 0;

  constructor({ sessionId, program, seed, prompt, channels, device, grant }: SessionOpening, deps: SessionDependencies) {
    this.#state = program.open({ seed, prompt });
    this.sessionId = sessionId;
    this.program = program;
    this.seed = seed;
    this.words = new SessionWords(channels.words);
    this.pools = { video: SharedPool.attach(channels.video), audio: SharedPool.attach(channels.audio) };
    this.device = device;
    this.grant = grant;
    this.#deps = deps;
    this.#epoch = this.words.epoch;
    this.#frame90k = frameDuration90k(program.format);
    const nowMs = deps.clock.now();
    const { lookAheadMs, redirectBudgetMs, boostMs } = deps.options;
    this.timeline = new PresentationTimeline({ words: this.words, lookAheadMs, chunk90k: this.#frame90k * program.framesPerChunk, nowMs });
    this.reserve = new BandwidthServer({ budgetMs: redirectBudgetMs, bandwidth: () => device.admission.reserveBandwidth, boostMs, nowMs });
    this.#action = this.words.action;
    this.latch = new ActionLatch(this.#action);
    this.#streams = new SessionStreams(sessionId, device.loaded.weightsVersion, deps.toMedia);
    const { pool } = device;
    pool.retain(program.blocks(this.#state));
    this.#versions = new VersionLedger(this.#state, { retain: (state) => pool.retain(program.blocks(state)), release: (state) => pool.release(program.blocks(state)) });
  }

  get epoch(): number {
    return this.#epoch;
  }

  /** What results are compared with. A baseline policy knows of a fence only once it reads the request for it. */
  get epochWord(): number {
    return this.#deps.options.policy === 'unit' ? this.words.epoch : this.#epoch;
  }

  /** Input state for the step that is planned now; a baseline policy reads it when a chunk begins. */
  get action(): ActionState {
    if (this.#readsNow()) this.#action = this.words.action;
    return this.#action;
  }

  get state(): ProgramState {
    return this.#state;
  }

  get closed(): boolean {
    return this.#status !== 'live' || this.words.closed;
  }

  /** Versions kept, the committed one included. */
  get versions(): number {
    return this.#versions.size;
  }

  get committed90k(): MediaTime90k {
    return this.#versions.committed.position90k;
  }

  /** The redirect of which nothing has been shown yet arrived then; null where there is none. */
  get boostedSinceMs(): number | null {
    return this.#requests.redirect?.arrivedAtMs ?? null;
  }

  /** Loops that may step now. None while the session is held, or fenced by a word whose request hasn't come. */
  turns(): readonly LoopTurn[] {
    if (this.closed || this.#interrupted || this.#paused || this.inFlight !== null || !this.device.usable || this.fenced()) return [];
    return this.program.turns(this.#state);
  }

  /** The word was raised and the request for it isn't here yet: nothing is planned, and somebody watches that it comes. */
  fenced(): boolean {
    if (this.epochWord === this.#epoch) return false;
    this.#fenceWatchdog ??= this.#deps.clock.schedule(this.#deps.clock.now() + this.#deps.options.fenceWatchdogMs, () => {
      this.#fenceWatchdog = null;
      if (this.closed || this.words.epoch === this.#epoch) return;
      this.fault(new SegueError('timed_out', `epoch ${this.words.epoch} was raised, but no request came for it`), false);
    });
    return true;
  }

  start(): void {
    this.#deps.toControl({ type: 'session.opened', sessionId: this.sessionId, format: this.program.format });
    this.#streams.init(this.program.format);
    this.#deps.changed(this);
  }

  // ---------------------------------------------------------------- requests

  receive(request: EngineRequest): void {
    const { requestId } = request;
    if (this.closed) {
      if (request.request !== 'adopt') this.#answerFailed(requestId, new SegueError('session_closed', 'the session has ended'));
      return;
    }
    if (!this.#readsNow() && this.#unread.length < MAX_UNREAD) {
      this.#unread.push(request);
      return;
    }
    const nowMs = this.#deps.clock.now();
    const acceptance = this.#requests.accept(request, this.#epoch, nowMs);
    if (acceptance.outcome === 'duplicate') return;
    if (acceptance.outcome === 'stale') {
      if (request.request !== 'adopt') this.#deps.toControl({ type: 'request.superseded', sessionId: this.sessionId, requestId, by: acceptance.by });
      return;
    }
    for (const id of acceptance.superseded) {
      this.#predicted.delete(id);
      this.#deps.toControl({ type: 'request.superseded', sessionId: this.sessionId, requestId: id, by: requestId });
    }
    this.#conditioningVersion = Math.max(this.#conditioningVersion, request.conditioningVersion);
    if (fencing(request)) this.#enter(request.epoch);
    switch (request.request) {
      case 'interrupt':
        this.#interrupted = true;
        this.#paused = false;
        this.#replace(this.program.withdraw(this.#state));
        this.#rewind(request.presented90k);
        this.#answerApplied(requestId, 'interrupted');
        break;
      case 'adopt':
        this.#rewind(request.presented90k);
        break;
      case 'redirect':
        this.#redirect(request, acceptance.superseded.length > 0);
        break;
      case 'pause':
        this.#paused = true;
        this.#answerApplied(requestId, 'paused');
        break;
      case 'resume':
        this.#paused = false;
        this.#interrupted = false;
        this.#answerApplied(requestId, 'resumed');
        break;
    }
    this.#deps.changed(this);
  }

  /** The driver has seen up to here. */
  presented(epoch: number, media90k: MediaTime90k): void {
    if (this.closed || epoch !== this.#epoch) return;
    this.#presented90k = Math.max(this.#presented90k, this.#wholeFrames(media90k));
    this.#commit();
  }

  /** Held input is another than before: what was made under the old one and that nobody has taken yet is made anew, as far as time and the session's reserve allow. */
  actionChanged(): void {
    const { steer, speed } = this.latch.read(this.words.action);
    if (this.#madeUnder === null || (this.#madeUnder.steer === steer && this.#madeUnder.speed === speed)) return;
    this.#recall('action');
  }

  /**
   * Takes back what was made but not sent from the first frame on that can still be made anew in time, and goes on from there. Nothing
   * fences: what has been claimed for sending stays, what comes follows it without a gap.
   */
  #recall(cause: 'action' | 'redirect'): void {
    if (this.#deps.options.policy !== 'unit' || this.closed || this.#interrupted || this.#paused || this.fenced()) return;
    const nowMs = this.#deps.clock.now();
    const { costs } = this.device;
    const predict = (component: string): number => costs.component(component);
    const marginMs = RECALL_MARGIN_MS + (this.device.busy ? costs.longest(this.program.demand.chunkComponents) : 0);
    for (const version of this.#versions.from(this.words.outgoing.claimed90k)) {
      const from90k = version.position90k;
      const dueMs = this.timeline.presentationMs(from90k);
      const makeMs = this.program.remakeMs(version, predict);
      if (dueMs === null || makeMs === null || dueMs - nowMs < makeMs + marginMs) continue;
      const newest = from90k === this.#state.position90k;
      if (newest && (this.program.betweenChunks(this.#state) || this.program.steerable(this.#state))) return;
      if (this.reserve.available(nowMs) < makeMs) return;
      const revision = this.words.outgoing.recall(from90k);
      if (revision === null) continue;
      // What a redirect makes is charged as it is made, like all that is done for it.
      if (cause === 'action') this.reserve.charge(nowMs, makeMs);
      this.#remade90k = this.#state.position90k;
      this.#streams.recall(revision, from90k);
      this.#trace('media.recalled', { cause, media90k: from90k, frames: Math.round((this.#state.position90k - from90k) / this.#frame90k), aheadMs: dueMs - nowMs, makeMs });
      this.#replace(this.program.revised(this.#versions.rewindTo(from90k), this.#state));
      this.#deps.changed(this);
      return;
    }
  }

  #redirect({ requestId, prompt, seamless, presented90k, conditioningVersion }: Extract<EngineRequest, { request: 'redirect' }>, supersedes: boolean): void {
    const was = { interrupted: this.#interrupted, paused: this.#paused };
    this.#interrupted = false;
    this.#paused = false;
    const target = this.#clamp(presented90k);
    const keepChunk = target === this.#state.position90k && this.program.steerable(this.#state);
    if (!seamless && keepChunk) this.#reachedBy(target);
    if (!seamless && !keepChunk) {
      this.#replace(this.program.withdraw(this.#state));
      this.#rewind(presented90k);
    }
    try {
      const { state, warnings } = this.program.redirect(this.#state, { requestId, prompt, seamless, conditioningVersion });
      this.#replace(state);
      const predictedMs = this.program.predictRedirectMs(state, (component) => this.device.costs.component(component));
      this.#predicted.set(requestId, { predictedMs, warnings });
    } catch (error) {
      // What isn't understood changes nothing but what the fence has changed already; a session that was held stays held,
      // and a redirect that was told to be superseded must not take effect after all.
      this.#interrupted = was.interrupted;
      this.#paused = was.paused;
      if (supersedes) this.#replace(this.program.rewound(this.#versions.newest, this.program.withdraw(this.#state)));
      this.#requests.settle(requestId);
      this.#answerFailed(requestId, error instanceof SegueError ? error : new SegueError('internal', 'the redirect could not be begun', { cause: error }));
    }
  }

  #enter(epoch: number): void {
    this.#epoch = Math.max(this.#epoch, epoch);
    if (this.words.epoch !== this.#epoch) return;
    this.#fenceWatchdog?.cancel();
    this.#fenceWatchdog = null;
  }

  // ---------------------------------------------------------------- versions

  /** Back to what was seen: everything later is dropped, and the story goes on from there as another future. */
  #rewind(presented90k: MediaTime90k): void {
    const target = this.#clamp(presented90k);
    const version = this.#versions.rewindTo(target);
    this.#replace(this.program.rewound(version, this.#state));
    this.#reachedBy(version.position90k);
    this.#trace('session.rewound', { media90k: version.position90k });
  }

  #reachedBy(position90k: MediaTime90k): void {
    this.#presented90k = position90k;
    this.timeline.detach(this.#deps.clock.now(), position90k);
    this.#commit();
  }

  #commit(): void {
    const horizon90k = this.#versions.newest.position90k - HORIZON_CHUNKS * this.program.framesPerChunk * this.#frame90k;
    if (!this.#versions.commitTo(Math.max(this.#presented90k, horizon90k))) return;
    const { position90k, chunk } = this.#versions.committed;
    this.#deps.toControl({ type: 'session.committed', sessionId: this.sessionId, epoch: this.#epoch, media90k: position90k, chunk });
  }

  /** The unit of commit is a frame: whoever saw part of one saw it. */
  #wholeFrames(media90k: MediaTime90k): MediaTime90k {
    return Math.ceil(media90k / this.#frame90k) * this.#frame90k;
  }

  #clamp(presented90k: MediaTime90k): MediaTime90k {
    return Math.min(this.#versions.newest.position90k, Math.max(this.committed90k, this.#wholeFrames(presented90k)));
  }

  /** @param emitted slots that went to media with this change. */
  #replace(next: ProgramState, emitted: readonly FilledSlot[] = []): void {
    const { pool } = this.device;
    const before = this.#state;
    if (next === before) return;
    pool.retain(this.program.blocks(next));
    this.#state = next;
    const kept = [...this.program.slots(next), ...emitted];
    for (const slot of this.program.slots(before)) if (!holds(kept, slot)) this.pools[slot.pool].release(slot.slot);
    pool.release(this.program.blocks(before));
  }

  // ---------------------------------------------------------------- steps

  /** A step was committed: what the program made of it takes force. Its slots are the state's, or media's, from here on. */
  apply(transition: Transition<ProgramState>, unit: Pick<WorkUnit, 'plan' | 'action' | 'conditioning'>): void {
    const nowMs = this.#deps.clock.now();
    const { state, version, frame, text, applied, decisions } = transition;
    this.#replace(state, frame === null ? [] : [{ pool: 'video', slot: frame.videoSlot }, { pool: 'audio', slot: frame.audioSlot }]);
    this.#failures = 0;
    if (version !== null) this.#versions.keep(version);
    if (frame !== null) {
      const due = this.timeline.presentationMs(frame.start90k);
      if (due !== null) {
        if (nowMs > due) this.deadlinesMissed++;
        if (frame.start90k >= this.#remade90k) this.timeline.ready(due - nowMs);
      }
      this.timeline.flowing();
      this.#streams.frame(frame, this.#epoch);
      this.#commit();
    }
    for (const output of text) this.#deps.toControl({ type: 'text', sessionId: this.sessionId, ...output, epoch: this.#epoch });
    for (const { name, args, ...place } of decisions) this.#deps.trace({ type: 'trace.scheduler', name, atMs: nowMs, sessionId: this.sessionId, epoch: this.#epoch, ...place, args });
    if (applied !== null) this.#answerApplied(applied.requestId, applied.how, applied);
    if (unit.plan.kind === 'diffusion_step') {
      this.latch.felt(unit.action);
      this.#madeUnder = unit.conditioning;
      // It was out while input changed: what it made may be old already.
      this.actionChanged();
    }
    if (transition.recall === true) this.#recall('redirect');
    if (this.#unread.length > 0 && this.#readsNow()) for (const request of this.#unread.splice(0)) this.receive(request);
  }

  /** Always, but for the baseline policies. */
  #readsNow(): boolean {
    const { policy } = this.#deps.options;
    if (policy === 'unit' || this.#interrupted || this.#paused) return true;
    return this.program.betweenChunks(this.#state) && (policy === 'chunk' || this.#state.chunk % REQUEST_CHUNKS === 0);
  }

  /**
   * A unit failed; its outputs are gone already. Once: the same step is tried again. Twice in a row: the chunk in flight is given up
   * and made anew after the last frame that went out. Three times: the session ends.
   */
  failed(error: SegueError): void {
    this.#failures++;
    if (this.#failures >= 3) return this.fault(error, true);
    if (this.#failures === 2) {
      this.#replace(this.program.rewound(this.#versions.newest, this.#state));
      this.fault(error, false);
    }
    this.#deps.changed(this);
  }

  fault(error: SegueError, fatal: boolean): void {
    if (this.#status !== 'live') return;
    this.#deps.toControl({ type: 'session.fault', sessionId: this.sessionId, error: error.toBody(), fatal });
    this.#trace('session.fault', { code: error.code, fatal });
    if (!fatal) return;
    this.#status = 'failed';
    this.#fenceWatchdog?.cancel();
    this.#failPending(error);
    this.#streams.complete('failed');
    this.#deps.changed(this);
  }

  /** Ends the session: answers what is unanswered, lets go of blocks, slots and reservations. Idempotent. A unit in flight gives its own back when it returns. */
  close(): void {
    if (this.#status === 'closed') return;
    this.#failPending(new SegueError('session_closed', 'the session was closed'));
    this.#status = 'closed';
    this.#fenceWatchdog?.cancel();
    this.#streams.complete('closed');
    for (const queued of this.queued) queued.void = true;
    this.queued = [];
    for (const { pool, slot } of this.program.slots(this.#state)) this.pools[pool].release(slot);
    this.device.pool.release(this.program.blocks(this.#state));
    this.#versions.clear();
    this.grant.release();
  }

  // ---------------------------------------------------------------- answers

  #answerApplied(requestId: string, how: AppliedHow, shown: { readonly chunk: number; readonly step: number; readonly media90k: MediaTime90k } | null = null): void {
    const pending = this.#requests.settle(requestId);
    if (pending === null) return;
    const { predictedMs = null, warnings = [] } = this.#predicted.get(requestId) ?? {};
    this.#predicted.delete(requestId);
    const elapsedMs = this.#deps.clock.now() - pending.arrivedAtMs;
    const place = shown ?? { chunk: this.#state.chunk, step: 0, media90k: this.#state.position90k };
    this.#deps.toControl({
      type: 'request.applied',
      sessionId: this.sessionId,
      requestId,
      how,
      epoch: this.#epoch,
      conditioningVersion: this.#conditioningVersion,
      chunk: place.chunk,
      step: place.step,
      media90k: place.media90k,
      predictedMs,
      elapsedMs,
      warnings,
    });
    this.#trace('request.applied', { how, elapsedMs, predictedMs: predictedMs ?? -1 }, requestId);
  }

  #answerFailed(requestId: string, error: SegueError): void {
    this.#deps.toControl({ type: 'request.failed', sessionId: this.sessionId, requestId, error: error.toBody() });
  }

  #failPending(error: SegueError): void {
    for (const { requestId } of this.#requests.drain()) this.#answerFailed(requestId, error);
    for (const { requestId, request } of this.#unread.splice(0)) if (request !== 'adopt') this.#answerFailed(requestId, error);
    this.#predicted.clear();
  }

  #trace(name: string, args: Readonly<Record<string, string | number | boolean>>, requestId?: string): void {
    this.#deps.trace({ type: 'trace.scheduler', name, atMs: this.#deps.clock.now(), sessionId: this.sessionId, epoch: this.#epoch, chunk: this.#state.chunk, ...(requestId === undefined ? {} : { requestId }), args });
  }
}

function holds(slots: readonly FilledSlot[], { pool, slot }: FilledSlot): boolean {
  return slots.some((other) => other.pool === pool && other.slot === slot);
}
