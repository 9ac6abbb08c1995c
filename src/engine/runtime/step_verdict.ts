import type { StepFailure, StepResult, StepSuccess } from '../model/work.ts';
import type { WorkUnit } from '../scheduler/WorkUnit.ts';

/** What the session looks like when a result comes back. */
export interface CommitContext {
  /** The unit that the session waits for; null where it waits for none. */
  readonly inFlight: WorkUnit | null;
  readonly closed: boolean;
  /** Epoch that the session works under. */
  readonly epoch: number;
  /** Epoch word: raised by whoever fences, before anyone is told. */
  readonly epochWord: number;
  /** The loop still stands where the unit was planned from. */
  readonly current: boolean;
}

export type DiscardReason = 'closed' | 'fenced' | 'moved_on' | 'not_expected';

export type Verdict =
  | { readonly verdict: 'commit'; readonly result: StepSuccess }
  | { readonly verdict: 'fail'; readonly failure: StepFailure }
  /** Outputs are released and nothing else happens. */
  | { readonly verdict: 'discard'; readonly reason: DiscardReason };

/**
 * The commit rule: a result counts only if it is the planned unit's, complete, and the session still wants it. Compared with the epoch
 * word and not with what the engine was told, because the word is raised first. Pure; nothing is changed before it says commit.
 *
 * @param results all that came back for the batch: duplicates and strangers are ignored, a missing result is a failure.
 */
export function stepVerdict(unit: WorkUnit, results: readonly StepResult[], context: CommitContext): Verdict {
  if (context.inFlight !== unit) return { verdict: 'discard', reason: 'not_expected' };
  if (context.closed) return { verdict: 'discard', reason: 'closed' };
  const { planned } = unit;
  if (planned.epoch !== context.epochWord || planned.epoch !== context.epoch) return { verdict: 'discard', reason: 'fenced' };
  const result = results.find(({ unitId }) => unitId === planned.unitId);
  if (result === undefined) return failed(unit, 'runtime_error', 'the worker gave no result for this unit');
  if (!result.ok) return { verdict: 'fail', failure: result };
  if (result.epoch !== planned.epoch) return failed(unit, 'runtime_error', `result of epoch ${result.epoch} for a unit of epoch ${planned.epoch}`);
  const declaresValues = Object.values(planned.outputs).some(({ kind }) => kind === 'value');
  if (declaresValues && Object.keys(result.values).length === 0) return failed(unit, 'runtime_error', 'result has none of its declared values');
  if (!context.current) return { verdict: 'discard', reason: 'moved_on' };
  return { verdict: 'commit', result };
}

function failed({ planned }: WorkUnit, code: StepFailure['code'], message: string): Verdict {
  return { verdict: 'fail', failure: { ok: false, unitId: planned.unitId, epoch: planned.epoch, code, message } };
}
