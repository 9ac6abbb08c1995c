import type { DeviceModel, LoopContext, LoopKernel, LoopState, StepOutputs } from '../loop_kernel.ts';
import type { PlannedUnit, StepResult, WorkPlan, WorkUnitBatch } from '../work.ts';
import type { ComponentGraph } from './component_graph.ts';
import { runDeclared } from './run_declared.ts';

export interface LogprobRecomputeInput {
  /** What was continued, without padding. */
  readonly prompt: readonly number[];
  /** What was sampled after it; each is asked about. */
  readonly tokens: readonly number[];
}

export interface LogprobRecomputeState extends LoopState {
  readonly plan: LogprobRecomputePlan;
}

export interface LogprobRecomputePlan {
  readonly [key: string]: unknown;
  readonly prompt: readonly number[];
  readonly tokens: readonly number[];
  /** Natural logarithms, one per token; null until the unit has run. */
  readonly logprobs: readonly number[] | null;
}

/**
 * Log-probabilities of sampled tokens under the served weights, in one unit: the forward pass that training needs of the policy that
 * serves. All positions are computed at once, so the unit costs what one decoded token costs.
 */
export class LogprobRecomputeKernel implements LoopKernel<LogprobRecomputeInput, LogprobRecomputeState, readonly number[]> {
  readonly kind = 'logprob_recompute';
  readonly #graph: ComponentGraph;
  readonly #context: number;

  constructor(graph: ComponentGraph) {
    this.#graph = graph;
    this.#context = Number(graph.spec.inputs['ids']!.shape[1]);
  }

  initState({ prompt, tokens }: LogprobRecomputeInput, _ctx: LoopContext): LogprobRecomputeState {
    if (prompt.length < 1 || tokens.length < 1 || prompt.length + tokens.length > this.#context) {
      throw new TypeError(`prompt and tokens are at least 1 id each and ${this.#context} together, got ${prompt.length} and ${tokens.length}`);
    }
    return { version: 0, plan: { prompt: [...prompt], tokens: [...tokens], logprobs: null }, blocks: [] };
  }

  planStep({ plan }: LogprobRecomputeState, _ctx: LoopContext): WorkPlan | null {
    if (plan.logprobs !== null) return null;
    const known = [...plan.prompt, ...plan.tokens];
    const values = [...known, ...Array<number>(this.#context - known.length).fill(0)];
    return this.#graph.plan({ kind: 'logprob_batch', step: 0, inputs: { ids: { kind: 'ints', values, shape: [this.#context] } }, state: plan, leadsTo: null });
  }

  advance(state: LogprobRecomputeState, _unit: PlannedUnit, { next }: StepOutputs): LogprobRecomputeState {
    return { version: state.version + 1, plan: next as LogprobRecomputePlan, blocks: [] };
  }

  runStep(batch: WorkUnitBatch, device: DeviceModel): Promise<StepResult[]> {
    return runDeclared(batch, device, (unit, values) => {
      const plan = unit.plan.state as LogprobRecomputePlan;
      // Entry n is about word n + 1: the first sampled token is the one after the prompt.
      const logprobs = [...(values['logprobs'] ?? [])].slice(plan.prompt.length - 1, plan.prompt.length - 1 + plan.tokens.length);
      if (logprobs.length !== plan.tokens.length || !logprobs.every((value) => value <= 0)) throw new RangeError('the language model gave no usable log-probabilities');
      return { next: { ...plan, logprobs }, values: { logprobs } };
    });
  }

  /** @throws {TypeError} before the unit has run. */
  finalize({ plan }: LogprobRecomputeState, _ctx: LoopContext): readonly number[] {
    if (plan.logprobs === null) throw new TypeError('the log-probabilities have not been computed yet');
    return plan.logprobs;
  }
}
