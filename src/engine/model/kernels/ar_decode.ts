import type { DeviceModel, LoopContext, LoopKernel, LoopState, StepOutputs } from '../loop_kernel.ts';
import type { BlockId, PlannedUnit, StepResult, WorkPlan, WorkUnitBatch } from '../work.ts';
import type { ComponentGraph } from './component_graph.ts';
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
  /** Keys and values of every word but the token made last, which nothing has read yet; null before the prefill. */
  readonly kv: BlockId | null;
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
 * Greedy decoding: one unit reads the whole prompt and makes the first token (`ar_prefill`), then one unit per token (`ar_token`) reads
 * the token before and the keys and values kept of everything earlier. A person's words wait for these tokens before anything else can
 * happen, so none is computed twice.
 *
 * Keys and values are one block with room for the model's whole context. Like every block it is immutable: a step writes its word's row
 * into a new block and the state moves on to that. So a step that fails, is refused or comes too late leaves the loop as it was, and a loop that
 * is dropped midway is dropped with its one block. The copy is 0.4 MB for `drive`, small beside the step. Sessions at different positions share a
 * batch: the graphs take the position as an input, and see no row at or after it but the word's own.
 */
export class ArDecodeKernel implements LoopKernel<ArDecodeInput, ArDecodeState, readonly number[]> {
  readonly kind = 'ar_decode';
  /** Most words that can be continued. */
  readonly longestPrompt: number;
  readonly #prefill: ComponentGraph;
  readonly #step: ComponentGraph;
  readonly #context: number;

  constructor(prefill: ComponentGraph, step: ComponentGraph) {
    this.#prefill = prefill;
    this.#step = step;
    this.longestPrompt = Number(prefill.spec.inputs['ids']!.shape[1]);
    this.#context = Number(step.spec.inputs['kv']!.shape[2]);
  }

  initState({ ids, endIds, maxTokens }: ArDecodeInput, _ctx: LoopContext): ArDecodeState {
    if (ids.length < 1 || ids.length > this.longestPrompt) throw new TypeError(`text to continue is 1 to ${this.longestPrompt} ids, got ${ids.length}`);
    if (!Number.isInteger(maxTokens) || maxTokens < 1) throw new TypeError(`maxTokens is a whole number ≥ 1, got ${maxTokens}`);
    return { version: 0, plan: { prompt: [...ids], endIds: [...endIds], maxTokens, tokens: [], done: false }, kv: null, blocks: [] };
  }

  planStep({ plan, kv }: ArDecodeState, _ctx: LoopContext): WorkPlan | null {
    if (plan.done) return null;
    const { prompt, tokens } = plan;
    const position = { kind: 'ints', values: [prompt.length + tokens.length - 1], shape: [1] } as const;
    if (kv === null) {
      const padded = [...prompt, ...Array<number>(this.longestPrompt - prompt.length).fill(0)];
      const ids = { kind: 'ints', values: padded, shape: [this.longestPrompt] } as const;
      return this.#prefill.plan({ kind: 'ar_prefill', step: 0, inputs: { ids, position }, state: plan, leadsTo: null });
    }
    const word = { kind: 'ints', values: [tokens.at(-1)!], shape: [1] } as const;
    return this.#step.plan({ kind: 'ar_token', step: tokens.length, inputs: { word, position, kv: { kind: 'block', block: kv } }, state: plan, leadsTo: null });
  }

  advance(state: ArDecodeState, _unit: PlannedUnit, { blocks, next }: StepOutputs): ArDecodeState {
    const kv = blocks[state.kv === null ? 'kv' : 'kv_next']!;
    return { version: state.version + 1, plan: next as ArDecodePlan, kv, blocks: [kv] };
  }

  runStep(batch: WorkUnitBatch, device: DeviceModel): Promise<StepResult[]> {
    return runDeclared(batch, device, (unit, values) => {
      const plan = unit.plan.state as ArDecodePlan;
      const token = argmax(values['logits'] ?? new Float32Array());
      const tokens = [...plan.tokens, token];
      const full = plan.prompt.length + tokens.length >= this.#context;
      const done = plan.endIds.includes(token) || tokens.length >= plan.maxTokens || full;
      return { next: { ...plan, tokens, done }, values: { token: [token] } };
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
