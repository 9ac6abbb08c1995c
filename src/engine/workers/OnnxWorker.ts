import { monotonicClock, type Clock } from '../../observe/clock.ts';
import type { Logger } from '../../observe/log.ts';
import type { SharedPoolDescriptor } from '../../streams/shared_pool.ts';
import { loadModelSpec } from '../model/spec/load_model_spec.ts';
import type { ModelSpec } from '../model/spec/model_spec.ts';
import type { BlockId, MemoryTag, StepResult, WorkUnitBatch } from '../model/work.ts';
import { batchPatienceMs, SparedPatience } from './batch_patience.ts';
import { BlockRegistry } from './BlockRegistry.ts';
import type { SharedBlock } from './BlockStore.ts';
import { MAX_UNITS_PER_BATCH } from './CancelWords.ts';
import type { ArmedFault, ExecutorOptions } from './executor_messages.ts';
import { ExecutorThread, type LoadMessage, type ResultsMessage } from './ExecutorThread.ts';
import { InFlightBatches, lostResults, type InFlightBatch } from './InFlightBatches.ts';
import { executorOptions, loadedModel, loadFault, loadMessage } from './model_loading.ts';
import { Predictions } from './Predictions.ts';
import { SpareExecutor } from './SpareExecutor.ts';
import type { LoadedModel, PreparedWeights, Takeover, Worker, WorkerHealth } from './Worker.ts';

export interface OnnxWorkerOptions {
  readonly id: string;
  readonly clock?: Clock;
  readonly logger?: Logger;
  /** Allows `injectFault`. */
  readonly testMode?: boolean;
  /** Override the model's `deployment.yaml`. */
  readonly batchInvariant?: boolean;
  readonly calibrationRuns?: number;
  readonly maxInFlight?: number;
  readonly spare?: boolean;
  /** Shortest time before a silent batch counts as lost; a small one lets a test wait less. */
  readonly minWatchdogMs?: number;
}

/**
 * Runs model components on ONNX Runtime in a thread of its own, with a second one that takes over when the first stops answering. This
 * is the engine's end: it posts, watches the time, and never computes.
 * Blocks lie in shared memory, so a take-over copies nothing: the spare is told which there are.
 */
export class OnnxWorker implements Worker {
  readonly id: string;
  readonly #options: OnnxWorkerOptions;
  readonly #clock: Clock;
  readonly #registry = new BlockRegistry();
  readonly #asleep = new Set<MemoryTag>();
  readonly #inFlight: InFlightBatches;
  #predictions = new Predictions([]);
  #active: ExecutorThread | null = null;
  #spare: SpareExecutor | null = null;
  #state: 'new' | 'loading' | 'ready' | 'unresponsive' | 'closed' = 'new';
  #maxInFlight: number;
  #numThreads = 0;
  /** Taken over, and not proven by an answer yet. */
  #takingOver: { readonly reason: Takeover['reason']; readonly sinceMs: number } | null = null;
  readonly #sparedPatience = new SparedPatience();
  /** The last thread that was silent, and when it was given up. */
  #alarm: { readonly thread: ExecutorThread; readonly atMs: number } | null = null;
  /** Of the first batch that was lost without a take-over. */
  #silentSinceMs = 0;
  #tellTakeover: (takeover: Takeover) => void = () => undefined;
  #prepared: Pick<PreparedWeights, 'discard'> | null = null;
  #closing: Promise<void> | null = null;

  constructor(options: OnnxWorkerOptions) {
    this.id = options.id;
    this.#options = options;
    this.#clock = options.clock ?? monotonicClock;
    this.#inFlight = new InFlightBatches({ clock: this.#clock, silent: (late) => this.#silent(late), lost: (batchId) => this.#registry.lose(batchId) });
    this.#maxInFlight = options.maxInFlight ?? 1;
  }

  /** Batches that may be handed over at once: one computes, the others wait in the thread's queue. */
  get maxInFlight(): number {
    return this.#maxInFlight;
  }

  /** A second thread is ready to take over. */
  get hasSpare(): boolean {
    return this.#spare?.ready === true;
  }

  async loadModel(modelDir: string): Promise<LoadedModel> {
    if (this.#state !== 'new') throw new Error(`worker ${this.id} has loaded a model already (state ${this.#state})`);
    this.#state = 'loading';
    const spec = loadModelSpec(modelDir);
    const options = executorOptions(spec, this.#options);
    this.#maxInFlight = this.#options.maxInFlight ?? spec.deployment.executor.maxInFlight;
    const load = loadMessage(spec);
    this.#active = this.#openThread({ ...options, spare: false });
    const answer = await this.#active.load(load);
    if (this.#isClosed()) throw new Error(`worker ${this.id} was closed while it loaded`);
    if (answer.type === 'load.failed') {
      await this.close();
      throw loadFault(spec, answer.componentId, answer.message);
    }
    this.#predictions = new Predictions(answer.cost);
    this.#state = 'ready';
    // Only now: measuring beside another thread that compiles would give other costs, and somebody waits for this worker.
    if (options.spare) this.#startSpare(load, options);
    return loadedModel(spec, options, answer);
  }

  /** Compiled in a thread beside the one that works; its spare follows once it has taken the place of that one. */
  async prepare(spec: ModelSpec): Promise<PreparedWeights> {
    this.#running();
    const options = executorOptions(spec, this.#options);
    const load = loadMessage(spec);
    const thread = this.#openThread({ ...options, spare: true });
    let waits = true;
    const discard = async (): Promise<void> => {
      if (!waits) return;
      waits = false;
      await thread.stop();
    };
    // Closed while it loads, the worker waits for it: a thread must have ended before the process does.
    this.#prepared = { discard };
    const answer = await thread.load(load);
    if (answer.type === 'load.failed') {
      await discard();
      throw loadFault(spec, answer.componentId, answer.message);
    }
    const ready = (): boolean => waits && thread.alive && this.#state === 'ready' && this.#inFlight.size === 0;
    const take = (): void => {
      if (!ready()) throw new Error(`worker ${this.id} can't take ${spec.checkpoint.weightsVersion} now`);
      waits = false;
      this.#replace(thread);
      if (options.spare) this.#startSpare(load, options);
    };
    return { weightsVersion: spec.checkpoint.weightsVersion, ready, take, discard };
  }

  onTakeover(listener: (takeover: Takeover) => void): void {
    this.#tellTakeover = listener;
  }

  attach(sessionId: string, { video, audio }: { readonly video: SharedPoolDescriptor; readonly audio: SharedPoolDescriptor }): void {
    const session = { sessionId, video, audio };
    this.#registry.attach(session);
    this.#active?.post({ type: 'attach', ...session });
  }

  /** What the session's units in flight still write is freed after they end; published blocks stay until they are released. */
  detach(sessionId: string): void {
    this.cancel(this.#inFlight.batches.flatMap(({ units }) => units.filter((unit) => unit.sessionId === sessionId).map(({ unitId }) => unitId)));
    this.#registry.free({ type: 'detach', sessionId });
    this.#active?.post({ type: 'detach', sessionId });
  }

  executeWork(batch: WorkUnitBatch): Promise<readonly StepResult[]> {
    const thread = this.#active;
    if (this.#state !== 'ready' || thread === null) return Promise.resolve(lostResults(batch, `worker ${this.id} is ${this.#state}`));
    if (this.#inFlight.size >= this.#maxInFlight) throw new Error(`worker ${this.id} takes ${this.#maxInFlight} batches at once`);
    if (batch.units.length < 1 || batch.units.length > MAX_UNITS_PER_BATCH) throw new TypeError(`a batch has 1 to ${MAX_UNITS_PER_BATCH} units, got ${batch.units.length}`);
    if (!thread.execute(batch)) return Promise.resolve(lostResults(batch, `worker ${this.id} has too many lost batches`));
    this.#registry.begin(batch.batchId);
    const patienceMs = batchPatienceMs(this.#predictions, [...this.#inFlight.batches, batch], { sparedMs: this.hasSpare ? this.#sparedPatience.ms(this.#clock.now()) : null, minMs: this.#options.minWatchdogMs });
    return this.#inFlight.begin(batch, thread, patienceMs);
  }

  /** Cancels units that have not run yet; one that runs is not published. Unknown or finished ids are ignored. */
  cancel(unitIds: readonly number[]): void {
    if (unitIds.length > 0) this.#inFlight.cancel(unitIds);
  }

  release(blocks: readonly BlockId[]): void {
    if (blocks.length === 0) return;
    this.#registry.free({ type: 'release', blocks });
    this.#active?.post({ type: 'release', blocks });
  }

  async read(blocks: readonly BlockId[]): Promise<readonly Float32Array[]> {
    const answer = await this.#running().ask((request) => ({ type: 'read', request, blocks }), QUESTION_PATIENCE_MS);
    return answer.map((block, index) => {
      if (block === null) throw new RangeError(`worker ${this.id} holds no block ${blocks[index]}`);
      return block;
    });
  }

  view(block: BlockId): SharedBlock | undefined {
    return this.#registry.get(block);
  }

  put(blocks: readonly SharedBlock[]): void {
    this.#registry.put(blocks);
    this.#active?.post({ type: 'adopt', sessions: [], blocks });
  }

  async sleep(tags: readonly MemoryTag[]): Promise<void> {
    for (const tag of tags) this.#asleep.add(tag);
    this.#registry.free({ type: 'sleep', tags });
    this.#spare?.ask((request) => ({ type: 'sleep', request, tags }));
    await this.#running().ask((request) => ({ type: 'sleep', request, tags }), QUESTION_PATIENCE_MS);
  }

  async wake(tags: readonly MemoryTag[]): Promise<void> {
    for (const tag of tags) this.#asleep.delete(tag);
    this.#spare?.ask((request) => ({ type: 'wake', request, tags }));
    await this.#running().ask((request) => ({ type: 'wake', request, tags }), QUESTION_PATIENCE_MS);
  }

  health(): WorkerHealth {
    const state = this.#state === 'new' ? 'loading' : this.#state;
    const { count = 0, bytes = 0 } = this.#active?.held ?? {};
    return { state, lastSeenMs: this.#active?.lastSeenMs ?? this.#clock.now(), inFlight: this.#inFlight.size, blocks: count, blockBytes: bytes };
  }

  /** Test mode: strikes the next unit of a session, or of any, in the thread that works now. @throws {Error} outside test mode. */
  injectFault({ sessionId, fault, hangMs = 5000 }: Omit<ArmedFault, 'hangMs'> & { readonly hangMs?: number }): void {
    if (this.#options.testMode !== true) throw new Error(`worker ${this.id} is not in test mode`);
    this.#active?.post({ type: 'fault', fault: { sessionId, fault, hangMs } });
  }

  close(): Promise<void> {
    this.#closing ??= this.#stop();
    return this.#closing;
  }

  async #stop(): Promise<void> {
    this.#state = 'closed';
    await Promise.all([this.#active?.stop(), this.#spare?.stop(), this.#prepared?.discard()]);
    this.#inFlight.lose(null, `worker ${this.id} is closed`);
    this.#registry.clear();
  }

  #isClosed(): boolean {
    return this.#state === 'closed';
  }

  #running(): ExecutorThread {
    if (this.#state === 'closed' || this.#active === null) throw new Error(`worker ${this.id} is ${this.#state}`);
    return this.#active;
  }

  /** Another thread goes on with all sessions and blocks; the one before, and its spare, end. */
  #replace(next: ExecutorThread): void {
    const ending = [this.#active, this.#spare];
    this.#spare = null;
    this.#active = next;
    next.post(this.#registry.adoption());
    if (this.#asleep.size > 0) next.ask((request) => ({ type: 'sleep', request, tags: [...this.#asleep] }), null).catch((error: unknown) => this.#options.logger?.warn({ err: error }, 'the new weights did not go to sleep'));
    for (const one of ending) void one?.stop();
  }

  #startSpare(load: LoadMessage, options: ExecutorOptions): void {
    this.#spare = new SpareExecutor({
      clock: this.#clock,
      logger: this.#options.logger,
      load,
      open: () => this.#openThread(options),
      ready: () => this.#spareReady(),
      gone: () => this.#spareGone(),
    });
    this.#spare.start();
  }

  #openThread(executor: ExecutorOptions): ExecutorThread {
    return new ExecutorThread({
      name: `${this.id}/${this.#numThreads++}`,
      clock: this.#clock,
      logger: this.#options.logger,
      executor,
      results: (thread, message) => this.#settle(thread, message),
      died: (thread, reason) => this.#died(thread, reason),
    });
  }

  #settle(thread: ExecutorThread, { batchId, results, published }: ResultsMessage): void {
    const answered = this.#inFlight.take(batchId, thread);
    if (answered === null) {
      // Too late: its units have failed already. Their blocks were cancelled before they could be written.
      this.#options.logger?.warn({ executor: thread.name, batchId }, 'dropped the late results of a lost batch');
      this.#answeredLate(thread);
      if (this.#state === 'unresponsive' && thread === this.#active && thread.idle) this.#state = 'ready';
      return;
    }
    const kept = this.#registry.settle(batchId, published);
    // It was publishing when the other thread took over.
    if (thread !== this.#active) this.#active?.post({ type: 'adopt', sessions: [], blocks: kept });
    else if (this.#takingOver !== null) this.#proven(this.#takingOver);
    this.#predictions.observe(answered.batch, results);
    answered.resolve(results);
  }

  // ---------------------------------------------------------------- silence

  /** No answer in time: everything that the thread has is given up, because it waits behind the batch that hangs. */
  #silent({ thread, batch, dispatchedAtMs }: InFlightBatch): void {
    // With a spare nobody notices more than a stutter.
    this.#options.logger?.[this.hasSpare ? 'warn' : 'error']({ executor: thread.name, batchId: batch.batchId, component: batch.component, ms: Math.round(this.#clock.now() - dispatchedAtMs) }, 'executor does not answer');
    this.#alarm = { thread, atMs: this.#clock.now() };
    this.#inFlight.lose(thread, `worker ${this.id} did not answer in time`);
    if (thread === this.#active && !this.#takeOver('silent', dispatchedAtMs)) this.#wait('unresponsive', dispatchedAtMs);
  }

  /** It was slow, not hung, where twice the time would have been enough. */
  #answeredLate(thread: ExecutorThread): void {
    const nowMs = this.#clock.now();
    if (this.#alarm?.thread !== thread || nowMs - this.#alarm.atMs > this.#sparedPatience.ms(nowMs)) return;
    this.#sparedPatience.falseAlarm(nowMs);
    this.#options.logger?.info({ executor: thread.name, patienceMs: this.#sparedPatience.ms(nowMs) }, 'executor was slow; it is given more time from now on');
    this.#alarm = null;
  }

  #died(thread: ExecutorThread, { message }: Error): void {
    if (this.#state === 'closed') return;
    const sinceMs = this.#inFlight.sinceMs(thread) ?? this.#clock.now();
    this.#inFlight.lose(thread, `worker ${this.id} died: ${message}`);
    if (thread !== this.#active) this.#spare?.died(thread);
    else if (!this.#takeOver('died', sinceMs)) this.#wait(this.#spare?.expected === true ? 'unresponsive' : 'closed', sinceMs);
  }

  #wait(state: 'unresponsive' | 'closed', sinceMs: number): void {
    if (this.#state !== 'unresponsive') this.#silentSinceMs = sinceMs;
    this.#state = state;
  }

  /** The spare goes on from here with all sessions and blocks, as the engine knows them. False where none is ready. */
  #takeOver(reason: Takeover['reason'], sinceMs: number): boolean {
    const next = this.#spare?.take() ?? null;
    if (next === null || this.#spare === null) return false;
    const previous = this.#active;
    this.#active = next;
    next.post(this.#registry.adoption());
    if (previous?.alive === true) this.#spare.recover(previous);
    else this.#spare.start();
    this.#takingOver = { reason, sinceMs };
    this.#state = 'ready';
    this.#options.logger?.warn({ executor: next.name, previous: previous?.name, reason, sessions: this.#registry.sessions, blocks: this.#registry.blocks }, 'spare executor took over');
    return true;
  }

  #proven({ reason, sinceMs }: { readonly reason: Takeover['reason']; readonly sinceMs: number }): void {
    this.#takingOver = null;
    this.#tellTakeover({ reason, atMs: sinceMs, tookMs: this.#clock.now() - sinceMs, sessions: this.#registry.sessions, blocks: this.#registry.blocks });
  }

  #spareReady(): void {
    if (this.#asleep.size > 0) this.#spare?.ask((request) => ({ type: 'sleep', request, tags: [...this.#asleep] }));
    if (this.#state === 'unresponsive') this.#takeOver(this.#active?.alive === true ? 'silent' : 'died', this.#silentSinceMs);
  }

  #spareGone(): void {
    if (this.#state === 'unresponsive' && this.#active?.alive !== true) this.#state = 'closed';
  }
}

const QUESTION_PATIENCE_MS = 5000;
