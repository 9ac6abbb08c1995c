import type { WorkUnitBatch } from '../model/work.ts';
import type { CostEntry } from './Worker.ts';

/** Milliseconds that a batch should take, from what was measured at load; the watchdog's yardstick. */
export class Predictions {
  readonly #cost = new Map<string, CostEntry>();

  constructor(cost: readonly CostEntry[]) {
    for (const entry of cost) this.#cost.set(`${entry.component}/${entry.batch}`, entry);
  }

  /**
   * `p50Ms`: undisturbed; `p95Ms`: on a machine as busy as it was at load. A size that was not measured counts as that many single
   * units; a component that was not measured as 0.
   */
  of({ component, units }: WorkUnitBatch, quantile: 'p50Ms' | 'p95Ms'): number {
    const measured = this.#cost.get(`${component}/${units.length}`);
    return measured?.[quantile] ?? (this.#cost.get(`${component}/1`)?.[quantile] ?? 0) * units.length;
  }
}
