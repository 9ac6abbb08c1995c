import { DroppedMemory } from '../../observe/DroppedMemory.ts';
import type { Clock, Timer } from '../../observe/clock.ts';
import { SegueError } from '../../protocol/errors.ts';
import type { MediaEvent } from '../../streams/media_events.ts';
import type { OutstandingBounds } from '../../streams/outstanding_writes.ts';
import type { FromStorage, KeptStory } from '../../streams/storage_messages.ts';
import type { ControlToEngine, EngineRequest, EngineStats, EngineToControl, InjectedFault, MediaToEngine, PresentedIn, TraceEvent } from '../../streams/messages.ts';
import { engineCard } from '../deployment/engine_card.ts';
import type { RealtimeProgram } from '../programs/RealtimeProgram.ts';
import { validateProgram } from '../programs/ProgramSpec.ts';
import { LoopScheduler, type ModelIdentity, type ScheduledKernel } from '../scheduler/LoopScheduler.ts';
import { PlacementScheduler } from '../scheduler/PlacementScheduler.ts';
import { TransferScheduler } from '../scheduler/TransferScheduler.ts';
import type { LoadedModel, Takeover, Worker } from '../workers/Worker.ts';
import { ChunkReader } from './ChunkReader.ts';
import { Device } from './Device.ts';
import { Dispatcher } from './Dispatcher.ts';
import { DEFAULT_ENGINE_OPTIONS, type EngineOptions } from './engine_options.ts';
import { EngineSession } from './EngineSession.ts';
import { InlineRuns, type RunHandle } from './InlineRuns.ts';
import type { RunOpening } from './InlineRun.ts';
import { PictureDecodes } from './PictureDecodes.ts';
import { resumeStory, type ResumedStory } from './resume_story.ts';
import { StoryOutlet, type ToStoragePort } from './StoryOutlet.ts';
import type { Speculation } from './Speculation.ts';
import { TraceBuffer } from './TraceBuffer.ts';
import type { WorkSource } from './WorkSource.ts';

export interface EngineCoreDependencies {
  readonly clock: Clock;
  /** Workers with the model loaded, all the same one. */
  readonly workers: readonly { readonly worker: Worker; readonly loaded: LoadedModel }[];
  readonly kernels: readonly ScheduledKernel[];
  /** By the name that sessions ask for; the first is also what the card is made for. None: the engine takes inline runs only, and makes no card. */
  readonly programs: Readonly<Record<string, RealtimeProgram>>;
  readonly components: readonly string[];
  readonly identity: Pick<ModelIdentity, 'precision' | 'parallelPlanHash'>;
  readonly options?: Partial<EngineOptions>;
  readonly toControl: (message: EngineToControl) => void;
  readonly toMedia: (event: MediaEvent) => void;
  /** Where stories are kept; absent: nowhere. */
  readonly toStorage?: ToStoragePort;
  /** On what may wait there. */
  readonly keepBounds?: OutstandingBounds;
  /** Test mode: makes the next unit of a session fail. Absent otherwise. */
  readonly injectFault?: (worker: Worker, sessionId: string, fault: InjectedFault) => void;
}

const STATS_INTERVAL_MS = 1000;
/** Trace events go out this often, or as soon as this many are there. */
const TRACE_INTERVAL_MS = 100;
const TRACE_BATCH = 256;
/** How often a worker that was lost is asked whether it is back. */
const HEALTH_INTERVAL_MS = 250;

/**
 * The engine without its threads: everything that decides, on any clock and any workers. Messages come in by `receive` and
 * `receiveMedia`, go out by the two sinks; nothing here waits, computes, or knows who sent what.
 */
export class EngineCore {
  readonly #deps: EngineCoreDependencies;
  readonly #options: EngineOptions;
  readonly #devices: Device<WorkSource>[];
  readonly #dispatcher: Dispatcher;
  readonly #placement = new PlacementScheduler();
  readonly #traces = new TraceBuffer();
  readonly #sessions = new Map<string, EngineSession>();
  /** Closed, possibly with a unit that a worker still has. */
  readonly #closing = new Set<EngineSession>();
  readonly #droppedMemory = new DroppedMemory();
  readonly #runs: InlineRuns;
  readonly #decodes: PictureDecodes;
  readonly #outlet: StoryOutlet | null;
  readonly #reader: ChunkReader | null;
  readonly #timers = new Map<'stats' | 'trace' | 'health', Timer>();
  #draining = false;
  #drained = false;
  #closed = false;
  #deadlinesMissed = 0;
  #takeovers = 0;

  /** @throws {TypeError} for a program that the model can't run. */
  constructor(deps: EngineCoreDependencies) {
    if (deps.workers.length === 0) throw new TypeError('an engine needs at least one worker');
    this.#deps = deps;
    this.#outlet = deps.toStorage === undefined ? null : new StoryOutlet(deps.toStorage, deps.keepBounds);
    this.#reader = deps.toStorage === undefined ? null : new ChunkReader(deps.toStorage, deps.clock);
    this.#options = { ...DEFAULT_ENGINE_OPTIONS, ...deps.options };
    const offer = { loopKinds: deps.kernels.map(({ kind }) => kind), components: deps.components };
    for (const program of Object.values(deps.programs)) validateProgram(program.spec, offer);
    const transfers = new TransferScheduler();
    let lastBlockId = 0;
    const nextBlockId = () => ++lastBlockId;
    this.#devices = deps.workers.map(({ worker, loaded }) => new Device<WorkSource>({ worker, loaded, options: this.#options, transfers, nextBlockId }));
    for (const device of this.#devices) device.worker.onTakeover?.((takeover) => this.#takenOver(device, takeover));
    const { modelId, weightsVersion } = deps.workers[0]!.loaded;
    const loops = new LoopScheduler(new Map(deps.kernels.map((kernel) => [kernel.kind, kernel])), { ...deps.identity, modelId, weightsVersion, adapterVersions: {} });
    this.#dispatcher = new Dispatcher({
      clock: deps.clock,
      options: this.#options,
      loops,
      transfers,
      devices: this.#devices,
      trace: (event) => this.#trace(event),
      lost: (device, message) => this.#lost(device, message),
      settled: () => this.#settled(),
    });
    this.#runs = new InlineRuns({
      clock: deps.clock,
      devices: this.#devices,
      placement: this.#placement,
      offer,
      retryAfterMs: this.#options.retryAfterMs,
      identity: deps.identity,
      trace: (event) => this.#trace(event),
      changed: (run) => this.#dispatcher.requeue(run),
      woken: (run) => {
        this.#dispatcher.requeue(run);
        this.#dispatcher.round();
      },
      settled: () => this.#settled(),
    });
    this.#decodes = new PictureDecodes({ programs: deps.programs, clock: deps.clock, run: (opening) => this.run(opening), answer: deps.toControl });
  }

  /** Says what it is and begins to report. */
  start(): void {
    if (Object.keys(this.#deps.programs).length === 0) throw new TypeError('an engine needs at least one program');
    this.#deps.toControl({ type: 'engine.ready', card: engineCard(this.#deps.programs, this.#devices) });
    this.#every('stats', STATS_INTERVAL_MS, () => {
      this.#deps.toControl({ type: 'engine.stats', stats: this.stats() });
      for (const session of this.#sessions.values()) {
        session.punctuality.tick();
        this.#tellUsage(session);
      }
    });
    this.#every('trace', TRACE_INTERVAL_MS, () => this.#flushTraces());
  }

  receive(message: ControlToEngine): void {
    if (this.#closed) return;
    switch (message.type) {
      case 'session.open':
        this.#open(message);
        break;
      case 'session.request':
        this.#request(message);
        break;
      case 'session.story':
        this.#sessions.get(message.sessionId)?.rewindTo(message);
        break;
      case 'session.draft': {
        const { sessionId, draftId, prompt, seamless } = message;
        this.#sessions.get(sessionId)?.draft(prompt === null ? null : { draftId, prompt, seamless });
        break;
      }
      case 'session.close':
        this.#close(message.sessionId, message.presented);
        break;
      case 'frame.find': {
        const { request, sessionId, media90k } = message;
        this.#deps.toControl({ type: 'frame.found', request, chunk: this.#sessions.get(sessionId)?.seenChunk(media90k) ?? null });
        break;
      }
      case 'frame.decode':
        this.#decodes.decode(message);
        break;
      case 'engine.drain':
        this.#draining = true;
        this.#decodes.close();
        this.#settled();
        break;
      case 'fault.inject': {
        const session = this.#sessions.get(message.sessionId);
        if (session !== undefined) this.#deps.injectFault?.(session.device.worker, message.sessionId, message.fault);
        break;
      }
    }
    this.#dispatcher.round();
  }

  receiveMedia(message: MediaToEngine): void {
    const session = this.#sessions.get(message.sessionId);
    if (this.#closed || session === undefined) return;
    if (message.type === 'media.presented') session.presented(message.epoch, message.media90k);
    else if (message.type === 'media.action') session.actionChanged();
    else if (message.type === 'media.frames') session.incoming(message.frames);
    else this.#dispatcher.requeue(session);
    this.#dispatcher.round();
  }

  receiveStorage(message: FromStorage): void {
    this.#outlet?.receive(message);
    this.#reader?.receive(message);
  }

  /**
   * Begins a run of an inline program: it shares devices, scheduler and commit rule with the live sessions.
   * @throws {TypeError} for a program that the model can't run.
   * @throws {SegueError} for inputs that it can't take, and where nothing is left to promise.
   */
  run(opening: RunOpening): RunHandle {
    if (this.#closed || this.#draining) throw new SegueError('draining', 'the engine is being stopped');
    if (this.#sessions.has(opening.runId) || this.#runs.has(opening.runId)) throw new SegueError('conflict', `${opening.runId} is open`);
    const handle = this.#runs.open(opening);
    this.#dispatcher.round();
    return handle;
  }

  stats(): EngineStats {
    const { executed, discarded, failed, busyMs } = this.#dispatcher.counters;
    let deadlinesMissed = this.#deadlinesMissed;
    for (const session of this.#sessions.values()) deadlinesMissed += session.punctuality.missed;
    return {
      sessions: this.#sessions.size,
      unitsExecuted: executed,
      unitsDiscarded: discarded,
      unitsFailed: failed,
      deadlinesMissed,
      executorTakeovers: this.#takeovers,
      deviceBusyMs: busyMs,
      blocksLive: this.#devices.reduce((sum, { pool }) => sum + pool.blocks, 0),
      blockBytes: this.#devices.reduce((sum, { pool }) => sum + pool.bytes, 0),
      ...(this.#outlet === null ? {} : { keptChunks: this.#outlet.spent.chunks, keepingMs: this.#outlet.spent.ms, keepingMaxMs: this.#outlet.spent.longestMs }),
    };
  }

  /** Blocks that only the caches hold: what is left when no session is open. */
  get cachedBlocks(): number {
    return this.#devices.reduce((sum, { cache }) => sum + cache.stats().blocks, 0);
  }

  /** Ends every session and reports no more. Units in flight end with their workers, which whoever made them closes. Idempotent. */
  close(): void {
    if (this.#closed) return;
    for (const sessionId of [...this.#sessions.keys()]) this.#close(sessionId);
    this.#decodes.close();
    this.#runs.cancelAll();
    this.#flushTraces();
    this.#closed = true;
    for (const timer of this.#timers.values()) timer.cancel();
    this.#dispatcher.close();
  }

  // ---------------------------------------------------------------- sessions

  #open(message: Extract<ControlToEngine, { type: 'session.open' }>): void {
    const { sessionId, model, program: name, seed, prompt, image, adapter = null, plan, strength, channels, story = null, fork, lineage, replay } = message;
    const refuse = (error: SegueError): void => this.#deps.toControl({ type: 'session.refused', sessionId, error: error.toBody() });
    const program = this.#deps.programs[name];
    if (this.#draining) return refuse(new SegueError('draining', 'the server is being stopped'));
    if (this.#sessions.has(sessionId)) return refuse(new SegueError('conflict', `session ${sessionId} is open`));
    if (model !== this.#devices[0]!.loaded.modelId) return refuse(new SegueError('model_not_found', `no model ${model}`, { param: 'model' }));
    if (program === undefined) return refuse(new SegueError('program_not_found', `no program ${name}`, { param: 'program' }));
    if (program.tape !== undefined && this.#reader === null) return refuse(new SegueError('not_kept', 'nothing is kept here that could be played'));
    const { retryAfterMs } = this.#options;
    const past = fork === undefined ? null : (this.#sessions.get(fork.from)?.forkAt(fork.to90k) ?? null);
    if (fork !== undefined && past === null) return refuse(new SegueError('not_kept', `session ${fork.from} has nothing of that moment in memory`));
    // Gone back to its beginning, and nothing has come after that: only the branch goes on.
    const begun = story !== null && story.chunks.length > 0 ? story : null;
    const future = lineage ?? (begun === null ? story?.lineage : undefined);
    const { branch, branches } = story ?? {};
    let reason = 'no device answers';
    // Blocks lie with one executor: what shares them goes there.
    const ranked = this.#placement.rank(this.#devices).filter((device) => fork === undefined || device === this.#sessions.get(fork.from)!.device);
    for (const device of ranked) {
      const ask = () => device.admission.admit(sessionId, program.demand, { video: channels.video.slots, audio: channels.audio.slots });
      let admission = ask();
      // What nobody has asked for yet makes room for whoever comes.
      if (!admission.admitted && admission.reason === 'memory' && this.#yieldMemory(device)) admission = ask();
      if (!admission.admitted) {
        reason = admission.reason;
        if (reason === 'slots') return refuse(new SegueError('bad_request', `output pools need ${program.demand.minSlots.video} slots`));
        continue;
      }
      this.#trace({ type: 'trace.scheduler', name: 'session.admitted', atMs: this.#deps.clock.now(), sessionId, workerId: device.workerId, args: { load: admission.grant.load, total: device.load } });
      let session: EngineSession;
      let resumed: ResumedStory | null = null;
      try {
        const resume = (kept: KeptStory) => resumeStory(kept, { sessionId, program, seed, device });
        resumed = past?.resumed ?? (begun === null ? null : resume(begun));
        session = new EngineSession({ sessionId, program, seed, prompt, image, adapter, ...(plan === undefined ? {} : { plan }), ...(strength === undefined ? {} : { strength }), ...(replay === undefined ? {} : { replay }), channels, device, grant: admission.grant, resumed, resume, ...(future === undefined ? {} : { lineage: future }), branches: { ...(branch === undefined ? {} : { branch }), ...(branches === undefined ? {} : { branches }) } }, this.#sessionDependencies());
      } catch (error) {
        resumed?.settle();
        admission.grant.release();
        return refuse(error instanceof SegueError ? error : new SegueError('internal', 'the session could not be opened', { cause: error }));
      }
      this.#sessions.set(sessionId, session);
      device.worker.attach(sessionId, { video: channels.video, audio: channels.audio });
      session.start(resumed?.exact ?? null);
      past?.keep(session);
      return;
    }
    this.#trace({ type: 'trace.scheduler', name: 'session.refused', atMs: this.#deps.clock.now(), sessionId, args: { reason } });
    // Another device may have room for it, with memory of its own.
    if (fork !== undefined && this.#devices.length > 1) return refuse(new SegueError('not_kept', `the device of session ${fork.from} is full (${reason})`));
    refuse(reason === 'no device answers' ? new SegueError('engine_unavailable', reason, { retryAfterMs }) : new SegueError('at_capacity', `another session can't be sustained (${reason})`, { retryAfterMs }));
  }

  #sessionDependencies() {
    const { clock, toControl, toMedia } = this.#deps;
    const keep = this.#outlet === null ? null : { outlet: this.#outlet, snapshotChunks: this.#options.snapshotChunks };
    return {
      clock,
      options: this.#options,
      keep,
      reader: this.#reader,
      toControl,
      toMedia,
      trace: (event: TraceEvent) => this.#trace(event),
      changed: (session: EngineSession) => this.#dispatcher.requeue(session),
      wake: () => this.#dispatcher.round(),
      speculates: ({ device, sessionId, pools }: Speculation) => device.worker.attach(sessionId, { video: pools.video.descriptor, audio: pools.audio.descriptor }),
      draftChanged: (source: Speculation) => this.#dispatcher.requeue(source),
      late: ({ device }: EngineSession) => this.#speculationsOn(device).forEach((draft) => draft.pressed()),
    };
  }

  #request(request: EngineRequest): void {
    const session = this.#sessions.get(request.sessionId);
    if (session !== undefined) return session.receive(request);
    if (request.request === 'adopt') return;
    const error = new SegueError('session_not_found', `no session ${request.sessionId}`);
    this.#deps.toControl({ type: 'request.failed', sessionId: request.sessionId, requestId: request.requestId, error: error.toBody() });
  }

  #close(sessionId: string, presented?: PresentedIn): void {
    const session = this.#sessions.get(sessionId);
    if (session === undefined) return;
    this.#sessions.delete(sessionId);
    this.#deadlinesMissed += session.punctuality.missed;
    session.close(presented);
    this.#closing.add(session);
    this.#settled();
  }

  #settled(): void {
    for (const session of this.#closing) {
      const { speculation } = session;
      if (session.inFlight !== null || (speculation !== null && speculation.inFlight !== null)) continue;
      this.#closing.delete(session);
      if (speculation !== null) session.device.worker.detach(speculation.sessionId);
      session.device.worker.detach(session.sessionId);
      this.#droppedMemory.dropped(session.pools.video.buffer, session.pools.audio.buffer);
      this.#tellUsage(session);
      this.#deps.toControl({ type: 'session.closed', sessionId: session.sessionId });
    }
    this.#runs.settle();
    if (!this.#draining || this.#drained || this.#sessions.size > 0 || this.#runs.size > 0 || this.#closing.size > 0 || this.#devices.some(({ busy }) => busy)) return;
    this.#drained = true;
    this.#flushTraces();
    this.#deps.toControl({ type: 'engine.drained' });
  }

  #tellUsage({ sessionId, usage, punctuality }: EngineSession): void {
    const taken = usage.take(punctuality.missed);
    if (taken !== null) this.#deps.toControl({ type: 'session.usage', sessionId, ...taken });
  }

  // ---------------------------------------------------------------- workers

  /** Excluded until it answers again: its sessions wait, because their blocks are there. One that is gone takes its sessions with it. */
  #lost(device: Device<WorkSource>, message: string): void {
    if (!device.usable) return;
    device.usable = false;
    this.#trace({ type: 'trace.scheduler', name: 'worker.lost', atMs: this.#deps.clock.now(), workerId: device.workerId, args: { message } });
    for (const session of this.#sessionsOn(device)) this.#dispatcher.requeue(session);
    this.#every('health', HEALTH_INTERVAL_MS, () => this.#checkHealth());
  }

  /** In the timeline of each session that it concerns: all that were on the device went on with the spare. */
  #takenOver(device: Device<WorkSource>, { atMs, tookMs, ...args }: Takeover): void {
    this.#takeovers++;
    for (const { sessionId } of this.#sessionsOn(device)) this.#trace({ type: 'trace.scheduler', name: 'executor.takeover', atMs, durationMs: tookMs, sessionId, workerId: device.workerId, args });
  }

  #checkHealth(): void {
    for (const device of this.#devices) {
      if (device.usable) continue;
      const { state } = device.worker.health();
      if (state === 'closed') {
        for (const session of this.#sessionsOn(device)) session.fault(new SegueError('engine_unavailable', `worker ${device.workerId} is gone, and what it held with it`), true);
      }
      if (state !== 'ready') continue;
      device.usable = true;
      this.#trace({ type: 'trace.scheduler', name: 'worker.back', atMs: this.#deps.clock.now(), workerId: device.workerId });
      for (const session of this.#sessionsOn(device)) this.#dispatcher.requeue(session);
    }
    if (this.#devices.every(({ usable }) => usable)) this.#cancel('health');
    this.#dispatcher.round();
  }

  #sessionsOn(device: Device<WorkSource>): WorkSource[] {
    return [...[...this.#sessions.values()].filter((session) => session.device === device), ...this.#runs.on(device), ...this.#speculationsOn(device)];
  }

  /** What was made ahead goes, and what is kept only for going back. True where that freed any memory. */
  #yieldMemory(device: Device<WorkSource>): boolean {
    const drafts = this.#speculationsOn(device).filter((draft) => draft.yieldMemory());
    const pasts = [...this.#sessions.values()].filter((session) => session.device === device && session.yieldMemory());
    return drafts.length + pasts.length > 0;
  }

  #speculationsOn(device: Device<WorkSource>): Speculation[] {
    return [...this.#sessions.values()].flatMap((session) => (session.device === device && session.speculation !== null ? [session.speculation] : []));
  }

  // ---------------------------------------------------------------- reports

  #trace(event: TraceEvent): void {
    this.#traces.add(event);
    if (this.#traces.size >= TRACE_BATCH) this.#flushTraces();
  }

  #flushTraces(): void {
    const events = this.#traces.take(this.#deps.clock.now());
    if (events.length > 0) this.#deps.toControl({ type: 'trace', events });
  }

  /** Repeats until cancelled or closed; one timer of a kind at a time. */
  #every(kind: 'stats' | 'trace' | 'health', intervalMs: number, run: () => void): void {
    if (this.#timers.has(kind) || this.#closed) return;
    const arm = (): void => {
      this.#timers.set(
        kind,
        this.#deps.clock.schedule(this.#deps.clock.now() + intervalMs, () => {
          if (this.#closed) return;
          arm();
          run();
        }),
      );
    };
    arm();
  }

  #cancel(kind: 'stats' | 'trace' | 'health'): void {
    this.#timers.get(kind)?.cancel();
    this.#timers.delete(kind);
  }
}
