import { createHash } from 'node:crypto';
import type { DeviceModel, LoopContext, LoopKernel, LoopState, StepOutputs } from '../loop_kernel.ts';
import type { BlockId, PlannedUnit, StepResult, WorkPlan, WorkUnitBatch } from '../work.ts';
import type { ComponentGraph } from './component_graph.ts';
import { runDeclared } from './run_declared.ts';

export interface EncoderChunkInput {
  /** Word ids, padded to the encoder's length. */
  readonly ids: readonly number[];
}

export interface EncoderChunkState extends LoopState {
  readonly plan: EncoderChunkPlan;
  /** Keys, values and mask of the prompt by output name; null until the unit has run. */
  readonly encoded: Readonly<Record<string, BlockId>> | null;
}

export interface EncoderChunkPlan {
  readonly [key: string]: unknown;
  readonly ids: readonly number[];
  readonly done: boolean;
}

/** Encodes a prompt in one unit. What it makes is what `Conditioning.prompt` wants. */
export class EncoderChunkKernel implements LoopKernel<EncoderChunkInput, EncoderChunkState, Readonly<Record<string, BlockId>>> {
  readonly kind = 'encoder_chunk';
  readonly #graph: ComponentGraph;

  constructor(graph: ComponentGraph) {
    this.#graph = graph;
  }

  initState({ ids }: EncoderChunkInput, _ctx: LoopContext): EncoderChunkState {
    const length = this.#graph.spec.inputs['ids']!.shape[1];
    if (ids.length !== length) throw new TypeError(`a prompt is ${length} ids, got ${ids.length}`);
    return { version: 0, plan: { ids: [...ids], done: false }, encoded: null, blocks: [] };
  }

  planStep({ plan }: EncoderChunkState, _ctx: LoopContext): WorkPlan | null {
    if (plan.done) return null;
    return this.#graph.plan({
      kind: 'encoder_chunk',
      step: 0,
      inputs: { ids: { kind: 'ints', values: plan.ids, shape: [plan.ids.length] } },
      state: plan,
      leadsTo: null,
      cache: { cacheClass: 'text_encoder_output', inputHashes: { ids: createHash('sha256').update(plan.ids.join(',')).digest('hex') }, publish: true },
    });
  }

  advance(state: EncoderChunkState, _unit: PlannedUnit, { blocks, next }: StepOutputs): EncoderChunkState {
    return { version: state.version + 1, plan: next as EncoderChunkPlan, encoded: blocks, blocks: Object.values(blocks) };
  }

  runStep(batch: WorkUnitBatch, device: DeviceModel): Promise<StepResult[]> {
    return runDeclared(batch, device, ({ plan }) => ({ next: { ...plan.state, done: true }, values: {} }));
  }

  /** @throws {TypeError} before the unit has run. */
  finalize({ encoded }: EncoderChunkState, _ctx: LoopContext): Readonly<Record<string, BlockId>> {
    if (encoded === null) throw new TypeError('the prompt has not been encoded yet');
    return encoded;
  }
}
