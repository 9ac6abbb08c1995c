import { CACHE_CLASSES } from '../cache/cache_classes.ts';
import type { CacheKey } from '../cache/CacheKey.ts';
import { adapterVersions, type Conditioning, type LoopContext, type LoopKernel, type LoopState } from '../model/loop_kernel.ts';
import type { WorkPlan } from '../model/work.ts';
import type { LoopTurn } from './LoopTurn.ts';
import type { PlannedTurn } from './WorkUnit.ts';

/** A kernel as the scheduler sees it: which input it was given and what it gives back in the end is the program's business. */
export type ScheduledKernel = Omit<LoopKernel<never, LoopState, unknown>, 'initState' | 'finalize'>;

/** What every cache key of a loaded model has in common; an adapter that a step runs under is named besides. */
export interface ModelIdentity {
  readonly modelId: string;
  readonly weightsVersion: string;
  readonly adapterVersions: Readonly<Record<string, string>>;
  readonly precision: string;
  readonly parallelPlanHash: string;
}

export interface HeldAction {
  readonly sequence: number;
  readonly steer: number;
  readonly speed: number;
}

/** Asks kernels for the next step of their loops. Planning is pure: a turn that is planned and then refused has left no trace. */
export class LoopScheduler {
  readonly #kernels: ReadonlyMap<string, ScheduledKernel>;
  #identity: ModelIdentity;

  constructor(kernels: ReadonlyMap<string, ScheduledKernel>, identity: ModelIdentity) {
    this.#kernels = kernels;
    this.#identity = identity;
  }

  /** From here on, cache keys name other weights: what the older ones gave is found by nobody any more. */
  reloaded(weightsVersion: string): void {
    this.#identity = { ...this.#identity, weightsVersion };
  }

  /** @throws {TypeError} for a kernel that isn't there: the program was validated against another set. */
  kernel(kind: string): ScheduledKernel {
    const kernel = this.#kernels.get(kind);
    if (kernel === undefined) throw new TypeError(`no kernel of kind ${kind}`);
    return kernel;
  }

  /** The next step of a turn under the action that is held right now; null where the loop is done or waits. */
  plan(turn: LoopTurn, seed: number, action: HeldAction): PlannedTurn | null {
    const conditioning = conditioningOf(turn, action);
    const context: LoopContext = { seed, lineage: turn.lineage, conditioning };
    const planned = this.kernel(turn.kernel).planStep(turn.state, context);
    const plan = planned === null || planned.cache === null || turn.cache === undefined ? planned : { ...planned, cache: turn.cache === 'none' ? null : { ...planned.cache, publish: false } };
    return plan === null ? null : { turn, plan, conditioning, cacheKey: this.#cacheKey(turn, plan, conditioning) };
  }

  #cacheKey(turn: LoopTurn, plan: WorkPlan, { adapter }: Conditioning): CacheKey | null {
    if (plan.cache === null) return null;
    const policy = Object.values(CACHE_CLASSES).find(({ cacheClass }) => cacheClass === plan.cache!.cacheClass);
    if (policy === undefined) throw new TypeError(`kernel ${turn.kernel} names an unknown cache class ${plan.cache.cacheClass}`);
    return {
      ...this.#identity,
      adapterVersions: { ...this.#identity.adapterVersions, ...adapterVersions(adapter) },
      componentId: plan.component,
      loopId: null,
      shapeSignature: plan.shapeKey,
      layoutSignature: 'row_major',
      schedulerSignature: null,
      guidanceSignature: null,
      seed: null,
      inputHashes: plan.cache.inputHashes,
      stepIndex: plan.step,
      cacheContractVersion: policy.contractVersion,
    };
  }
}

function conditioningOf({ conditioning }: LoopTurn, { sequence, steer, speed }: HeldAction): Conditioning {
  if (conditioning.kind === 'fixed') return conditioning.conditioning;
  const { version, prompt, mix, adapter, steps } = conditioning;
  return { version, actionSequence: sequence, steer, speed, prompt, ...(mix === undefined ? {} : { mix }), ...(adapter == null ? {} : { adapter }), ...(steps === undefined ? {} : { steps }) };
}
