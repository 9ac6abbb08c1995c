import type { WorkUnitBatch } from '../model/work.ts';
import type { CostEntry } from './Worker.ts';

/** Milliseconds that a batch should take, from what was measured at load; the watchdog's yardstick. */
export class Predictions {
  readonly #cost = new Map<string, number>();

  constructor(cost: readonly CostEntry[]) {
    for (const { component, batch, p95Ms } of cost) this.#cost.set(`${component}/${batch}`, p95Ms);
  }

  /** A size that was not measured counts as that many single units; a component that was not measured as 0. */
  of({ component, units }: WorkUnitBatch): number {
    return this.#cost.get(`${component}/${units.length}`) ?? (this.#cost.get(`${component}/1`) ?? 0) * units.length;
  }
}
