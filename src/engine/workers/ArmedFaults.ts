import type { PlannedUnit } from '../model/work.ts';
import type { ArmedFault } from './executor_messages.ts';

/** Faults that wait for the next unit of a session, in the thread that was told. Test mode only. */
export class ArmedFaults {
  readonly #armed: ArmedFault[] = [];

  arm(fault: ArmedFault): void {
    this.#armed.push(fault);
  }

  awaits(unit: PlannedUnit): boolean {
    return this.#armed.some((fault) => meant(fault, unit));
  }

  /** Applies a fault to a unit about to run, if one waits for it, and gives what runs instead. Each strikes once. */
  strike(unit: PlannedUnit): readonly PlannedUnit[] {
    const at = this.#armed.findIndex((fault) => meant(fault, unit));
    if (at < 0) return [unit];
    const [{ fault, hangMs }] = this.#armed.splice(at, 1) as [ArmedFault];
    switch (fault) {
      case 'kernel_exception':
        throw new Error('injected kernel exception');
      case 'runtime_error': {
        const inputs = Object.fromEntries(Object.keys(unit.plan.inputs).map((name) => [name, { kind: 'zeros', shape: [3, 3, 3] } as const]));
        return [{ ...unit, plan: { ...unit.plan, inputs } }];
      }
      case 'executor_hang':
        // Stands still as a long kernel would: the thread reads no messages meanwhile.
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, hangMs);
        return [unit];
      case 'executor_death':
        // Ends this thread, not the process; between runs, where that is allowed.
        process.exit(1);
    }
  }

  clear(): void {
    this.#armed.length = 0;
  }
}

function meant({ sessionId }: ArmedFault, unit: PlannedUnit): boolean {
  return sessionId === null || sessionId === unit.sessionId;
}
