import type { Clock, Timer } from '../../observe/clock.ts';
import type { StepResult, WorkUnitBatch } from '../model/work.ts';
import type { ExecutorThread } from './ExecutorThread.ts';

export interface InFlightBatch {
  readonly batch: WorkUnitBatch;
  readonly thread: ExecutorThread;
  readonly dispatchedAtMs: number;
}

interface Entry extends InFlightBatch {
  readonly resolve: (results: readonly StepResult[]) => void;
  watchdog: Timer;
}

export interface InFlightBatchesOptions {
  readonly clock: Clock;
  /** A batch got no answer in time, and none of its units can be published any more. */
  readonly silent: (batch: InFlightBatch) => void;
  /** Nobody waits for this batch any more, and it wrote nothing. */
  readonly lost: (batchId: number) => void;
}

/** Batches that a thread has and that somebody waits for: watched, cancelled, answered or given up. Each ends once. */
export class InFlightBatches {
  readonly #options: InFlightBatchesOptions;
  readonly #entries = new Map<number, Entry>();

  constructor(options: InFlightBatchesOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#entries.size;
  }

  get batches(): readonly WorkUnitBatch[] {
    return [...this.#entries.values()].map(({ batch }) => batch);
  }

  /** The batch was handed to the thread. */
  begin(batch: WorkUnitBatch, thread: ExecutorThread, patienceMs: number): Promise<readonly StepResult[]> {
    return new Promise((resolve) => {
      this.#entries.set(batch.batchId, { batch, thread, dispatchedAtMs: this.#options.clock.now(), resolve, watchdog: this.#watch(batch.batchId, patienceMs) });
    });
  }

  /** When the oldest batch that a thread has was handed to it. */
  sinceMs(thread: ExecutorThread): number | null {
    for (const entry of this.#entries.values()) if (entry.thread === thread) return entry.dispatchedAtMs;
    return null;
  }

  cancel(unitIds: readonly number[]): void {
    for (const { batch, thread } of this.#entries.values()) {
      const indices = batch.units.flatMap((unit, index) => (unitIds.includes(unit.unitId) ? [index] : []));
      if (indices.length > 0) thread.cancel(batch.batchId, indices);
    }
  }

  /** Takes a batch out, to be answered; null where nobody waits for that thread's answer. */
  take(batchId: number, thread: ExecutorThread): { readonly batch: WorkUnitBatch; readonly resolve: (results: readonly StepResult[]) => void } | null {
    const entry = this.#entries.get(batchId);
    if (entry === undefined || entry.thread !== thread) return null;
    this.#entries.delete(batchId);
    entry.watchdog.cancel();
    return entry;
  }

  /** Fails what can still be given up as lost. @param thread null: all batches of all threads, whether they publish or not. */
  lose(thread: ExecutorThread | null, message: string): void {
    for (const entry of [...this.#entries.values()]) {
      if (thread !== null && (entry.thread !== thread || !giveUp(entry))) continue;
      const { batch } = entry;
      this.#entries.delete(batch.batchId);
      entry.watchdog.cancel();
      this.#options.lost(batch.batchId);
      entry.resolve(lostResults(batch, message));
    }
  }

  #watch(batchId: number, ms: number): Timer {
    const { clock } = this.#options;
    const dueMs = clock.now() + ms;
    return clock.schedule(dueMs, () => this.#expired(batchId, ms, clock.now() - dueMs));
  }

  #expired(batchId: number, patienceMs: number, overdueMs: number): void {
    const late = this.#entries.get(batchId);
    if (late === undefined) return;
    // This thread stood still itself, and then perhaps the whole machine did: what was silent meanwhile proves nothing.
    if (overdueMs > STALL_MS) late.watchdog = this.#watch(batchId, patienceMs);
    // It has begun to publish: the answer is microseconds away, and units that publish must not be reported as failed.
    else if (!giveUp(late)) late.watchdog = this.#watch(batchId, PUBLISH_GRACE_MS);
    else this.#options.silent(late);
  }
}

export function lostResults(batch: WorkUnitBatch, message: string): StepResult[] {
  return batch.units.map(({ unitId, epoch }) => ({ ok: false, unitId, epoch, code: 'executor_lost', message }));
}

/** False where a unit of it may have been published. */
function giveUp({ batch, thread }: InFlightBatch): boolean {
  return thread.cancel(batch.batchId, batch.units.map((_, index) => index));
}

/** A timer that is later than this was not held up by ordinary work of the engine's thread, which takes milliseconds. */
const STALL_MS = 100;
const PUBLISH_GRACE_MS = 1000;
