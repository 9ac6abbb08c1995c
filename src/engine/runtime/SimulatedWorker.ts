import type { Clock } from '../../observe/clock.ts';
import type { DeviceModel } from '../model/loop_kernel.ts';
import { blocksRead, type BlockId, type MemoryTag, type PlannedUnit, type StepResult, type WorkUnitBatch } from '../model/work.ts';
import type { SharedBlock } from '../workers/BlockStore.ts';
import type { LoadedModel, Worker, WorkerHealth } from '../workers/Worker.ts';

const ONE_NUMBER = new SharedArrayBuffer(4);

/** How one batch goes, decided when it is handed over. */
export interface SimulatedOutcome {
  /** Device milliseconds; they pass on the simulation's clock. */
  readonly deviceMs: number;
  /**
   * `duplicate`: every result twice, and one of a unit that nobody asked for. `missing`: the last result is left out.
   * `lost`: the executor doesn't answer any more, and is back `recoveryMs` later. `taken_over`: it doesn't either, and a spare goes on at once. `silent`: the answer comes `recoveryMs` late.
   */
  readonly answer: 'ok' | 'kernel_exception' | 'runtime_error' | 'duplicate' | 'missing' | 'lost' | 'taken_over' | 'silent';
  readonly recoveryMs?: number;
}

export interface SimulatedWorkerOptions {
  readonly id: string;
  readonly clock: Clock;
  readonly loaded: LoadedModel;
  /** `runStep` of the loops' kernels, by kind: the code that executors run. */
  readonly kernels: Readonly<Record<string, { runStep(batch: WorkUnitBatch, device: DeviceModel): Promise<StepResult[]> } | undefined>>;
  readonly outcome: (batch: WorkUnitBatch) => SimulatedOutcome;
  /** What the graph would put into the outputs declared `value`. */
  readonly values?: (unit: PlannedUnit) => Readonly<Record<string, Float32Array>>;
}

/**
 * A worker whose device is a clock: units take the time they are told to take, and blocks are ids without bytes. For planning capacity and for
 * tests of everything above the worker API. It runs the kernels' own `runStep`, and keeps account of what it was asked to read and free.
 */
export class SimulatedWorker implements Worker {
  readonly id: string;
  /** Programming errors of the engine: a block read before it was written or after it was freed, two batches at once. */
  readonly violations: string[] = [];
  readonly #options: SimulatedWorkerOptions;
  readonly #blocks = new Set<BlockId>();
  readonly #attached = new Set<string>();
  #state: WorkerHealth['state'] = 'ready';
  #running = false;
  #unitsRun = 0;

  constructor(options: SimulatedWorkerOptions) {
    this.id = options.id;
    this.#options = options;
  }

  /** Blocks that live with it. */
  get blocks(): number {
    return this.#blocks.size;
  }

  get unitsRun(): number {
    return this.#unitsRun;
  }

  get attached(): number {
    return this.#attached.size;
  }

  loadModel(): Promise<LoadedModel> {
    return Promise.resolve(this.#options.loaded);
  }

  attach(sessionId: string): void {
    this.#attached.add(sessionId);
  }

  detach(sessionId: string): void {
    this.#attached.delete(sessionId);
  }

  executeWork(batch: WorkUnitBatch): Promise<readonly StepResult[]> {
    if (this.#running) this.violations.push(`batch ${batch.batchId} while another runs`);
    if (this.#state !== 'ready') return Promise.resolve(failures(batch, 'executor_lost', `worker ${this.id} is ${this.#state}`));
    this.#checkInputs(batch);
    this.#running = true;
    const { clock, outcome } = this.#options;
    const { deviceMs, answer, recoveryMs = 0 } = outcome(batch);
    return new Promise((resolve) => {
      const end = (results: readonly StepResult[]): void => {
        this.#running = false;
        resolve(results);
      };
      clock.schedule(clock.now() + deviceMs + (answer === 'silent' ? recoveryMs : 0), () => {
        if (answer === 'lost' || answer === 'taken_over') {
          if (answer === 'lost') this.#lose(recoveryMs);
          end(failures(batch, 'executor_lost', 'the executor does not answer'));
        } else if (answer === 'kernel_exception' || answer === 'runtime_error') end(failures(batch, answer, 'scripted failure'));
        else void this.#run(batch, deviceMs).then((results) => end(disturbed(results, answer)));
      });
    });
  }

  release(blocks: readonly BlockId[]): void {
    for (const block of blocks) this.#blocks.delete(block);
  }

  read(blocks: readonly BlockId[]): Promise<readonly Float32Array[]> {
    const missing = blocks.find((block) => !this.#blocks.has(block));
    return missing === undefined ? Promise.resolve(blocks.map(() => new Float32Array())) : Promise.reject(new RangeError(`worker ${this.id} holds no block ${missing}`));
  }

  /** Blocks have no bytes: one number stands for all. */
  view(block: BlockId): SharedBlock | undefined {
    return this.#blocks.has(block) ? { id: block, sessionId: '', memory: 'activations', published: false, dtype: 'float32', dims: [1, 1], buffer: ONE_NUMBER } : undefined;
  }

  put(blocks: readonly SharedBlock[]): void {
    for (const { id } of blocks) this.#blocks.add(id);
  }

  sleep(_tags: readonly MemoryTag[]): Promise<void> {
    return Promise.resolve();
  }

  wake(_tags: readonly MemoryTag[]): Promise<void> {
    return Promise.resolve();
  }

  health(): WorkerHealth {
    return { state: this.#state, lastSeenMs: this.#options.clock.now(), inFlight: this.#running ? 1 : 0 };
  }

  close(): Promise<void> {
    this.#state = 'closed';
    return Promise.resolve();
  }

  async #run(batch: WorkUnitBatch, deviceMs: number): Promise<StepResult[]> {
    const kernel = this.#options.kernels[batch.kernel];
    if (kernel === undefined) return failures(batch, 'runtime_error', `no kernel ${batch.kernel}`);
    const values = batch.units.map((unit) => this.#options.values?.(unit) ?? {});
    const results = await kernel.runStep(batch, { modelId: batch.modelId, run: () => Promise.resolve({ values, deviceMs }) });
    for (const { outputs } of batch.units) for (const output of Object.values(outputs)) if (output.kind === 'block') this.#blocks.add(output.block);
    this.#unitsRun += batch.units.length;
    return results;
  }

  #checkInputs({ units }: WorkUnitBatch): void {
    for (const { unitId, sessionId, plan } of units) {
      if (!this.#attached.has(sessionId)) this.violations.push(`unit ${unitId} of ${sessionId}, which isn't attached`);
      for (const block of blocksRead(plan)) if (!this.#blocks.has(block)) this.violations.push(`unit ${unitId} (${plan.component}) reads block ${block}, which isn't there`);
    }
  }

  #lose(recoveryMs: number): void {
    this.#state = 'unresponsive';
    const { clock } = this.#options;
    clock.schedule(clock.now() + recoveryMs, () => {
      if (this.#state === 'unresponsive') this.#state = 'ready';
    });
  }
}

function failures({ units }: WorkUnitBatch, code: 'kernel_exception' | 'runtime_error' | 'executor_lost', message: string): StepResult[] {
  return units.map(({ unitId, epoch }) => ({ ok: false, unitId, epoch, code, message }));
}

function disturbed(results: readonly StepResult[], answer: SimulatedOutcome['answer']): readonly StepResult[] {
  if (answer === 'missing') return results.slice(0, -1);
  if (answer === 'duplicate') return [...results.map((result) => ({ ...result, unitId: result.unitId + 1_000_000 })), ...results, ...results];
  return results;
}
