import type { DeviceModel, LoopContext, LoopKernel, LoopState, StepOutputs } from '../loop_kernel.ts';
import type { BlockId, PlannedUnit, StepResult, WorkPlan, WorkUnitBatch } from '../work.ts';
import type { ComponentGraph } from './component_graph.ts';
import { runDeclared } from './run_declared.ts';

export interface StartBankInput {
  /** Entry of the bank; see `PromptProcessor.bankIndex`. */
  readonly index: number;
}

export interface StartBankState extends LoopState {
  readonly plan: StartBankPlan;
  /** Clean latents of an encoded start frame pair; null until the unit has run. */
  readonly latents: BlockId | null;
}

export interface StartBankPlan {
  readonly [key: string]: unknown;
  readonly index: number;
  readonly done: boolean;
}

/** Fetches encoded seed frames, so that a story starts crisp instead of from nothing. What comes of it is labelled `seed`, not `generated`. */
export class StartBankKernel implements LoopKernel<StartBankInput, StartBankState, BlockId> {
  readonly kind = 'start_bank';
  readonly #graph: ComponentGraph;

  constructor(graph: ComponentGraph) {
    this.#graph = graph;
  }

  initState({ index }: StartBankInput, _ctx: LoopContext): StartBankState {
    if (!Number.isInteger(index) || index < 0) throw new TypeError(`a bank index is a whole number ≥ 0, got ${index}`);
    return { version: 0, plan: { index, done: false }, latents: null, blocks: [] };
  }

  planStep({ plan }: StartBankState, _ctx: LoopContext): WorkPlan | null {
    if (plan.done) return null;
    return this.#graph.plan({ kind: 'encoder_chunk', step: 0, inputs: { index: { kind: 'ints', values: [plan.index], shape: [1] } }, state: plan, leadsTo: null });
  }

  advance(state: StartBankState, _unit: PlannedUnit, { blocks, next }: StepOutputs): StartBankState {
    const latents = blocks['x']!;
    return { version: state.version + 1, plan: next as StartBankPlan, latents, blocks: [latents] };
  }

  runStep(batch: WorkUnitBatch, device: DeviceModel): Promise<StepResult[]> {
    return runDeclared(batch, device, ({ plan }) => ({ next: { ...plan.state, done: true }, values: {} }));
  }

  /** @throws {TypeError} before the unit has run. */
  finalize({ latents }: StartBankState, _ctx: LoopContext): BlockId {
    if (latents === null) throw new TypeError('the start frames have not been fetched yet');
    return latents;
  }
}
