import type { StepResult, WorkUnitBatch } from '../model/work.ts';
import type { CostEntry } from './Worker.ts';

/** Milliseconds that a batch should take, from what was measured at load and what batches have taken lately; the watchdog's yardstick. */
export class Predictions {
  readonly #measured = new Map<string, number>();
  readonly #running = new Map<string, number>();

  constructor(cost: readonly CostEntry[]) {
    for (const { component, batch, p50Ms, p95Ms } of cost) {
      this.#measured.set(`${component}/${batch}`, p95Ms);
      this.#running.set(`${component}/${batch}`, p50Ms);
    }
  }

  /** On a machine as busy as it was at load. */
  measured(batch: WorkUnitBatch): number {
    return of(this.#measured, batch);
  }

  /** On a machine as busy as it is. */
  running(batch: WorkUnitBatch): number {
    return of(this.#running, batch);
  }

  /** Feeds back what a batch took. */
  observe(batch: WorkUnitBatch, results: readonly StepResult[]): void {
    const result = results.find(({ ok }) => ok);
    if (result?.ok !== true) return;
    const running = of(this.#running, batch);
    this.#running.set(`${batch.component}/${batch.units.length}`, running + DECAY * (result.deviceMs - running));
  }
}

/** A size that was not measured counts as that many single units; a component that was not measured as 0. */
function of(costs: ReadonlyMap<string, number>, { component, units }: WorkUnitBatch): number {
  return costs.get(`${component}/${units.length}`) ?? (costs.get(`${component}/1`) ?? 0) * units.length;
}

/** Weight of the latest: some ten batches, a second of two sessions, to notice that the machine has become busy. */
const DECAY = 0.1;
