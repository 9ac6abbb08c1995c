import type { Clock, Timer } from '../../observe/clock.ts';
import { SegueError } from '../../protocol/errors.ts';
import type { NamedPlan } from '../../protocol/named_plan.ts';
import type { AdapterInForce } from '../../protocol/session_adapter.ts';
import type { AppliedHow, EngineRequest, EngineToControl, SessionChannels, TraceEvent } from '../../streams/messages.ts';
import type { MediaEvent } from '../../streams/media_events.ts';
import { frameDuration90k, type MediaTime90k } from '../../streams/media_time.ts';
import { SessionWords, type ActionState } from '../../streams/session_words.ts';
import { ProvisionalHold } from '../../streams/ProvisionalHold.ts';
import { SharedPool } from '../../streams/shared_pool.ts';
import type { LoopState } from '../model/loop_kernel.ts';
import type { WorkPlan } from '../model/work.ts';
import type { CommittedStep, Decision, Predict, ProgramState, RealtimeProgram, RedirectRequest, SceneTransition, Transition } from '../programs/RealtimeProgram.ts';
import { ActionLatch } from '../scheduler/ActionLatch.ts';
import type { AdmissionGrant } from '../scheduler/AdmissionController.ts';
import { BandwidthServer } from '../scheduler/BandwidthServer.ts';
import type { LoopTurn } from '../scheduler/LoopTurn.ts';
import { PresentationTimeline } from '../scheduler/PresentationTimeline.ts';
import type { QueuedTurn } from '../scheduler/ReadyQueue.ts';
import { fencing } from '../scheduler/RequestScheduler.ts';
import type { WorkUnit } from '../scheduler/WorkUnit.ts';
import type { Device } from './Device.ts';
import { REQUEST_CHUNKS, type EngineOptions } from './engine_options.ts';
import { MediaRecall } from './MediaRecall.ts';
import type { ResumedStory } from './resume_story.ts';
import { SessionAnswers, type ShownAt } from './SessionAnswers.ts';
import type { PromotableDraft } from './PromotableDraft.ts';
import { SessionStreams } from './SessionStreams.ts';
import { Speculation, type Draft } from './Speculation.ts';
import { Story } from './Story.ts';
import type { StoryOutlet } from './StoryOutlet.ts';
import { StoryRecorder } from './StoryRecorder.ts';
import { stepOf, type CommittedUnit, type WorkSource } from './WorkSource.ts';

/** Requests that wait for a baseline policy to read them; more are read at once. */
const MAX_UNREAD = 64;

type SceneRequest = Extract<EngineRequest, { readonly request: 'redirect' | 'cut' | 'blend' }>;

export interface SessionDependencies {
  readonly clock: Clock;
  readonly options: EngineOptions;
  readonly toControl: (message: EngineToControl) => void;
  readonly toMedia: (event: MediaEvent) => void;
  readonly trace: (event: TraceEvent) => void;
  /** What may step has changed. */
  readonly changed: (session: EngineSession) => void;
  /** Where committed chunks are kept; null: nowhere. */
  readonly keep: { readonly outlet: StoryOutlet; readonly snapshotChunks: number } | null;
  /** It has changed by itself, and no message follows that would begin a round of dispatching. */
  readonly wake: () => void;
  /** The session has a draft for the first time. */
  readonly speculates: (source: Speculation) => void;
  /** What may step of a draft has changed. */
  readonly draftChanged: (source: Speculation) => void;
  /** A frame came late. */
  readonly late: (session: EngineSession) => void;
}

export interface SessionOpening {
  readonly sessionId: string;
  readonly program: RealtimeProgram;
  readonly seed: number;
  readonly prompt: string | null;
  readonly image: SharedArrayBuffer | null;
  readonly adapter: AdapterInForce | null;
  readonly plan?: NamedPlan;
  readonly channels: SessionChannels;
  readonly device: Device<WorkSource>;
  readonly grant: AdmissionGrant;
  /** Goes on from here instead of beginning. */
  readonly resumed: ResumedStory | null;
}

/**
 * One live session: its program's state and the versions of it, its epoch, its requests. The only writer of model state.
 *
 * Everything that happens to it happens between two units: a request changes the state, and whatever was in flight
 * is then compared with it and with the epoch word before it counts.
 */
export class EngineSession implements WorkSource {
  readonly sessionId: string;
  readonly program: RealtimeProgram;
  readonly seed: number;
  readonly words: SessionWords;
  readonly device: Device<WorkSource>;
  readonly grant: AdmissionGrant;
  readonly pools: { readonly video: SharedPool; readonly audio: SharedPool };
  readonly timeline: PresentationTimeline;
  readonly reserve: BandwidthServer;
  readonly latch: ActionLatch;
  /** The unit that a worker has; one at a time, because each is planned from what the one before made. */
  inFlight: WorkUnit | null = null;
  /** Turns that wait in the device's queue. */
  queued: QueuedTurn<WorkSource>[] = [];
  /** When work without a frame began to wait. */
  slackSinceMs: number | null = null;
  /** Reservation of the next unit has failed since then. */
  refusedSinceMs: number | null = null;
  deadlinesMissed = 0;
  readonly #deps: SessionDependencies;
  readonly #answers: SessionAnswers;
  readonly #story: Story;
  readonly #streams: SessionStreams;
  #epoch: number;
  #conditioningVersion = 0;
  #interrupted = false;
  #paused = false;
  readonly #hold: ProvisionalHold;
  #status: 'live' | 'failed' | 'closed' = 'live';
  #fenceWatchdog: Timer | null = null;
  #failures = 0;
  /** Chunks of incoming video that nothing was made of. */
  #dropped = 0;
  /** How often a step has failed since it was last committed. A step that fails whenever the ones before it succeed must not be tried for ever. */
  readonly #failedSteps = new Map<string, number>();
  /** Requests that a baseline policy doesn't read yet. */
  readonly #unread: EngineRequest[] = [];
  /** The last blend that was told to be done. */
  #completedId: string | null = null;
  #action: ActionState;
  readonly #recall: MediaRecall;
  readonly #recorder: StoryRecorder | null;
  readonly #resumed: ResumedStory | null;
  #speculation: Speculation | null = null;

  constructor({ sessionId, program, seed, prompt, image, adapter, plan, channels, device, grant, resumed }: SessionOpening, deps: SessionDependencies) {
    const initial = resumed?.initial ?? program.open({ seed, prompt, image, adapter, ...(plan === undefined ? {} : { plan }) });
    this.sessionId = sessionId;
    this.program = program;
    this.seed = seed;
    this.words = new SessionWords(channels.words);
    this.pools = { video: SharedPool.attach(channels.video), audio: SharedPool.attach(channels.audio) };
    this.device = device;
    this.grant = grant;
    this.#deps = deps;
    this.#epoch = this.words.epoch;
    const nowMs = deps.clock.now();
    const { lookAheadMs, redirectBudgetMs, boostMs } = deps.options;
    this.timeline = new PresentationTimeline({ words: this.words, lookAheadMs, chunk90k: frameDuration90k(program.format) * program.framesPerChunk, nowMs });
    // One redirect, whatever it takes on this device.
    const redirectMs = device.costs.undisturbedSum(program.demand.redirectComponents);
    this.reserve = new BandwidthServer({ budgetMs: Math.max(redirectBudgetMs, redirectMs), bandwidth: () => device.admission.reserveBandwidth, boostMs, nowMs });
    this.#hold = new ProvisionalHold(deps.clock, (requestId) => this.#holdExpired(requestId));
    // Nobody else writes it yet: media hears of the session when it is open.
    if (resumed !== null) this.words.writeAction({ ...this.words.action, speed: resumed.speed });
    this.#action = this.words.action;
    this.latch = new ActionLatch(this.#action);
    this.#streams = new SessionStreams(sessionId, device.loaded.weightsVersion, deps.toMedia);
    this.#answers = new SessionAnswers(sessionId, deps.toControl);
    this.#story = new Story(program, initial, device.pool, this.pools);
    this.#resumed = resumed;
    if (resumed !== null) {
      resumed.held();
      this.#story.seenOnlyTo(initial.position90k);
      // Media goes on from there, on an anchor that is yet to come.
      this.timeline.detach(nowMs, initial.position90k);
    }
    this.#recorder = this.#openRecorder();
    const { words, timeline, reserve, latch } = this;
    this.#recall = new MediaRecall({ program, story: this.#story, words, timeline, reserve, latch, streams: this.#streams, device });
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

  get programId(): string {
    return this.program.spec.programId;
  }

  get state(): ProgramState {
    return this.#story.state;
  }

  get betweenChunks(): boolean {
    return this.program.betweenChunks(this.#story.state);
  }

  get closed(): boolean {
    return this.#status !== 'live' || this.words.closed;
  }

  /** Versions kept, the committed one included. */
  get versions(): number {
    return this.#story.versions;
  }

  get committed90k(): MediaTime90k {
    return this.#story.committed.position90k;
  }

  /** Works on the draft; null while there has been none. */
  get speculation(): Speculation | null {
    return this.#speculation;
  }

  /** The redirect of which nothing has been shown yet arrived then; null where there is none. */
  get boostedSinceMs(): number | null {
    return this.#answers.redirectSinceMs;
  }

  /** Loops that may step now. None while the session is held, or fenced by a word whose request hasn't come. */
  turns(): readonly LoopTurn[] {
    if (this.closed || this.#interrupted || this.#paused || this.#hold.active || this.inFlight !== null || !this.device.usable || this.fenced()) return [];
    return this.program.turns(this.#story.state);
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

  /** @param resumedExactly whether a story that it goes on with has the same bits as if it had never stopped; null where it begins. */
  start(resumedExactly: boolean | null = null): void {
    this.#deps.toControl({ type: 'session.opened', sessionId: this.sessionId, format: this.program.format, kept: this.#recorder !== null, ...(resumedExactly === null ? {} : { resumedExactly }) });
    this.#streams.init(this.program.format);
    this.#deps.changed(this);
  }

  // ---------------------------------------------------------------- requests

  receive(request: EngineRequest): void {
    const { requestId } = request;
    if (this.closed) {
      if (request.request !== 'adopt') this.#answers.failed(requestId, new SegueError('session_closed', 'the session has ended'));
      return;
    }
    if (!this.#readsNow() && this.#unread.length < MAX_UNREAD) {
      this.#unread.push(request);
      return;
    }
    const nowMs = this.#deps.clock.now();
    const acceptance = this.#answers.accept(request, this.#epoch, nowMs);
    if (acceptance.outcome !== 'run') return;
    this.#conditioningVersion = Math.max(this.#conditioningVersion, request.conditioningVersion);
    if (fencing(request)) this.#enter(request.epoch);
    if (fencing(request) || request.request === 'pause' || request.request === 'resume') this.#hold.end();
    switch (request.request) {
      case 'interrupt':
        this.#interrupted = true;
        this.#paused = false;
        this.#story.replace(this.program.withdraw(this.#story.state));
        this.#rewind(request.presented90k);
        this.#answerApplied(requestId, 'interrupted');
        break;
      case 'adopt':
        this.#rewind(request.presented90k);
        break;
      case 'redirect':
      case 'cut':
      case 'blend':
        this.#redirect(request, acceptance.superseded.length > 0);
        break;
      case 'hold':
        this.#hold.begin(requestId);
        this.#answerApplied(requestId, 'held');
        break;
      case 'release':
        this.#hold.end();
        this.#answerApplied(requestId, 'released');
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
    this.#speculation?.moved();
  }

  /** What is being typed, before it is sent; null where it was emptied. Ignored where nothing is made ahead. */
  draft(draft: Draft | null): void {
    const { options, clock, toControl, trace, speculates, draftChanged } = this.#deps;
    const { speculation: speculative } = this.program;
    if (this.closed || speculative === undefined || !options.speculation || options.policy !== 'unit') return;
    if (this.#speculation === null) {
      if (draft === null) return;
      const { sessionId, program, seed, words, latch, device, pools } = this;
      const phase = () => (this.closed || this.#paused || this.#hold.active || this.fenced() ? 'none' : this.#interrupted ? 'held' : 'flowing');
      this.#speculation = new Speculation({ sessionId, program, seed, words, latch, device, pools, story: this.#story, phase }, speculative, { clock, toControl, trace, changed: draftChanged });
      speculates(this.#speculation);
    }
    this.#speculation.draft(draft);
  }

  /** The driver has seen up to here. */
  presented(epoch: number, media90k: MediaTime90k): void {
    if (this.closed || epoch !== this.#epoch) return;
    this.#story.seen(media90k);
    this.#commit();
    this.#speculation?.presented(media90k);
  }

  /** Held input is another than before: what was made under the old one and that nobody has taken yet is made anew, as far as time and the session's reserve allow. */
  actionChanged(): void {
    if (this.#recall.isOutdated(this.words.action)) this.#takeBack('action');
    this.#speculation?.moved();
  }

  /** A chunk of the video that it takes in. What is made of it belongs to the epoch in which it is made, whenever it came. */
  incoming(frames: readonly SharedArrayBuffer[]): void {
    if (this.closed) return;
    try {
      const received = this.program.receive?.(this.#story.state, frames, this.inFlight === null);
      if (received === undefined) throw new SegueError('bad_request', `program ${this.programId} takes no video in`, { param: 'frames' });
      this.#story.replace(received.state);
      if (received.dropped) this.#trace('incoming.dropped', { chunks: ++this.#dropped });
    } catch (error) {
      return this.fault(error instanceof SegueError ? error : new SegueError('bad_request', error instanceof Error ? error.message : String(error), { param: 'frames', cause: error }), false);
    }
    this.#deps.changed(this);
  }

  #takeBack(cause: 'action' | 'redirect'): void {
    if (this.#deps.options.policy !== 'unit' || this.closed || this.#interrupted || this.#paused || this.#hold.active || this.fenced()) return;
    const recalled = this.#recall.take(cause, this.#deps.clock.now());
    if (recalled === null) return;
    this.#trace('media.recalled', { cause, ...recalled });
    this.#deps.changed(this);
  }

  #holdExpired(requestId: string): void {
    if (this.closed) return;
    this.#deps.toControl({ type: 'hold.expired', sessionId: this.sessionId, requestId });
    this.#trace('hold.expired', {}, requestId);
    this.#deps.changed(this);
    this.#speculation?.moved();
    this.#deps.wake();
  }

  #redirect(request: SceneRequest, supersedes: boolean): void {
    // Whatever words it has, what was typed before is over. Without words it isn't what was typed.
    const drafted = request.prompt === null ? null : (this.#speculation?.taken() ?? null);
    try {
      this.#redirectWith(drafted, request, supersedes);
    } finally {
      drafted?.release();
    }
  }

  #redirectWith(drafted: PromotableDraft | null, request: SceneRequest, supersedes: boolean): void {
    const { requestId, prompt, conditioningVersion } = request;
    const seamless = !fencing(request);
    const was = { interrupted: this.#interrupted, paused: this.#paused };
    const transition = transitionOf(request);
    const asked = request.request === 'redirect' ? request.adapter : undefined;
    const plan = request.request === 'redirect' ? request.plan : undefined;
    const wish = { requestId, prompt, ...(plan === undefined ? {} : { plan }), adapter: asked === undefined ? this.program.adapterAsked(this.#story.state) : asked, seamless, conditioningVersion, ...(transition === null ? {} : { transition }) };
    this.#interrupted = false;
    this.#paused = false;
    let version: ProgramState | null = null;
    if ('presented90k' in request && !seamless) {
      const target = this.#story.clamp(request.presented90k);
      const steers = request.request === 'redirect' && drafted?.reaches(this.#story.from(target)[0], wish) !== true && target === this.#story.state.position90k && this.program.steerable(this.#story.state);
      if (steers) this.#reachedBy(target);
      else {
        // Without new words, those that nothing was shown of yet are still wanted.
        if (prompt !== null || plan !== undefined) this.#story.replace(this.program.withdraw(this.#story.state));
        this.#rewind(request.presented90k);
        version = this.#story.newest;
      }
    }
    // A frame that is there commits like any other: not once the word has been raised again.
    if (drafted !== null && this.epochWord === this.#epoch && this.#promote(drafted, version, wish)) return;
    try {
      const predict: Predict = (component) => this.device.costs.component(component);
      const { state, warnings, predictedMs, decisions = [], recall } = this.program.redirect(this.#story.state, wish, predict);
      this.#story.replace(state);
      this.#answers.predict(requestId, predictedMs ?? this.program.predictRedirectMs(state, predict), warnings);
      this.#traceDecisions(decisions);
      if (recall === true) this.#takeBack('redirect');
    } catch (error) {
      // What isn't understood changes nothing but what the fence has changed already; a session that was held stays held,
      // and a redirect that was told to be superseded must not take effect after all.
      this.#interrupted = was.interrupted;
      this.#paused = was.paused;
      if (supersedes) this.#story.replace(this.program.rewound(this.#story.newest, this.program.withdraw(this.#story.state)));
      this.#answers.failed(requestId, error instanceof SegueError ? error : new SegueError('internal', 'the redirect could not be begun', { cause: error }));
    }
  }

  /** Goes on with what the draft has come to, if it says the same. @param version what was gone back to; null where nothing was. */
  #promote(drafted: PromotableDraft, version: ProgramState | null, request: RedirectRequest): boolean {
    const held = this.latch.read(this.words.action);
    const promotion = drafted.begin(this.#story.state, version, held, request, this.grant.account, (component) => this.device.costs.component(component));
    if (promotion === null) return false;
    const { transition, versions, felt, from, warnings, predictedMs, taken } = promotion;
    this.#answers.predict(request.requestId, predictedMs, warnings);
    this.#trace('draft.promoted', { from }, request.requestId);
    for (const kept of versions) this.#story.keep(kept);
    this.#takeForce(transition);
    taken();
    if (felt !== null) this.#felt(felt);
    if (transition.recall === true) this.#takeBack('redirect');
    return true;
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
    const target = this.#story.clamp(presented90k);
    const version = this.#story.rewindTo(target);
    this.#story.replace(this.program.rewound(version, this.#story.state));
    this.#reachedBy(version.position90k);
    this.#trace('session.rewound', { media90k: version.position90k });
  }

  #reachedBy(position90k: MediaTime90k): void {
    this.#story.seenOnlyTo(position90k);
    this.timeline.detach(this.#deps.clock.now(), position90k);
    this.#commit();
  }

  #commit(): void {
    const committed = this.#story.commit(this.#recorder === null ? undefined : (version) => this.#recorder!.committed(version, this.#epoch));
    if (committed === null) return;
    this.#deps.toControl({ type: 'session.committed', sessionId: this.sessionId, epoch: this.#epoch, media90k: committed.position90k, chunk: committed.chunk });
  }

  #openRecorder(): StoryRecorder | null {
    const { keep, clock, toControl } = this.#deps;
    const { sessionId, program, device } = this;
    const { worker, pool } = device;
    if (keep === null || program.keeping === undefined || worker.view === undefined) return null;
    return new StoryRecorder({
      sessionId,
      keeping: program.keeping,
      ...keep,
      pool,
      clock,
      view: (block) => worker.view!(block),
      behind: (behindFromChunk, reason) => toControl({ type: 'session.keeping', sessionId, behindFromChunk, ...(behindFromChunk === null || reason === undefined ? {} : { reason }) }),
    });
  }

  // ---------------------------------------------------------------- steps

  current(loopId: string): LoopState | null {
    return this.program.current(this.#story.state, loopId);
  }

  stage(step: CommittedStep, predict: Predict): (unit: CommittedUnit) => void {
    const transition = this.program.advance(this.#story.state, step, predict);
    return (unit) => this.#apply(transition, unit);
  }

  /** A step was committed: what the program made of it takes force. Its slots are the state's, or media's, from here on. */
  #apply(transition: Transition<ProgramState>, unit: CommittedUnit): void {
    this.#takeForce(transition);
    this.#failures = 0;
    this.#failedSteps.delete(stepOf(unit.plan));
    if (unit.plan.kind === 'diffusion_step') {
      this.#felt(unit);
      // It was out while input changed: what it made may be old already.
      this.actionChanged();
    }
    if (transition.recall === true) this.#takeBack('redirect');
    if (this.#unread.length > 0 && this.#readsNow()) for (const request of this.#unread.splice(0)) this.receive(request);
    this.#speculation?.moved();
  }

  #felt({ action, conditioning }: CommittedUnit): void {
    this.latch.felt(action);
    this.#recall.madeUnder(conditioning);
  }

  #takeForce(transition: Transition<ProgramState>): void {
    const nowMs = this.#deps.clock.now();
    const { state, version, frame, text, applied, completed, decisions } = transition;
    this.#story.replace(state, frame === null ? [] : [{ pool: 'video', slot: frame.videoSlot }, { pool: 'audio', slot: frame.audioSlot }]);
    if (version !== null) this.#story.keep(version);
    if (frame !== null) {
      const due = this.timeline.presentationMs(frame.start90k);
      if (due !== null) {
        if (nowMs > due) {
          this.deadlinesMissed++;
          this.#deps.late(this);
        }
        if (frame.start90k >= this.#recall.until90k) this.timeline.ready(due - nowMs);
      }
      this.#resumed?.settle();
      this.timeline.flowing();
      this.#streams.frame(frame, this.#epoch);
      this.#commit();
    }
    for (const output of text) this.#deps.toControl({ type: 'text', sessionId: this.sessionId, ...output, epoch: this.#epoch });
    this.#traceDecisions(decisions);
    if (applied !== null) this.#answerApplied(applied.requestId, applied.how, applied);
    if (completed !== undefined) this.#completed(completed);
  }

  /** Always, but for the baseline policies. */
  #readsNow(): boolean {
    const { policy } = this.#deps.options;
    if (policy === 'unit' || this.#interrupted || this.#paused || this.#hold.active) return true;
    return this.program.betweenChunks(this.#story.state) && (policy === 'chunk' || this.#story.state.chunk % REQUEST_CHUNKS === 0);
  }

  /** A step of it has failed and is to be tried again: alone, so that if it fails whoever joins it, nobody joins it. */
  get suspect(): boolean {
    return this.#failedSteps.size > 0;
  }

  /**
   * A unit failed; its outputs are gone already. Once: the same step is tried again. Twice in a row, or the same step twice: the chunk in flight is given up
   * and made anew after the last frame that went out. Three times: the session ends.
   */
  failed(error: SegueError, plan: WorkPlan): void {
    const ofStep = (this.#failedSteps.get(stepOf(plan)) ?? 0) + 1;
    this.#failedSteps.set(stepOf(plan), ofStep);
    this.#failures = Math.max(this.#failures + 1, ofStep);
    if (this.#failures >= 3) return this.fault(error, true);
    if (this.#failures === 2) {
      this.#story.replace(this.program.rewound(this.#story.newest, this.#story.state));
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
    this.#hold.end();
    this.#fenceWatchdog?.cancel();
    this.#answers.failAll(error, this.#unread.splice(0));
    this.#streams.complete('failed');
    this.#deps.changed(this);
  }

  /** Ends the session: answers what is unanswered, lets go of blocks, slots and reservations. Idempotent. A unit in flight gives its own back when it returns. */
  close(): void {
    if (this.#status === 'closed') return;
    this.#answers.failAll(new SegueError('session_closed', 'the session was closed'), this.#unread.splice(0));
    this.#status = 'closed';
    this.#hold.end();
    this.#fenceWatchdog?.cancel();
    this.#streams.complete('closed');
    for (const queued of this.queued) queued.void = true;
    this.queued = [];
    this.#recorder?.close();
    this.#speculation?.close();
    this.#story.close();
    this.#resumed?.settle();
    this.grant.release();
  }

  // ---------------------------------------------------------------- answers

  #answerApplied(requestId: string, how: AppliedHow, shown: ShownAt | null = null): void {
    const { chunk, position90k } = this.#story.state;
    const versions = { epoch: this.#epoch, conditioningVersion: this.#conditioningVersion };
    const place = shown === null ? { chunk, step: 0, media90k: position90k } : shown;
    const answer = this.#answers.applied(requestId, how, this.#deps.clock.now(), versions, place);
    if (answer !== null) this.#trace('request.applied', { how, elapsedMs: answer.elapsedMs, predictedMs: answer.predictedMs ?? -1 }, requestId);
  }

  #traceDecisions(decisions: readonly Decision[]): void {
    const atMs = this.#deps.clock.now();
    for (const { name, args, ...place } of decisions) this.#deps.trace({ type: 'trace.scheduler', name, atMs, sessionId: this.sessionId, epoch: this.#epoch, ...place, args });
  }

  /** A blend is done; told once, also where its last chunk is made again. */
  #completed({ requestId, chunk, media90k }: NonNullable<Transition<ProgramState>['completed']>): void {
    if (this.#completedId === requestId) return;
    this.#completedId = requestId;
    this.#deps.toControl({ type: 'request.completed', sessionId: this.sessionId, requestId, epoch: this.#epoch, conditioningVersion: this.#conditioningVersion, chunk, media90k });
    this.#trace('request.completed', {}, requestId);
  }

  #trace(name: string, args: Readonly<Record<string, string | number | boolean>>, requestId?: string): void {
    this.#deps.trace({ type: 'trace.scheduler', name, atMs: this.#deps.clock.now(), sessionId: this.sessionId, epoch: this.#epoch, chunk: this.#story.state.chunk, ...(requestId === undefined ? {} : { requestId }), args });
  }
}

function transitionOf(request: SceneRequest): SceneTransition | null {
  if (request.request === 'cut') return { kind: 'cut' };
  return request.request === 'blend' ? { kind: 'blend', chunks: request.chunks } : null;
}
