import type { WorkUnitBatch } from '../model/work.ts';
import type { Predictions } from './Predictions.ts';

/** A cancelled task has 2 s to answer (docs/structures.md); a unit is 5–40 ms, so this is 50 to 400 times what one takes. */
const MIN_MS = 2000;
const FACTOR = 20;
/**
 * With a spare a false alarm costs one retried unit, and the retry is given the long patience, because the first thread is not back yet. A late
 * alarm costs every session a stutter: look-ahead hides 120 ms and more of it, and nobody is to miss more than a chunk of 167 ms.
 */
const MIN_SPARED_MS = 180;
/** Of what units take on a machine as busy as it is: where all of them are slow, one that is slow says little. */
const SPARED_FACTOR = 8;

/** The longest that false alarms lead to: a slow machine must still notice a hang. */
const MAX_SPARED_MS = 720;
/** A false alarm is remembered so long. */
const MEMORY_MS = 60_000;

/** How long an executor with a spare may be silent at least. An executor that answers after all was slow: the machine is busy, and more patience is due. */
export class SparedPatience {
  #ms = MIN_SPARED_MS;
  #untilMs = -Infinity;

  ms(nowMs: number): number {
    if (nowMs >= this.#untilMs) this.#ms = MIN_SPARED_MS;
    return this.#ms;
  }

  falseAlarm(nowMs: number): void {
    this.#ms = Math.min(MAX_SPARED_MS, this.ms(nowMs) * 2);
    this.#untilMs = nowMs + MEMORY_MS;
  }
}

export interface PatienceOptions {
  /** Least that is waited where a spare is ready to take over; null where none is. */
  readonly sparedMs: number | null;
  /** Overrides the least that is waited. */
  readonly minMs: number | undefined;
}

/** How long the last of these batches may take to be answered before the executor counts as silent, milliseconds. They run one after another. */
export function batchPatienceMs(predictions: Predictions, batches: readonly WorkUnitBatch[], { sparedMs, minMs = MIN_MS }: PatienceOptions): number {
  const sum = (predicted: (batch: WorkUnitBatch) => number): number => batches.reduce((total, batch) => total + predicted(batch), 0);
  if (sparedMs !== null) return Math.max(Math.min(minMs, sparedMs), SPARED_FACTOR * sum((batch) => predictions.running(batch)));
  return Math.max(minMs, FACTOR * sum((batch) => predictions.measured(batch)));
}
