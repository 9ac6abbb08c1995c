import type { Conditioning } from '../model/loop_kernel.ts';
import type { CacheKey } from '../cache/CacheKey.ts';
import type { PlannedUnit, WorkPlan } from '../model/work.ts';
import type { ActionState } from '../../streams/session_words.ts';
import type { LoopTurn } from './LoopTurn.ts';

/** A turn whose step has been planned: what it needs is known, nothing is reserved yet. */
export interface PlannedTurn {
  readonly turn: LoopTurn;
  readonly plan: WorkPlan;
  readonly conditioning: Conditioning;
  /** Where a cached result of this step would be; null where the step isn't cacheable. */
  readonly cacheKey: CacheKey | null;
}

/**
 * The smallest schedulable action: a planned turn with everything it needs reserved (blocks, slots), a deadline and a place.
 * From here to its StepResult nothing about it changes.
 */
export interface WorkUnit extends PlannedTurn {
  readonly planned: PlannedUnit;
  readonly programId: string;
  /** Input as it was held when the step was planned. */
  readonly action: ActionState;
  readonly workerId: string;
  /** Monotonic ms by which the step should be finished. */
  readonly deadlineMs: number;
  readonly predictedMs: number;
  readonly dispatchedAtMs: number;
}
