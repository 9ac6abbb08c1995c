import type { DeviceModel, LoopContext, LoopKernel, LoopState, StepOutputs } from '../loop_kernel.ts';
import type { PlannedUnit, StepResult, WorkPlan, WorkUnitBatch } from '../work.ts';
import type { ComponentGraph } from './component_graph.ts';
import { logProbability } from './log_probability.ts';
import { runDeclared } from './run_declared.ts';

export interface ArDecodeInput {
  /** What is continued, without padding. */
  readonly ids: readonly number[];
  /** Any of these ends the text; it is kept as the last token. */
  readonly endIds: readonly number[];
  /** Most tokens made; also bounded by the model's context. */
  readonly maxTokens: number;
}

export interface ArDecodeState extends LoopState {
  readonly plan: ArDecodePlan;
}

export interface ArDecodePlan {
  readonly [key: string]: unknown;
  readonly prompt: readonly number[];
  readonly endIds: readonly number[];
  readonly maxTokens: number;
  /** Made so far. */
  readonly tokens: readonly number[];
  readonly done: boolean;
}

/**
 * Greedy decoding, one unit per token. The context is 40 words, so each unit recomputes it (about 2 ms) instead of keeping a KV cache:
 * the loop holds no blocks, and cancelling it costs nothing.
 */
export class ArDecodeKernel implements LoopKernel<ArDecodeInput, ArDecodeState, readonly number[]> {
  readonly kind = 'ar_decode';
  readonly #graph: ComponentGraph;
  readonly #context: number;

  constructor(graph: ComponentGraph) {
    this.#graph = graph;
    this.#context = Number(graph.spec.inputs['ids']!.shape[1]);
  }

  initState({ ids, endIds, maxTokens }: ArDecodeInput, _ctx: LoopContext): ArDecodeState {
    if (ids.length < 1 || ids.length >= this.#context) throw new TypeError(`text to continue is 1 to ${this.#context - 1} ids, got ${ids.length}`);
    if (!Number.isInteger(maxTokens) || maxTokens < 1) throw new TypeError(`maxTokens is a whole number ≥ 1, got ${maxTokens}`);
    return { version: 0, plan: { prompt: [...ids], endIds: [...endIds], maxTokens, tokens: [], done: false }, blocks: [] };
  }

  planStep({ plan }: ArDecodeState, _ctx: LoopContext): WorkPlan | null {
    if (plan.done) return null;
    const known = [...plan.prompt, ...plan.tokens];
    const padded = [...known, ...Array<number>(this.#context - known.length).fill(0)];
    return this.#graph.plan({
      kind: 'ar_token',
      step: plan.tokens.length,
      inputs: { ids: { kind: 'ints', values: padded, shape: [this.#context] }, position: { kind: 'ints', values: [known.length - 1], shape: [1] } },
      state: plan,
      leadsTo: null,
    });
  }

  advance(state: ArDecodeState, _unit: PlannedUnit, { next }: StepOutputs): ArDecodeState {
    return { version: state.version + 1, plan: next as ArDecodePlan, blocks: [] };
  }

  runStep(batch: WorkUnitBatch, device: DeviceModel): Promise<StepResult[]> {
    return runDeclared(batch, device, (unit, values) => {
      const plan = unit.plan.state as ArDecodePlan;
      const token = argmax(values['logits'] ?? new Float32Array());
      const tokens = [...plan.tokens, token];
      const full = plan.prompt.length + tokens.length >= this.#context;
      const done = plan.endIds.includes(token) || tokens.length >= plan.maxTokens || full;
      return { next: { ...plan, tokens, done }, values: { token: [token], logprob: [logProbability(values['logits']!, token)] } };
    });
  }

  finalize({ plan }: ArDecodeState, _ctx: LoopContext): readonly number[] {
    return plan.tokens;
  }
}

/** Index of the largest value, the first of equals. @throws {RangeError} where no value is a number. */
function argmax(values: Float32Array): number {
  let best = -1;
  for (let index = 0; index < values.length; index++) {
    if (!Number.isNaN(values[index]) && (best < 0 || values[index]! > values[best]!)) best = index;
  }
  if (best < 0) throw new RangeError('the language model gave no usable logits');
  return best;
}
