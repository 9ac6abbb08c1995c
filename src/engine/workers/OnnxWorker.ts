import { Worker as Thread } from 'node:worker_threads';
import { monotonicClock, type Clock, type Timer } from '../../observe/clock.ts';
import type { Logger } from '../../observe/log.ts';
import type { SharedPoolDescriptor } from '../../streams/shared_pool.ts';
import { graphPath, loadModelSpec } from '../model/spec/load_model_spec.ts';
import type { ModelSpec } from '../model/spec/model_spec.ts';
import { SpecError } from '../model/spec/spec_error.ts';
import type { BlockId, MemoryTag, StepResult, WorkUnitBatch } from '../model/work.ts';
import { CancelWords, MAX_UNITS_PER_BATCH, NUM_CANCEL_WORDS } from './CancelWords.ts';
import type { ArmedFault, ExecutorOptions, ExecutorStart, FromExecutor, HeldBlocks, ToExecutor } from './executor_messages.ts';
import { machineFingerprint } from './machine_fingerprint.ts';
import { Predictions } from './Predictions.ts';
import type { LoadedModel, Worker, WorkerHealth } from './Worker.ts';

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
  /** Shortest time before a silent batch counts as lost; a small one lets a test wait less. */
  readonly minWatchdogMs?: number;
}

interface InFlight {
  readonly batch: WorkUnitBatch;
  readonly cancelWord: number;
  readonly predictedMs: number;
  readonly resolve: (results: readonly StepResult[]) => void;
  watchdog: Timer;
}

type State = 'new' | 'loading' | 'ready' | 'unresponsive' | 'closed';

/** Runs model components on ONNX Runtime in a thread of its own. This is the engine's end: it posts, watches the time, and never computes. */
export class OnnxWorker implements Worker {
  readonly id: string;
  readonly #options: OnnxWorkerOptions;
  readonly #clock: Clock;
  readonly #cancel = new CancelWords();
  readonly #freeWords = Array.from({ length: NUM_CANCEL_WORDS }, (_, word) => word);
  /** Batches that have an answer to come and somebody waiting for it. */
  readonly #inFlight = new Map<number, InFlight>();
  /** Batches given up as lost: batch → its cancel word, which nobody may reuse before the thread is done with it. */
  readonly #lost = new Map<number, number>();
  readonly #questions = new Map<number, { readonly resolve: (blocks: readonly (Float32Array | null)[]) => void; readonly reject: (error: Error) => void }>();
  #predictions = new Predictions([]);
  #thread: Thread | null = null;
  #state: State = 'new';
  #lastSeenMs: number;
  #held: HeldBlocks = { count: 0, bytes: 0 };
  #nextQuestion = 1;
  #maxInFlight: number;
  #onLoaded: ((message: Extract<FromExecutor, { type: 'loaded' | 'load.failed' }> | Error) => void) | null = null;
  #closing: Promise<void> | null = null;

  constructor(options: OnnxWorkerOptions) {
    this.id = options.id;
    this.#options = options;
    this.#clock = options.clock ?? monotonicClock;
    this.#lastSeenMs = this.#clock.now();
    this.#maxInFlight = options.maxInFlight ?? 1;
  }

  /** Batches that may be handed over at once: one computes, the others wait in the thread's queue. */
  get maxInFlight(): number {
    return this.#maxInFlight;
  }

  async loadModel(modelDir: string): Promise<LoadedModel> {
    if (this.#state !== 'new') throw new Error(`worker ${this.id} has loaded a model already (state ${this.#state})`);
    this.#state = 'loading';
    const spec = loadModelSpec(modelDir);
    const options = this.#executorOptions(spec);
    this.#maxInFlight = this.#options.maxInFlight ?? spec.deployment.executor.maxInFlight;
    this.#startThread({ cancelWords: this.#cancel.buffer, options });
    const { components, loops, format } = spec;
    const files = Object.keys(components).map((componentId) => ({ componentId, path: graphPath(spec, componentId) }));
    const answer = await new Promise<Extract<FromExecutor, { type: 'loaded' | 'load.failed' }> | Error>((resolve) => {
      this.#onLoaded = resolve;
      this.#post({ type: 'load', modelId: spec.modelId, source: { components, loops, format }, files });
    });
    if (answer instanceof Error) throw answer;
    if (this.#isClosed()) throw new Error(`worker ${this.id} was closed while it loaded`);
    if (answer.type === 'load.failed') {
      await this.close();
      throw loadFault(spec, answer.componentId, answer.message);
    }
    this.#predictions = new Predictions(answer.cost);
    this.#state = 'ready';
    const { provider, intraOpThreads, batchInvariant } = options;
    return {
      modelId: spec.modelId,
      weightsVersion: spec.checkpoint.weightsVersion,
      fingerprint: machineFingerprint({ runtime: answer.runtime, provider, intraOpThreads, batchInvariant }),
      cost: answer.cost,
    };
  }

  attach(sessionId: string, { video, audio }: { readonly video: SharedPoolDescriptor; readonly audio: SharedPoolDescriptor }): void {
    this.#post({ type: 'attach', sessionId, video, audio });
  }

  /** What the session's units in flight still write is freed after they end; published blocks stay until they are released. */
  detach(sessionId: string): void {
    for (const { batch } of this.#inFlight.values()) this.cancel(batch.units.filter((unit) => unit.sessionId === sessionId).map((unit) => unit.unitId));
    this.#post({ type: 'detach', sessionId });
  }

  executeWork(batch: WorkUnitBatch): Promise<readonly StepResult[]> {
    if (this.#state !== 'ready') return Promise.resolve(lostResults(batch, `worker ${this.id} is ${this.#state}`));
    if (this.#inFlight.size >= this.#maxInFlight) throw new Error(`worker ${this.id} takes ${this.#maxInFlight} batches at once`);
    if (batch.units.length < 1 || batch.units.length > MAX_UNITS_PER_BATCH) throw new TypeError(`a batch has 1 to ${MAX_UNITS_PER_BATCH} units, got ${batch.units.length}`);
    const cancelWord = this.#freeWords.pop();
    if (cancelWord === undefined) return Promise.resolve(lostResults(batch, `worker ${this.id} has too many lost batches`));
    this.#cancel.reset(cancelWord);
    const predictedMs = this.#predictions.of(batch);
    return new Promise((resolve) => {
      const watchdog = this.#watch(batch.batchId, this.#watchdogMs(predictedMs));
      this.#inFlight.set(batch.batchId, { batch, cancelWord, predictedMs, resolve, watchdog });
      this.#post({ type: 'execute', batch, cancelWord });
    });
  }

  /** Cancels units that have not run yet; one that runs is not published. Unknown or finished ids are ignored. */
  cancel(unitIds: readonly number[]): void {
    if (unitIds.length === 0) return;
    for (const { batch, cancelWord } of this.#inFlight.values()) {
      const indices = batch.units.flatMap((unit, index) => (unitIds.includes(unit.unitId) ? [index] : []));
      if (indices.length > 0) this.#cancel.cancel(cancelWord, indices);
    }
  }

  release(blocks: readonly BlockId[]): void {
    if (blocks.length > 0) this.#post({ type: 'release', blocks });
  }

  async read(blocks: readonly BlockId[]): Promise<readonly Float32Array[]> {
    const answer = await this.#ask((request) => ({ type: 'read', request, blocks }));
    return answer.map((block, index) => {
      if (block === null) throw new RangeError(`worker ${this.id} holds no block ${blocks[index]}`);
      return block;
    });
  }

  async sleep(tags: readonly MemoryTag[]): Promise<void> {
    await this.#ask((request) => ({ type: 'sleep', request, tags }));
  }

  async wake(tags: readonly MemoryTag[]): Promise<void> {
    await this.#ask((request) => ({ type: 'wake', request, tags }));
  }

  health(): WorkerHealth {
    const state = this.#state === 'new' ? 'loading' : this.#state;
    return { state, lastSeenMs: this.#lastSeenMs, inFlight: this.#inFlight.size, blocks: this.#held.count, blockBytes: this.#held.bytes };
  }

  /** Test mode: strikes the next unit of a session, or of any. @throws {Error} outside test mode. */
  injectFault({ sessionId, fault, hangMs = 5000 }: Omit<ArmedFault, 'hangMs'> & { readonly hangMs?: number }): void {
    if (this.#options.testMode !== true) throw new Error(`worker ${this.id} is not in test mode`);
    this.#post({ type: 'fault', fault: { sessionId, fault, hangMs } });
  }

  close(): Promise<void> {
    this.#closing ??= this.#stop();
    return this.#closing;
  }

  async #stop(): Promise<void> {
    const thread = this.#thread;
    const wasRunning = this.#state !== 'closed';
    this.#state = 'closed';
    if (thread === null || !wasRunning) return;
    await new Promise<void>((resolve) => {
      // A thread in the middle of a run can't be terminated without aborting the process: after this long it is left to end by itself.
      const patience = this.#clock.schedule(this.#clock.now() + STOP_PATIENCE_MS, () => {
        this.#options.logger?.error({ workerId: this.id }, 'executor thread does not stop; left behind');
        thread.unref();
        resolve();
      });
      thread.once('exit', () => {
        patience.cancel();
        resolve();
      });
      thread.postMessage({ type: 'stop' } satisfies ToExecutor);
    });
    this.#abandon(`worker ${this.id} is closed`);
  }

  #isClosed(): boolean {
    return this.#state === 'closed';
  }

  #executorOptions({ deployment }: ModelSpec): ExecutorOptions {
    const { provider, intraOpThreads, calibrationRuns } = deployment.executor;
    return {
      provider,
      intraOpThreads,
      batchInvariant: this.#options.batchInvariant ?? deployment.batchInvariant,
      calibrationRuns: this.#options.calibrationRuns ?? calibrationRuns,
      testMode: this.#options.testMode ?? false,
    };
  }

  #startThread(start: ExecutorStart): void {
    const thread = new Thread(new URL('./executor_thread.ts', import.meta.url), { workerData: start, name: `executor ${this.id}` });
    thread.on('message', (message: FromExecutor) => this.#receive(message));
    thread.on('error', (error) => this.#died(error));
    thread.on('exit', (code) => this.#died(new Error(`executor thread ended with code ${code}`)));
    this.#thread = thread;
  }

  #post(message: ToExecutor): void {
    if (this.#state !== 'closed') this.#thread?.postMessage(message);
  }

  #ask(question: (request: number) => ToExecutor): Promise<readonly (Float32Array | null)[]> {
    if (this.#state === 'closed' || this.#thread === null) return Promise.reject(new Error(`worker ${this.id} is ${this.#state}`));
    const request = this.#nextQuestion++;
    return new Promise((resolve, reject) => {
      const watchdog = this.#clock.schedule(this.#clock.now() + QUESTION_PATIENCE_MS, () => {
        this.#questions.delete(request);
        reject(new Error(`worker ${this.id} did not answer within ${QUESTION_PATIENCE_MS} ms`));
      });
      this.#questions.set(request, {
        resolve: (blocks) => {
          watchdog.cancel();
          resolve(blocks);
        },
        reject: (error) => {
          watchdog.cancel();
          reject(error);
        },
      });
      this.#post(question(request));
    });
  }

  #receive(message: FromExecutor): void {
    this.#lastSeenMs = this.#clock.now();
    if ('held' in message) this.#held = message.held;
    switch (message.type) {
      case 'loaded':
      case 'load.failed':
        this.#onLoaded?.(message);
        return;
      case 'results':
        this.#settle(message.batchId, message.results);
        return;
      case 'answer':
        this.#questions.get(message.request)?.resolve(message.blocks);
        this.#questions.delete(message.request);
        return;
      case 'answer.failed':
        this.#questions.get(message.request)?.reject(new Error(message.message));
        this.#questions.delete(message.request);
        return;
      case 'stopped':
        return;
    }
  }

  #settle(batchId: number, results: readonly StepResult[]): void {
    const lostWord = this.#lost.get(batchId);
    if (lostWord !== undefined) {
      // Too late: its units have failed already. Their blocks were cancelled before they could be written.
      this.#lost.delete(batchId);
      this.#freeWords.push(lostWord);
      this.#options.logger?.warn({ workerId: this.id, batchId }, 'dropped the late results of a lost batch');
      if (this.#state === 'unresponsive' && this.#lost.size === 0) this.#state = 'ready';
      return;
    }
    const entry = this.#inFlight.get(batchId);
    if (entry === undefined) return;
    this.#inFlight.delete(batchId);
    this.#freeWords.push(entry.cancelWord);
    entry.watchdog.cancel();
    entry.resolve(results);
  }

  #watchdogMs(predictedMs: number): number {
    const ahead = [...this.#inFlight.values()].reduce((sum, entry) => sum + entry.predictedMs, 0);
    return Math.max(this.#options.minWatchdogMs ?? MIN_WATCHDOG_MS, WATCHDOG_FACTOR * (ahead + predictedMs));
  }

  #watch(batchId: number, ms: number): Timer {
    return this.#clock.schedule(this.#clock.now() + ms, () => this.#expired(batchId));
  }

  /** No answer in time: everything in flight is given up, because it waits behind the batch that hangs. */
  #expired(batchId: number): void {
    const late = this.#inFlight.get(batchId);
    if (late === undefined) return;
    if (!this.#giveUp(late)) {
      // It has begun to publish: the answer is microseconds away, and units that publish must not be reported as failed.
      late.watchdog = this.#watch(batchId, PUBLISH_GRACE_MS);
      return;
    }
    this.#options.logger?.error({ workerId: this.id, batchId, component: late.batch.component }, 'executor does not answer');
    this.#state = 'unresponsive';
    this.#lose(late, `worker ${this.id} did not answer in time`);
    for (const entry of [...this.#inFlight.values()]) if (this.#giveUp(entry)) this.#lose(entry, `worker ${this.id} is unresponsive`);
  }

  #giveUp({ batch, cancelWord }: InFlight): boolean {
    return this.#cancel.cancel(cancelWord, batch.units.map((_, index) => index));
  }

  #lose(entry: InFlight, message: string): void {
    this.#inFlight.delete(entry.batch.batchId);
    this.#lost.set(entry.batch.batchId, entry.cancelWord);
    entry.watchdog.cancel();
    entry.resolve(lostResults(entry.batch, message));
  }

  #died(error: unknown): void {
    const reason = error instanceof Error ? error : new Error(String(error));
    if (this.#state !== 'closed') this.#options.logger?.error({ workerId: this.id, err: reason }, 'executor thread died');
    this.#state = 'closed';
    this.#abandon(`worker ${this.id} died: ${reason.message}`);
  }

  /** Nothing will answer any more. */
  #abandon(message: string): void {
    this.#onLoaded?.(new Error(message));
    this.#onLoaded = null;
    for (const entry of [...this.#inFlight.values()]) {
      this.#inFlight.delete(entry.batch.batchId);
      entry.watchdog.cancel();
      entry.resolve(lostResults(entry.batch, message));
    }
    for (const { reject } of this.#questions.values()) reject(new Error(message));
    this.#questions.clear();
  }
}

/** The graph itself contradicts the spec: found only when the runtime opens it. */
function loadFault(spec: ModelSpec, componentId: string | null, message: string): Error {
  if (componentId === null) return new Error(`model ${spec.modelId} failed to load: ${message}`);
  const file = spec.checkpoint.components[spec.components[componentId]!.loadId]!.file;
  return new SpecError({ file, line: null, key: `components.${componentId}`, problem: 'graph cannot be loaded', expected: 'the graph that model.yaml describes', actual: message });
}

function lostResults(batch: WorkUnitBatch, message: string): StepResult[] {
  return batch.units.map(({ unitId, epoch }) => ({ ok: false, unitId, epoch, code: 'executor_lost', message }));
}

/** A cancelled task has 2 s to answer (docs/structures.md); a unit is 5–40 ms, so this is 50 to 400 times what one takes. */
const MIN_WATCHDOG_MS = 2000;
const WATCHDOG_FACTOR = 20;
const PUBLISH_GRACE_MS = 1000;
const STOP_PATIENCE_MS = 5000;
const QUESTION_PATIENCE_MS = 5000;
