import { SegueError } from '../../protocol/errors.ts';
import type { AppliedHow, EngineRequest, PresentedIn } from '../../streams/messages.ts';
import { frameDuration90k, type MediaTime90k } from '../../streams/media_time.ts';
import type { KeptChunk } from '../../streams/storage_messages.ts';
import { SessionWords, type ActionState } from '../../streams/session_words.ts';
import { SharedPool } from '../../streams/shared_pool.ts';
import type { LoopState } from '../model/loop_kernel.ts';
import type { WorkPlan } from '../model/work.ts';
import type { CommittedStep, Predict, ProgramState, RealtimeProgram, Transition } from '../programs/RealtimeProgram.ts';
import { ActionLatch } from '../scheduler/ActionLatch.ts';
import type { AdmissionGrant } from '../scheduler/AdmissionController.ts';
import { BandwidthServer } from '../scheduler/BandwidthServer.ts';
import type { LoopTurn } from '../scheduler/LoopTurn.ts';
import { PresentationTimeline } from '../scheduler/PresentationTimeline.ts';
import type { QueuedTurn } from '../scheduler/ReadyQueue.ts';
import { fencing } from '../scheduler/RequestScheduler.ts';
import type { WorkUnit } from '../scheduler/WorkUnit.ts';
import type { Device } from './Device.ts';
import { openRecords, type ChunkRecords } from './ChunkRecords.ts';
import { REQUEST_CHUNKS } from './engine_options.ts';
import { FenceWatch } from './FenceWatch.ts';
import { Punctuality } from './Punctuality.ts';
import { MediaRecall } from './MediaRecall.ts';
import { PastMemory } from './PastMemory.ts';
import type { ResumedStory } from './resume_story.ts';
import { SessionAnswers, type ShownAt } from './SessionAnswers.ts';
import { SceneRequests } from './SceneRequests.ts';
import { SessionHalt } from './SessionHalt.ts';
import { SessionTrace } from './SessionTrace.ts';
import type { SessionDependencies, SessionOpening } from './session_opening.ts';
import { SessionStreams } from './SessionStreams.ts';
import { SessionUsageCount } from './SessionUsageCount.ts';
import { Speculation, type Draft } from './Speculation.ts';
import { Story } from './Story.ts';
import { TapeFeed } from './TapeFeed.ts';
import { StepFailures } from './StepFailures.ts';
import { StoryProgress } from './StoryProgress.ts';
import { StoryRewinds, type DeliveredStory } from './StoryRewinds.ts';
import { openRecorder, type StoryRecorder } from './StoryRecorder.ts';
import type { CommittedUnit, WorkSource } from './WorkSource.ts';

/** Requests that wait for a baseline policy to read them; more are read at once. */
const MAX_UNREAD = 64;

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
  readonly share: BandwidthServer;
  readonly latch: ActionLatch;
  /** The unit that a worker has; one at a time, because each is planned from what the one before made. */
  inFlight: WorkUnit | null = null;
  /** Turns that wait in the device's queue. */
  queued: QueuedTurn<WorkSource>[] = [];
  /** When work without a frame began to wait. */
  slackSinceMs: number | null = null;
  /** Reservation of the next unit has failed since then. */
  refusedSinceMs: number | null = null;
  readonly usage = new SessionUsageCount();
  readonly punctuality: Punctuality;
  readonly #deps: SessionDependencies;
  readonly #answers: SessionAnswers;
  readonly #trace: SessionTrace;
  readonly #story: Story;
  readonly #streams: SessionStreams;
  readonly #fence: FenceWatch;
  #conditioningVersion = 0;
  readonly #halt: SessionHalt;
  #status: 'live' | 'failed' | 'closed' = 'live';
  readonly #failures = new StepFailures();
  /** Chunks of incoming video that nothing was made of. */
  #dropped = 0;
  /** Requests that a baseline policy doesn't read yet. */
  readonly #unread: EngineRequest[] = [];
  #action: ActionState;
  readonly #recall: MediaRecall;
  readonly #tape: TapeFeed | null;
  readonly #records: ChunkRecords | null;
  readonly #recorder: StoryRecorder | null;
  readonly #progress: StoryProgress;
  readonly #scenes: SceneRequests;
  readonly #rewinds: StoryRewinds;
  readonly #resumed: ResumedStory | null;
  #speculation: Speculation | null = null;

  constructor({ sessionId, program, seed, prompt, image, adapter, plan, strength, replay, channels, device, grant, resumed, lineage, branches = {}, resume }: SessionOpening, deps: SessionDependencies) {
    const begin = () => program.open({ seed, prompt, image, adapter, ...(plan === undefined ? {} : { plan }), ...(strength === undefined ? {} : { strength }), ...(replay === undefined ? {} : { replay }) });
    const from = resumed?.initial ?? begin();
    const initial = lineage === undefined ? from : program.returned(from, from, 0, lineage);
    this.sessionId = sessionId;
    this.program = program;
    this.seed = seed;
    this.words = new SessionWords(channels.words);
    this.pools = { video: SharedPool.attach(channels.video), audio: SharedPool.attach(channels.audio) };
    this.device = device;
    this.grant = grant;
    this.#deps = deps;
    const nowMs = deps.clock.now();
    const { lookAheadMs, redirectBudgetMs, boostMs } = deps.options;
    this.timeline = new PresentationTimeline({ words: this.words, lookAheadMs, chunk90k: frameDuration90k(program.format) * program.framesPerChunk, nowMs });
    // One redirect, whatever it takes on this device.
    const redirectMs = device.costs.undisturbedSum(program.demand.redirectComponents);
    this.reserve = new BandwidthServer({ budgetMs: Math.max(redirectBudgetMs, redirectMs), bandwidth: () => device.admission.reserveBandwidth, boostMs, nowMs });
    this.share = new BandwidthServer({ budgetMs: device.costs.undisturbedSum(program.demand.chunkComponents), bandwidth: () => device.admission.shareOf(program.demand), boostMs: lookAheadMs, nowMs });
    const { policy, fenceWatchdogMs: watchdogMs } = deps.options;
    this.#fence = new FenceWatch({ words: this.words, clock: deps.clock, watchdogMs, readsWord: policy === 'unit', missing: (epoch) => this.fault(new SegueError('timed_out', `epoch ${epoch} was raised, but no request came for it`), false) });
    this.#trace = new SessionTrace(deps.clock, deps.trace, () => ({ sessionId, epoch: this.epoch, chunk: this.#story.state.chunk }));
    this.punctuality = new Punctuality({ sessionId, clock: deps.clock, timeline: this.timeline, toControl: deps.toControl, trace: this.#trace, late: () => deps.late(this), reduce: program.reduced === undefined || !deps.options.reducedSteps ? null : (reduced) => this.#reduce(reduced) });
    this.#halt = new SessionHalt(deps.clock, (requestId) => this.#holdExpired(requestId));
    // Nobody else writes it yet: media hears of the session when it is open.
    if (resumed !== null) this.words.writeAction({ ...this.words.action, speed: resumed.speed });
    this.#action = this.words.action;
    this.latch = new ActionLatch(this.#action);
    this.#streams = new SessionStreams(sessionId, () => device.loaded.weightsVersion, deps.toMedia);
    this.#answers = new SessionAnswers(sessionId, deps.toControl);
    this.#story = new Story(program, initial, device.pool, this.pools, this.#past());
    this.#resumed = resumed;
    resumed?.held();
    if (initial.position90k > 0) {
      this.#story.seenOnlyTo(initial.position90k);
      // Media goes on from there, on an anchor that is yet to come.
      this.timeline.detach(nowMs, initial.position90k);
    }
    this.#records = openRecords(this);
    this.#recorder = openRecorder({ sessionId, program, device, keep: deps.keep, records: this.#records, clock: deps.clock, toControl: deps.toControl, story: { ...branches, lastChunk: initial.chunk - 1 } });
    const { words, timeline, reserve, latch } = this;
    this.#progress = new StoryProgress({ sessionId, program, story: this.#story, timeline, recorder: this.#recorder, clock: deps.clock, epoch: () => this.epoch, toControl: deps.toControl, trace: this.#trace });
    this.#scenes = new SceneRequests({
      program,
      story: this.#story,
      progress: this.#progress,
      halt: this.#halt,
      answers: this.#answers,
      words,
      latch,
      grant,
      device,
      drafted: () => this.#speculation?.taken() ?? null,
      overtaken: () => this.epochWord !== this.epoch,
      takeForce: (transition) => this.#takeForce(transition),
      felt: (unit) => this.#felt(unit),
      takeBack: () => this.#takeBack('redirect'),
      trace: this.#trace,
    });
    const { tape } = program;
    this.#tape = tape === undefined || deps.reader === null ? null : new TapeFeed({ tape, story: this.#story, reader: deps.reader, fed: () => this.#woken(), failed: (error) => this.fault(error, true) });
    this.#rewinds = new StoryRewinds({
      sessionId,
      program,
      story: this.#story,
      progress: this.#progress,
      halt: this.#halt,
      recorder: this.#recorder,
      clock: deps.clock,
      resume,
      begin,
      epoch: () => this.epoch,
      toControl: deps.toControl,
      applied: (requestId) => {
        this.#recall.reset();
        this.#answerApplied(requestId, 'rewind');
      },
      failed: (requestId, error) => this.#answers.failed(requestId, error),
      superseded: (requestId, by) => this.#answers.superseded(requestId, by),
      settled: (waited) => this.#settled(waited),
    });
    this.#recall = new MediaRecall({ program, story: this.#story, words, timeline, reserve, latch, streams: this.#streams, device });
  }

  get epoch(): number {
    return this.#fence.epoch;
  }

  get epochWord(): number {
    return this.#fence.word;
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

  /** Other weights may take over: no chunk is in flight, or none that goes on by itself. */
  get atBoundary(): boolean {
    return this.betweenChunks || this.#halt.stopped || this.fenced();
  }

  get closed(): boolean {
    return this.#status !== 'live' || this.words.closed;
  }

  /** Versions from before the committed one that a rewind could go back to at once. */
  get pastVersions(): number {
    return this.#story.pastVersions;
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
    if (this.closed || this.#halt.stopped || this.inFlight !== null || !this.device.usable || this.fenced()) return [];
    if (this.device.switching === 'at_once' || (this.device.switching !== null && this.betweenChunks)) return [];
    return this.program.turns(this.#story.state);
  }

  fenced(): boolean {
    return this.#fence.fenced();
  }

  /** @param resumedExactly whether a story that it goes on with has the same bits as if it had never stopped; null where it begins. */
  start(resumedExactly: boolean | null = null): void {
    this.#deps.toControl({ type: 'session.opened', sessionId: this.sessionId, format: this.program.format, kept: this.#recorder !== null, ...(resumedExactly === null ? {} : { resumedExactly, at90k: this.#story.state.position90k, whole90k: this.#recorder?.wholeUpTo(this.#story.state) ?? this.#story.state.position90k }) });
    this.#streams.init(this.program.format);
    this.#tape?.pull();
    this.#deps.changed(this);
  }

  /** Other weights serve from here on. What the older ones have begun is given up: no chunk, and nothing made ahead, is made by both. */
  reloaded(): void {
    this.#speculation?.yieldMemory();
    if (!this.betweenChunks) this.#story.replace(this.program.rewound(this.#story.newest, this.#story.state));
  }

  // ---------------------------------------------------------------- requests

  receive(request: EngineRequest): void {
    const { requestId } = request;
    if (this.closed) {
      if (request.request !== 'adopt') this.#answers.failed(requestId, new SegueError('session_closed', 'the session has ended'));
      return;
    }
    if (this.#rewinds.takes(request)) return;
    if (!this.#readsNow() && this.#unread.length < MAX_UNREAD) {
      this.#unread.push(request);
      return;
    }
    const nowMs = this.#deps.clock.now();
    const acceptance = this.#answers.accept(request, this.epoch, nowMs);
    if (acceptance.outcome !== 'run') return;
    this.#conditioningVersion = Math.max(this.#conditioningVersion, request.conditioningVersion);
    if (fencing(request)) this.#fence.enter(request.epoch);
    if (fencing(request) || request.request === 'pause' || request.request === 'resume') this.#halt.release();
    switch (request.request) {
      case 'interrupt':
        this.#halt.interrupt();
        this.#story.replace(this.program.withdraw(this.#story.state));
        this.#progress.backTo(request.presented90k);
        this.#answerApplied(requestId, 'interrupted');
        break;
      case 'adopt':
        this.#progress.backTo(request.presented90k);
        break;
      case 'redirect':
      case 'cut':
      case 'blend':
        this.#scenes.begin(request, acceptance.superseded.length > 0);
        break;
      case 'rewind':
        if (this.#tape !== null) {
          this.#halt.go();
          this.timeline.detach(nowMs, this.#tape.seek(request.to90k, requestId));
        } else this.#rewinds.begin(request);
        break;
      case 'hold':
        this.#halt.hold(requestId);
        this.#answerApplied(requestId, 'held');
        break;
      case 'release':
        this.#halt.release();
        this.#answerApplied(requestId, 'released');
        break;
      case 'pause':
        this.#halt.pause();
        this.#answerApplied(requestId, 'paused');
        break;
      case 'resume':
        this.#halt.go();
        this.#answerApplied(requestId, 'resumed');
        break;
    }
    this.#tape?.pull();
    this.#deps.changed(this);
    this.#speculation?.moved();
  }

  /**
   * A version at or before a moment of the story, for another session to go on from: its blocks are counted again, and nothing here changes. Null where it isn't in memory.
   * `keep` makes what is kept of the past the other's as well.
   */
  forkAt(to90k: MediaTime90k): { readonly resumed: ResumedStory; readonly keep: (fork: EngineSession) => void } | null {
    const version = this.closed ? null : this.#story.at(to90k);
    if (version === null) return null;
    const resumed: ResumedStory = { initial: version, exact: true, speed: this.words.action.speed, held: () => undefined, settle: () => undefined };
    return { resumed, keep: (fork) => this.#shareKept(fork, version) };
  }

  #shareKept(fork: EngineSession, version: ProgramState): void {
    if (fork.#recorder === null || this.#recorder === null) return;
    const { branch, chunk } = this.#recorder.end;
    fork.#recorder.copyFrom(this.sessionId, { branch, chunk: Math.min(chunk, version.chunk - 1) });
    // What this one has yet to commit is the other's beginning.
    for (const later of this.#story.from(0)) if (later.chunk - 1 > chunk && later.position90k <= version.position90k) fork.#recorder.committed(later, fork.epoch);
  }

  /** What was kept of the story, for a rewind that waits for it. */
  rewindTo(delivered: DeliveredStory): void {
    if (!this.closed) this.#rewinds.deliver(delivered);
  }

  /** Memory is wanted by somebody who has asked for something: versions of the past go. True where that freed any. */
  yieldMemory(): boolean {
    return this.#story.forgetPast();
  }

  #settled(waited: readonly EngineRequest[]): void {
    for (const request of waited) this.receive(request);
    this.#deps.changed(this);
    this.#speculation?.moved();
    this.#deps.wake();
  }

  #past() {
    const { pastChunks, policy } = this.#deps.options;
    const { chunkMemory } = this.program.demand;
    if (pastChunks === 0 || chunkMemory === undefined || policy !== 'unit') return null;
    const { device, grant } = this;
    const whole = Object.fromEntries(Object.entries(chunkMemory).map(([tag, bytes]) => [tag, bytes * pastChunks]));
    return { chunks: pastChunks, memory: new PastMemory({ pool: device.pool, account: grant.account, reserve: () => device.admission.admitSlack(`${this.sessionId}:past`, whole) }) };
  }

  /** What is being typed, before it is sent; null where it was emptied. Ignored where nothing is made ahead. */
  draft(draft: Draft | null): void {
    const { options, clock, toControl, trace, speculates, draftChanged } = this.#deps;
    const { speculation: speculative } = this.program;
    if (this.closed || speculative === undefined || !options.speculation || options.policy !== 'unit') return;
    if (this.#speculation === null) {
      if (draft === null) return;
      const { sessionId, program, seed, words, latch, device, pools } = this;
      const phase = () => (this.closed || this.#halt.ahead === 'none' || this.fenced() ? 'none' : this.#halt.ahead);
      this.#speculation = new Speculation({ sessionId, program, seed, words, latch, device, pools, story: this.#story, phase }, speculative, { clock, toControl, trace, changed: draftChanged, spent: (deviceMs) => this.spent(deviceMs) });
      speculates(this.#speculation);
    }
    this.#speculation.draft(draft);
  }

  /** The driver has seen up to here. */
  presented(epoch: number, media90k: MediaTime90k): void {
    if (this.closed || epoch !== this.epoch) return;
    this.#progress.seen(media90k);
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
      if (received.dropped) this.#trace.tell('incoming.dropped', { chunks: ++this.#dropped });
    } catch (error) {
      return this.fault(error instanceof SegueError ? error : new SegueError('bad_request', error instanceof Error ? error.message : String(error), { param: 'frames', cause: error }), false);
    }
    this.#deps.changed(this);
  }

  #takeBack(cause: 'action' | 'redirect'): void {
    if (this.#deps.options.policy !== 'unit' || this.closed || this.#halt.stopped || this.fenced()) return;
    const recalled = this.#recall.take(cause, this.#deps.clock.now());
    if (recalled === null) return;
    this.#trace.tell('media.recalled', { cause, ...recalled });
    this.#deps.changed(this);
  }

  #woken(): void {
    if (this.closed) return;
    this.#deps.changed(this);
    this.#deps.wake();
  }

  #holdExpired(requestId: string): void {
    if (this.closed) return;
    this.#deps.toControl({ type: 'hold.expired', sessionId: this.sessionId, requestId });
    this.#trace.tell('hold.expired', {}, requestId);
    this.#deps.changed(this);
    this.#speculation?.moved();
    this.#deps.wake();
  }

  /** Of a frame that is not on disk yet, be its chunk unfinished or its record under way: the chunk that it lies in, as far as it was seen. Null where nothing that is held here shows it. */
  seenChunk(media90k: MediaTime90k): KeptChunk | null {
    const version = this.#story.reaching(media90k + 1);
    const part = version === undefined || this.closed ? null : (this.program.keeping?.seen(version) ?? null);
    if (part === null || this.#records === null || media90k < part.start90k || media90k >= part.end90k) return null;
    return this.#records.record(part, this.epoch);
  }

  // ---------------------------------------------------------------- steps

  current(loopId: string): LoopState | null {
    return this.program.current(this.#story.state, loopId);
  }

  spent(deviceMs: number): void {
    this.usage.spent(deviceMs);
  }

  stage(step: CommittedStep, predict: Predict): (unit: CommittedUnit) => void {
    const transition = this.program.advance(this.#story.state, step, predict);
    return (unit) => this.#apply(transition, unit);
  }

  /** A step was committed: what the program made of it takes force. Its slots are the state's, or media's, from here on. */
  #apply(transition: Transition<ProgramState>, unit: CommittedUnit): void {
    this.#takeForce(transition);
    this.#failures.committed(unit.plan);
    if (unit.plan.kind === 'diffusion_step') {
      this.#felt(unit);
      // It was out while input changed: what it made may be old already.
      this.actionChanged();
    }
    if (transition.recall === true) this.#takeBack('redirect');
    this.#tape?.pull();
    if (this.#unread.length > 0 && this.#readsNow()) for (const request of this.#unread.splice(0)) this.receive(request);
    this.#speculation?.moved();
  }

  #felt({ action, conditioning }: CommittedUnit): void {
    this.latch.felt(action);
    this.#recall.madeUnder(conditioning);
  }

  #takeForce(transition: Transition<ProgramState>): void {
    const { state, version, frame, text, applied, completed, decisions } = transition;
    this.#story.replace(state, frame === null ? [] : [{ pool: 'video', slot: frame.videoSlot }, { pool: 'audio', slot: frame.audioSlot }]);
    if (version !== null) this.#story.keep(version);
    if (frame !== null) {
      this.punctuality.ready(frame.start90k, frame.start90k < this.#recall.until90k);
      this.#resumed?.settle();
      this.#rewinds.flowing();
      this.timeline.flowing();
      this.#streams.frame(frame, this.epoch);
      this.#records?.went(frame.start90k, this.epoch, this.device.loaded.weightsVersion);
      this.#progress.commit();
    }
    for (const output of text) this.#deps.toControl({ type: 'text', sessionId: this.sessionId, ...output, epoch: this.epoch });
    this.#trace.decided(decisions);
    if (applied !== null) this.#answerApplied(applied.requestId, applied.how, applied);
    if (completed !== undefined) this.#completed(completed);
  }

  /** What is out was planned under the same loop states, so it still counts. */
  #reduce(reduced: boolean): void {
    if (this.closed) return;
    this.#story.replace(this.program.reduced!(this.#story.state, reduced));
    this.#deps.changed(this);
  }

  /** Always, but for the baseline policies. */
  #readsNow(): boolean {
    const { policy } = this.#deps.options;
    if (policy === 'unit' || this.#halt.stopped) return true;
    return this.program.betweenChunks(this.#story.state) && (policy === 'chunk' || this.#story.state.chunk % REQUEST_CHUNKS === 0);
  }

  /** A step of it has failed and is to be tried again: alone, so that if it fails whoever joins it, nobody joins it. */
  get suspect(): boolean {
    return this.#failures.any;
  }

  /**
   * A unit failed; its outputs are gone already. Once: the same step is tried again. Twice in a row, or the same step twice: the chunk in flight is given up
   * and made anew after the last frame that went out. Three times: the session ends.
   */
  failed(error: SegueError, plan: WorkPlan): void {
    const what = this.#failures.failed(plan);
    if (what === 'end') return this.fault(error, true);
    if (what === 'remake') {
      this.#story.replace(this.program.rewound(this.#story.newest, this.#story.state));
      this.fault(error, false);
    }
    this.#deps.changed(this);
  }

  fault(error: SegueError, fatal: boolean): void {
    if (this.#status !== 'live') return;
    this.#deps.toControl({ type: 'session.fault', sessionId: this.sessionId, error: error.toBody(), fatal });
    this.#trace.tell('session.fault', { code: error.code, fatal });
    if (!fatal) return;
    this.#status = 'failed';
    this.#halt.release();
    this.#fence.close();
    this.#answers.failAll(error, [...this.#rewinds.close(), ...this.#unread.splice(0)]);
    this.#streams.complete('failed');
    this.#deps.changed(this);
  }

  /** Ends the session: answers what is unanswered, lets go of blocks, slots and reservations. Idempotent. A unit in flight gives its own back when it returns. @param presented as its clients were told. */
  close(presented?: PresentedIn): void {
    if (this.#status === 'closed') return;
    this.#progress.end(presented);
    this.#answers.failAll(new SegueError('session_closed', 'the session was closed'), [...this.#rewinds.close(), ...this.#unread.splice(0)]);
    this.#status = 'closed';
    this.#halt.release();
    this.#fence.close();
    this.#streams.complete('closed');
    for (const queued of this.queued) this.device.queue.withdraw(queued);
    this.queued = [];
    this.#recorder?.close();
    this.#tape?.close();
    this.#speculation?.close();
    this.#story.close();
    this.#resumed?.settle();
    this.grant.release();
  }

  // ---------------------------------------------------------------- answers

  #answerApplied(requestId: string, how: AppliedHow, shown: ShownAt | null = null): void {
    const { chunk, position90k } = this.#story.state;
    const versions = { epoch: this.epoch, conditioningVersion: this.#conditioningVersion };
    const place = shown === null ? { chunk, step: 0, media90k: position90k } : shown;
    const answer = this.#answers.applied(requestId, how, this.#deps.clock.now(), versions, place);
    if (answer !== null) this.#trace.tell('request.applied', { how, elapsedMs: answer.elapsedMs, predictedMs: answer.predictedMs ?? -1 }, requestId);
  }

  #completed(completed: NonNullable<Transition<ProgramState>['completed']>): void {
    const versions = { epoch: this.epoch, conditioningVersion: this.#conditioningVersion };
    if (this.#answers.completed(completed, versions)) this.#trace.tell('request.completed', {}, completed.requestId);
  }
}
