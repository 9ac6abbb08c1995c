import { DroppedMemory } from '../../observe/DroppedMemory.ts';
import { SegueError } from '../../protocol/errors.ts';
import type { FromStorage } from '../../streams/storage_messages.ts';
import type { ControlToEngine, EngineCard, EngineRequest, EngineStats, MediaToEngine, PresentedIn, TraceEvent } from '../../streams/messages.ts';
import { engineCard } from '../deployment/engine_card.ts';
import { validateProgram } from '../programs/ProgramSpec.ts';
import { LoopScheduler } from '../scheduler/LoopScheduler.ts';
import { PlacementScheduler } from '../scheduler/PlacementScheduler.ts';
import { TransferScheduler } from '../scheduler/TransferScheduler.ts';
import { InProcessConnector } from '../transport/InProcessConnector.ts';
import { ChunkReader } from './ChunkReader.ts';
import { Device } from './Device.ts';
import { DisaggregatedRun, type DisaggregatedOpening } from './DisaggregatedRun.ts';
import { DeviceHealth } from './DeviceHealth.ts';
import { Dispatcher } from './Dispatcher.ts';
import type { EngineCoreDependencies } from './engine_dependencies.ts';
import { DEFAULT_ENGINE_OPTIONS, type EngineOptions } from './engine_options.ts';
import type { EngineSession } from './EngineSession.ts';
import { InlineRuns, type RunHandle } from './InlineRuns.ts';
import type { RunOpening } from './InlineRun.ts';
import { ModelReload } from './ModelReload.ts';
import { PictureDecodes } from './PictureDecodes.ts';
import { Repeats } from './Repeats.ts';
import type { SessionDependencies } from './session_opening.ts';
import { SessionAdmission } from './SessionAdmission.ts';
import { StoryOutlet } from './StoryOutlet.ts';
import type { Speculation } from './Speculation.ts';
import { Tracer } from './Tracer.ts';
import type { WorkSource } from './WorkSource.ts';

const STATS_INTERVAL_MS = 1000;
/** Trace events go out this often, or as soon as this many are there. */
const TRACE_INTERVAL_MS = 100;
const TRACE_BATCH = 256;

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
  readonly #transfers = new TransferScheduler();
  readonly #connector = new InProcessConnector();
  readonly #traces: Tracer;
  readonly #sessions = new Map<string, EngineSession>();
  /** Closed, possibly with a unit that a worker still has. */
  readonly #closing = new Set<EngineSession>();
  /** Of live sessions that have had a draft, by device: a late frame of anybody holds them off. */
  readonly #speculations: ReadonlyMap<Device<WorkSource>, Set<Speculation>>;
  readonly #droppedMemory = new DroppedMemory();
  readonly #admission: SessionAdmission;
  readonly #runs: InlineRuns;
  readonly #decodes: PictureDecodes;
  readonly #reload: ModelReload;
  readonly #outlet: StoryOutlet | null;
  readonly #reader: ChunkReader | null;
  readonly #health: DeviceHealth;
  readonly #repeats: Repeats<'stats' | 'trace'>;
  #draining = false;
  #drained = false;
  #closed = false;
  #deadlinesMissed = 0;

  /** @throws {TypeError} for a program that the model can't run. */
  constructor(deps: EngineCoreDependencies) {
    if (deps.workers.length === 0) throw new TypeError('an engine needs at least one worker');
    this.#deps = deps;
    this.#outlet = deps.toStorage === undefined ? null : new StoryOutlet(deps.toStorage, deps.keepBounds);
    this.#reader = deps.toStorage === undefined ? null : new ChunkReader(deps.toStorage, deps.clock);
    this.#options = { ...DEFAULT_ENGINE_OPTIONS, ...deps.options };
    const offer = { loopKinds: deps.kernels.map(({ kind }) => kind), components: deps.components };
    for (const program of Object.values(deps.programs)) validateProgram(program.spec, offer);
    const transfers = this.#transfers;
    let lastBlockId = 0;
    const nextBlockId = () => ++lastBlockId;
    this.#devices = deps.workers.map(({ worker, loaded, roles = [] }) => new Device<WorkSource>({ worker, loaded, roles, options: this.#options, transfers, nextBlockId }));
    this.#speculations = new Map(this.#devices.map((device) => [device, new Set()]));
    this.#repeats = new Repeats(deps.clock);
    this.#health = new DeviceHealth({
      clock: deps.clock,
      devices: this.#devices,
      sourcesOn: (device) => this.#sourcesOn(device),
      requeue: (source) => this.#dispatcher.requeue(source),
      round: () => this.#dispatcher.round(),
      trace: (event) => this.#trace(event),
    });
    const { modelId, weightsVersion } = deps.workers[0]!.loaded;
    const roles = new Map(this.#devices.map((device) => [device.workerId, device.roles.join('+')] as const));
    this.#traces = new Tracer(this.#options.traces, { modelId, versions: { weights: weightsVersion }, roleOf: (workerId) => roles.get(workerId) || undefined });
    const loops = new LoopScheduler(new Map(deps.kernels.map((kernel) => [kernel.kind, kernel])), { ...deps.identity, modelId, weightsVersion, adapterVersions: {} });
    this.#dispatcher = new Dispatcher({
      clock: deps.clock,
      options: this.#options,
      loops,
      transfers,
      devices: this.#devices,
      trace: (event) => this.#trace(event),
      tracer: this.#traces,
      lost: (device, message) => this.#health.lost(device, message),
      settled: () => this.#settled(),
    });
    this.#admission = new SessionAdmission({
      clock: deps.clock,
      devices: this.#devices,
      placement: this.#placement,
      programs: deps.programs,
      sessions: this.#sessions,
      speculations: this.#speculations,
      draining: () => this.#draining,
      retryAfterMs: this.#options.retryAfterMs,
      session: this.#sessionDependencies(),
      toControl: deps.toControl,
      trace: (event) => this.#trace(event),
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
    this.#reload = new ModelReload({
      clock: deps.clock,
      devices: this.#devices,
      loops,
      sessions: () => [...this.#sessions.values()],
      runs: (device) => this.#runs.on(device),
      sources: (device) => this.#sourcesOn(device),
      requeue: (source) => this.#dispatcher.requeue(source),
      round: () => this.#dispatcher.round(),
      trace: (event) => this.#trace(event),
      ...(deps.prepareWeights === undefined ? {} : { prepare: deps.prepareWeights }),
      answer: deps.toControl,
    });
    this.#decodes = new PictureDecodes({ programs: deps.programs, clock: deps.clock, run: (opening) => this.run(opening), answer: deps.toControl });
  }

  /** Says what it is and begins to report. */
  start(): void {
    const card = this.card();
    if (card !== null) this.#deps.toControl({ type: 'engine.ready', card });
    this.#repeats.every('stats', STATS_INTERVAL_MS, () => {
      this.#deps.toControl({ type: 'engine.stats', stats: this.stats() });
      for (const session of this.#sessions.values()) {
        session.punctuality.tick();
        this.#tellUsage(session);
      }
    });
    this.#repeats.every('trace', TRACE_INTERVAL_MS, () => this.#flushTraces());
  }

  /** As it stands now; null where there is no live program that it could be made for. */
  card(): EngineCard | null {
    const { programs } = this.#deps;
    return Object.keys(programs).length === 0 ? null : engineCard(programs, this.#devices);
  }

  receive(message: ControlToEngine): void {
    if (this.#closed) return;
    switch (message.type) {
      case 'session.open':
        this.#admission.open(message);
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
      case 'model.reload':
        void this.#reload.begin(message.request);
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

  /**
   * Begins a run whose stages are in pools of executors of their own.
   * @throws as `run`, and {TypeError} for a role that no pool has.
   */
  runDisaggregated(opening: DisaggregatedOpening): RunHandle {
    if (this.#closed || this.#draining) throw new SegueError('draining', 'the engine is being stopped');
    const run = new DisaggregatedRun(opening, {
      clock: this.#deps.clock,
      transfers: this.#transfers,
      connector: this.#connector,
      trace: (event) => this.#trace(event),
      openStage: (stage) => this.#runs.open(stage),
    });
    this.#dispatcher.round();
    return run;
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
      executorTakeovers: this.#health.takeovers,
      deviceBusyMs: busyMs,
      blocksLive: this.#devices.reduce((sum, { pool }) => sum + pool.blocks, 0),
      blockBytes: this.#devices.reduce((sum, { pool }) => sum + pool.bytes, 0),
      ...(this.#outlet === null ? {} : { keptChunks: this.#outlet.spent.chunks, keepingMs: this.#outlet.spent.ms, keepingMaxMs: this.#outlet.spent.longestMs }),
    };
  }

  /** Entries of all that is kept, by what they are: what depends on what is open, and must not grow with what has been served. */
  footprint(): Readonly<Record<string, number>> {
    const sum = (of: (device: Device<WorkSource>) => number): number => this.#devices.reduce((total, device) => total + of(device), 0);
    return {
      sessions: this.#sessions.size,
      closing: this.#closing.size,
      runs: this.#runs.size,
      drafts: sum((device) => this.#speculations.get(device)!.size),
      queuedTurns: sum(({ queue }) => queue.held),
      blocks: sum(({ pool }) => pool.blocks),
      accounts: sum(({ pool }) => pool.accounts),
      cacheEntries: sum(({ cache }) => cache.stats().entries),
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
    this.#reload.close();
    this.#runs.cancelAll();
    this.#flushTraces();
    this.#closed = true;
    this.#repeats.close();
    this.#health.close();
    this.#dispatcher.close();
  }

  // ---------------------------------------------------------------- sessions

  #sessionDependencies(): SessionDependencies {
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
      speculates: (draft: Speculation) => {
        const { device, sessionId, pools } = draft;
        this.#speculations.get(device)!.add(draft);
        device.worker.attach(sessionId, { video: pools.video.descriptor, audio: pools.audio.descriptor });
      },
      draftChanged: (source: Speculation) => this.#dispatcher.requeue(source),
      late: ({ device }: EngineSession) => this.#speculations.get(device)!.forEach((draft) => draft.pressed()),
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
    if (session.speculation !== null) this.#speculations.get(session.device)!.delete(session.speculation);
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
    this.#reload.settle();
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

  // ---------------------------------------------------------------- devices

  #sourcesOn(device: Device<WorkSource>): WorkSource[] {
    return [...[...this.#sessions.values()].filter((session) => session.device === device), ...this.#runs.on(device), ...this.#speculations.get(device)!];
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
}
