import type { SimulatedWorker } from '../../src/engine/runtime/SimulatedWorker.ts';
import type { BlockId, StepResult, WorkUnitBatch } from '../../src/engine/model/work.ts';
import type { LoadedModel, Worker, WorkerHealth } from '../../src/engine/workers/Worker.ts';
import type { Clock } from '../../src/observe/clock.ts';
import type { SharedPoolDescriptor } from '../../src/streams/shared_pool.ts';

/** Tells how long the engine took between a batch's results and the next batch for the same device. */
export class TimedWorker implements Worker {
  readonly #worker: SimulatedWorker;
  readonly #clock: Clock;
  readonly #turnedRound: (microseconds: number, settledUnits: number, dispatchedUnits: number) => void;
  /** When results came, in real and in virtual time. */
  #results: { readonly at: bigint; readonly virtualMs: number; readonly units: number } | null = null;

  constructor(worker: SimulatedWorker, clock: Clock, turnedRound: (microseconds: number, settledUnits: number, dispatchedUnits: number) => void) {
    this.#worker = worker;
    this.#clock = clock;
    this.#turnedRound = turnedRound;
  }

  get id(): string {
    return this.#worker.id;
  }

  async executeWork(batch: WorkUnitBatch): Promise<readonly StepResult[]> {
    const now = process.hrtime.bigint();
    const results = this.#results;
    this.#results = null;
    // Where virtual time went on, there was nothing to dispatch: what came in between is no overhead of the engine.
    if (results !== null && results.virtualMs === this.#clock.now()) this.#turnedRound(Number(now - results.at) / 1000, results.units, batch.units.length);
    const answer = await this.#worker.executeWork(batch);
    this.#results = { at: process.hrtime.bigint(), virtualMs: this.#clock.now(), units: batch.units.length };
    return answer;
  }

  loadModel(): Promise<LoadedModel> {
    return this.#worker.loadModel();
  }

  attach(sessionId: string, _pools: { readonly video: SharedPoolDescriptor; readonly audio: SharedPoolDescriptor }): void {
    this.#worker.attach(sessionId);
  }

  detach(sessionId: string): void {
    this.#worker.detach(sessionId);
  }

  release(blocks: readonly BlockId[]): void {
    this.#worker.release(blocks);
  }

  read(blocks: readonly BlockId[]): Promise<readonly Float32Array[]> {
    return this.#worker.read(blocks);
  }

  sleep(): Promise<void> {
    return this.#worker.sleep([]);
  }

  wake(): Promise<void> {
    return this.#worker.wake([]);
  }

  health(): WorkerHealth {
    return this.#worker.health();
  }

  close(): Promise<void> {
    return this.#worker.close();
  }
}
