import type { DeviceModel } from '../../src/engine/model/loop_kernel.ts';
import type { Kernels } from '../../src/engine/model/kernels/create_kernels.ts';
import type { ModelSpec } from '../../src/engine/model/spec/model_spec.ts';
import type { BlockId, StepResult, WorkUnitBatch } from '../../src/engine/model/work.ts';
import { CancelWords } from '../../src/engine/workers/CancelWords.ts';
import type { FromExecutor } from '../../src/engine/workers/executor_messages.ts';
import { loadMessage } from '../../src/engine/workers/model_loading.ts';
import { OnnxExecutor } from '../../src/engine/workers/OnnxExecutor.ts';
import type { LoadedModel, Worker, WorkerHealth } from '../../src/engine/workers/Worker.ts';
import type { VirtualClock } from '../../src/observe/virtual_clock.ts';
import type { SharedPoolDescriptor } from '../../src/streams/shared_pool.ts';

export interface ComputedWorkerOptions {
  readonly clock: VirtualClock;
  readonly spec: ModelSpec;
  readonly kernels: Kernels;
  readonly loaded: LoadedModel;
  /** Components whose graphs run; of the others only the time passes. */
  readonly computes: (component: string) => boolean;
  /** Virtual milliseconds of a batch. */
  readonly batchMs: (batch: WorkUnitBatch) => number;
}

/**
 * A worker whose time is a table and whose results are real: the graphs run in this thread, and what they take of its time doesn't count. So a
 * schedule is exact and repeatable on any machine, and what it shows can be judged.
 */
export class ComputedWorker implements Worker {
  readonly id = 'computed';
  /** Looks at a batch that was computed, before virtual time goes on: its inputs are still there. */
  afterEach: (batch: WorkUnitBatch, compute: (batch: WorkUnitBatch) => Promise<readonly StepResult[]>) => Promise<void> = () => Promise.resolve();
  readonly #options: ComputedWorkerOptions;
  readonly #executor: OnnxExecutor;
  readonly #words = new CancelWords();
  #answer: (message: FromExecutor) => void = () => undefined;
  #pending: Promise<unknown> = Promise.resolve();

  private constructor(options: ComputedWorkerOptions) {
    this.#options = options;
    const { provider, intraOpThreads } = options.spec.deployment.executor;
    this.#executor = new OnnxExecutor(
      { cancelWords: this.#words.buffer, options: { provider, intraOpThreads, batchInvariant: options.spec.deployment.batchInvariant, calibrationRuns: 0, spare: false, testMode: false } },
      (message) => this.#answer(message),
    );
  }

  static async open(options: ComputedWorkerOptions): Promise<ComputedWorker> {
    const worker = new ComputedWorker(options);
    const answer = await worker.#ask(() => worker.#executor.receive(loadMessage(options.spec)));
    if (answer.type !== 'loaded') throw new Error(`model not loaded: ${JSON.stringify(answer)}`);
    return worker;
  }

  /** Resolves when everything handed over has been computed: virtual time may go on. */
  async idle(): Promise<void> {
    await this.#pending;
  }

  loadModel(): Promise<LoadedModel> {
    return Promise.resolve(this.#options.loaded);
  }

  attach(sessionId: string, pools: { readonly video: SharedPoolDescriptor; readonly audio: SharedPoolDescriptor }): void {
    void this.#executor.receive({ type: 'attach', sessionId, ...pools });
  }

  detach(sessionId: string): void {
    void this.#executor.receive({ type: 'detach', sessionId });
  }

  async executeWork(batch: WorkUnitBatch): Promise<readonly StepResult[]> {
    const { clock, batchMs } = this.#options;
    const doneMs = clock.now() + batchMs(batch);
    const computing = this.#compute(batch).then(async (results) => {
      await this.afterEach(batch, (aside) => this.#compute(aside));
      return results;
    });
    this.#pending = computing;
    return new Promise((resolve) => clock.schedule(doneMs, () => void computing.then(resolve)));
  }

  release(blocks: readonly BlockId[]): void {
    void this.#executor.receive({ type: 'release', blocks });
  }

  read(): Promise<readonly Float32Array[]> {
    return Promise.reject(new TypeError('nothing of a schedule is read'));
  }

  sleep(): Promise<void> {
    return Promise.resolve();
  }

  wake(): Promise<void> {
    return Promise.resolve();
  }

  health(): WorkerHealth {
    return { state: 'ready', lastSeenMs: this.#options.clock.now(), inFlight: 0 };
  }

  async close(): Promise<void> {
    await this.#executor.receive({ type: 'stop' });
  }

  async #compute(batch: WorkUnitBatch): Promise<readonly StepResult[]> {
    if (this.#options.computes(batch.component)) {
      this.#words.reset(0);
      const answer = await this.#ask(() => this.#executor.receive({ type: 'execute', batch, cancelWord: 0 }));
      if (answer.type !== 'results') throw new Error(`no results: ${JSON.stringify(answer)}`);
      const failed = answer.results.find((result) => !result.ok);
      if (failed !== undefined) throw new Error(`${batch.component}: ${JSON.stringify(failed)}`);
      // What it took of this thread is nobody's business: the cost model would believe it.
      return answer.results.map((result) => (result.ok ? { ...result, deviceMs: this.#options.batchMs(batch) } : result));
    }
    const kernel = Object.values(this.#options.kernels).find(({ kind }) => kind === batch.kernel);
    if (kernel === undefined) throw new TypeError(`no kernel ${batch.kernel}`);
    const empty: DeviceModel = { modelId: batch.modelId, run: () => Promise.resolve({ values: batch.units.map(() => ({})), deviceMs: this.#options.batchMs(batch) }) };
    return kernel.runStep(batch, empty);
  }

  #ask(send: () => Promise<void>): Promise<FromExecutor> {
    return new Promise((resolve, reject) => {
      this.#answer = resolve;
      send().catch(reject);
    });
  }
}
