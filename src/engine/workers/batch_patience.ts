import type { WorkUnitBatch } from '../model/work.ts';
import type { Predictions } from './Predictions.ts';

/** A cancelled task has 2 s to answer (docs/structures.md); a unit is 5–40 ms, so this is 50 to 400 times what one takes. */
const MIN_MS = 2000;
const FACTOR = 20;
/** With a spare a false alarm costs one retried unit, and a late one costs every session a stutter: two to three frames. */
const MIN_SPARED_MS = 250;
const SPARED_FACTOR = 10;

export interface PatienceOptions {
  /** A spare is ready to take over. */
  readonly spared: boolean;
  /** Overrides the least that is waited. */
  readonly minMs: number | undefined;
}

/** How long the last of these batches may take to be answered before the executor counts as silent, milliseconds. They run one after another. */
export function batchPatienceMs(predictions: Predictions, batches: readonly WorkUnitBatch[], { spared, minMs = MIN_MS }: PatienceOptions): number {
  const predicted = (quantile: 'p50Ms' | 'p95Ms'): number => batches.reduce((sum, batch) => sum + predictions.of(batch, quantile), 0);
  return spared ? Math.max(Math.min(minMs, MIN_SPARED_MS), SPARED_FACTOR * predicted('p50Ms')) : Math.max(minMs, FACTOR * predicted('p95Ms'));
}
