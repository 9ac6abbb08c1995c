import { SegueError } from '../../protocol/errors.ts';
import type { InlineDemand } from '../programs/InlineProgram.ts';
import { validateProgram, type ModelOffer, type ProgramSpec } from '../programs/ProgramSpec.ts';
import type { Admission } from '../scheduler/AdmissionController.ts';
import type { PlacementScheduler } from '../scheduler/PlacementScheduler.ts';
import type { Device } from './Device.ts';
import { InlineRun, type RunDependencies, type RunOpening } from './InlineRun.ts';
import type { WorkSource } from './WorkSource.ts';

export interface InlineRunsDependencies extends RunDependencies {
  readonly devices: readonly Device<WorkSource>[];
  readonly placement: PlacementScheduler;
  readonly offer: ModelOffer;
  readonly retryAfterMs: number;
}

/** Cancels a run; harmless once it has ended. */
export interface RunHandle {
  cancel(): void;
}

/** Runs of inline programs, from admission to their last trace. How many there can be is bounded by the memory that each reserves. */
export class InlineRuns {
  readonly #deps: InlineRunsDependencies;
  readonly #runs = new Map<string, { readonly run: InlineRun; readonly opening: RunOpening }>();
  /** Ended, possibly with a unit that a worker still has. */
  readonly #ending = new Set<InlineRun>();

  constructor(deps: InlineRunsDependencies) {
    this.#deps = deps;
  }

  get size(): number {
    return this.#runs.size;
  }

  has(runId: string): boolean {
    return this.#runs.has(runId);
  }

  on(device: Device<WorkSource>): InlineRun[] {
    return [...this.#runs.values()].flatMap(({ run }) => (run.device === device ? [run] : []));
  }

  /**
   * @throws {TypeError} for a program that the model can't run.
   * @throws {SegueError} for inputs that it can't take, and where nothing is left to promise.
   */
  open(opening: RunOpening): InlineRun {
    const { runId, program, inputs, channels } = opening;
    validateProgram(program.spec, this.#deps.offer);
    const role = opening.role ?? roleOf(program.spec);
    const pool = this.#deps.devices.filter(({ roles }) => (role === null ? roles.length === 0 : roles.includes(role)));
    if (pool.length === 0 && role !== null) throw new TypeError(`program ${program.spec.programId}: placement.role is ${role}, the engine's pools have ${[...new Set(this.#deps.devices.flatMap(({ roles }) => roles))].join(', ') || 'none'}`);
    const demand = program.demand(inputs);
    for (const pool of ['video', 'audio'] as const) {
      if (channels[pool].slots < demand.minSlots[pool]) throw new SegueError('bad_request', `the ${pool} pool needs ${demand.minSlots[pool]} slots, has ${channels[pool].slots}`);
    }
    const { placement, retryAfterMs } = this.#deps;
    let reason = 'no device answers';
    for (const device of placement.rank(pool)) {
      const admission = admit(device, opening, demand);
      if (!admission.admitted) {
        reason = admission.reason;
        continue;
      }
      let run: InlineRun;
      try {
        run = new InlineRun(opening, { device, grant: admission.grant }, { ...this.#deps, settled: () => this.#ended(run) });
      } catch (error) {
        admission.grant.release();
        throw error;
      }
      this.#runs.set(runId, { run, opening });
      device.worker.attach(runId, channels);
      run.start();
      return run;
    }
    throw reason === 'no device answers' ? new SegueError('engine_unavailable', reason, { retryAfterMs }) : new SegueError('at_capacity', `another run can't be taken (${reason})`, { retryAfterMs });
  }

  /** Lets go of runs that have ended and have nothing out. */
  settle(): void {
    for (const run of this.#ending) {
      const { end, sessionId: runId } = run;
      if (end === null) continue;
      const { opening } = this.#runs.get(runId)!;
      this.#ending.delete(run);
      this.#runs.delete(runId);
      run.device.worker.detach(runId);
      opening.ended(end);
    }
  }

  #ended(run: InlineRun): void {
    this.#ending.add(run);
    this.#deps.settled();
  }

  cancelAll(): void {
    for (const { run } of [...this.#runs.values()]) run.cancel();
  }
}

/** The pool that its nodes ask for, all of them the same: one device runs them. @throws {TypeError} naming both nodes, where two differ. */
function roleOf({ programId, nodes }: ProgramSpec): string | null {
  const placed = Object.entries(nodes).flatMap(([name, { placement }]) => (placement === undefined ? [] : [[name, placement.role] as const]));
  const [first] = placed;
  const other = placed.find(([, role]) => role !== first![1]);
  if (other !== undefined) throw new TypeError(`program ${programId}: nodes.${first![0]}.placement.role is ${first![1]}, nodes.${other[0]}.placement.role is ${other[1]}: one device runs an inline program, disaggregate it`);
  return first === undefined ? null : first[1];
}

/** A run with a time to end by is promised its share of the device until then; any other only its memory. */
function admit({ admission }: Device<WorkSource>, { runId, withinMs, channels }: RunOpening, { components, memory, minSlots }: InlineDemand): Admission {
  if (withinMs === null) return admission.admitSlack(runId, memory);
  return admission.admit(runId, { chunkComponents: components, chunkMs: withinMs, redirectComponents: [], memory, minSlots }, { video: channels.video.slots, audio: channels.audio.slots });
}
