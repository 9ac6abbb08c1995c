import type { DeviceModel } from '../loop_kernel.ts';
import type { PlannedUnit, PlanState, StepResult, WorkUnitBatch } from '../work.ts';

/** What follows from a unit's small values: the next plan state, and the values that the engine is told. */
export interface UnitOutcome {
  readonly next: PlanState;
  readonly values: Readonly<Record<string, readonly number[]>>;
}

/**
 * The `runStep` that the shipped kernels share: run the declared graph once for the whole batch, then derive each unit's outcome.
 * A unit whose outcome can't be derived fails alone.
 */
export async function runDeclared(
  batch: WorkUnitBatch,
  device: DeviceModel,
  outcomeOf: (unit: PlannedUnit, values: Readonly<Record<string, Float32Array>>) => UnitOutcome,
): Promise<StepResult[]> {
  const { values, deviceMs } = await device.run(batch);
  return batch.units.map((unit, index): StepResult => {
    const { unitId, epoch } = unit;
    try {
      return { ok: true, unitId, epoch, ...outcomeOf(unit, values[index] ?? {}), deviceMs };
    } catch (error) {
      return { ok: false, unitId, epoch, code: 'kernel_exception', message: error instanceof Error ? error.message : String(error) };
    }
  });
}
