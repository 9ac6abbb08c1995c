import type { BlockId, PlannedUnit, PlanState, StepResult, WorkPlan, WorkUnitBatch } from './work.ts';

/**
 * A model loop turned inside out: the runtime owns the loop, the kernel says what the next step is and runs one when told to.
 * Serving, evaluation and roll-out all drive the same kernels.
 *
 * `initState`, `planStep` and `finalize` run on the engine thread; `runStep` runs on an executor thread, on another instance of
 * the same module. They share nothing but the plain data in {@link WorkPlan}. Contract: `test/engine/model/loop_kernel_contract.ts`.
 */
export interface LoopKernel<Input, State extends LoopState, Result> {
  /** The LoopSpec kind that this kernel implements, for example `video_continuation`. */
  readonly kind: string;
  /** Binds state; runs nothing. */
  initState(input: Input, ctx: LoopContext): State;
  /**
   * The next step, or null when the loop is done (or waits for input). Pure: no kernel, no I/O, no clock, no mutation;
   * called twice with equal arguments it returns equal plans. A refused plan leaves no trace.
   */
  planStep(state: State, ctx: LoopContext): WorkPlan | null;
  /** The state after a step: pure. `blocks` and `values` are the outputs of the unit that ran. */
  advance(state: State, unit: PlannedUnit, outputs: StepOutputs): State;
  /** Runs what was declared and nothing else, for each unit of the batch; never throws for one unit's fault alone. */
  runStep(batch: WorkUnitBatch, device: DeviceModel): Promise<StepResult[]>;
  finalize(state: State, ctx: LoopContext): Result;
}

/** Versioned: every committed step raises `version` by one. Equal versions of one loop are equal states. */
export interface LoopState {
  readonly version: number;
  /** Small plain data (engine thread). */
  readonly plan: PlanState;
  /** Everything that the state keeps alive with the executor; the runtime counts references over these. */
  readonly blocks: readonly BlockId[];
}

export interface StepOutputs {
  readonly blocks: Readonly<Record<string, BlockId>>;
  readonly slots: Readonly<Record<string, number>>;
  readonly values: Readonly<Record<string, readonly number[]>>;
  readonly next: PlanState;
}

/** What changes under a running loop: read anew at every `planStep`, so a change lands at the next step. */
export interface LoopContext {
  readonly seed: number;
  readonly lineage: number;
  readonly conditioning: Conditioning;
}

export interface Conditioning {
  readonly version: number;
  readonly actionSequence: number;
  /** −1, 0 or 1. */
  readonly steer: number;
  /** 0 … 3. */
  readonly speed: number;
  /** Prompt keys and values, from `encoder_chunk`, by output name; null before the first prompt. */
  readonly prompt: PromptBlocks | null;
  /** What is left of other prompts while one goes over into the next: weights above 0, together under 1, and the rest is the prompt's. */
  readonly mix?: readonly WeightedPrompt[];
  /** Absent or null: the model as it is. */
  readonly adapter?: AppliedAdapter | null;
  /** Denoise steps of a chunk that begins under it; absent: as its loop declares. One that is under way keeps its own. */
  readonly steps?: number;
}

/** A prompt as its encoder left it: blocks by output name. */
export type PromptBlocks = Readonly<Record<string, BlockId>>;

export interface WeightedPrompt {
  readonly prompt: PromptBlocks;
  readonly weight: number;
}

/** An adapter as a step runs under it. */
export interface AppliedAdapter {
  readonly id: string;
  /** 0 … 1.5. */
  readonly scale: number;
  /** SHA-256 of its file. */
  readonly version: string;
}

/** What media, and whatever is cached, was made with: equal texts are equal adapters at an equal scale. */
export function adapterVersions(adapter: AppliedAdapter | null | undefined): Readonly<Record<string, string>> {
  return adapter == null ? {} : { [adapter.id]: `${adapter.version}@${adapter.scale}` };
}

/** The executor's side of a loaded model: run a component's graph over blocks. */
export interface DeviceModel {
  readonly modelId: string;
  /**
   * Runs the component once for the whole batch and stores every declared output (blocks kept, slots written).
   * Returns the outputs declared `value`, per unit, and the device milliseconds.
   * @throws {DeviceError} where the runtime fails; nothing is stored then.
   */
  run(batch: WorkUnitBatch): Promise<{ readonly values: readonly Readonly<Record<string, Float32Array>>[]; readonly deviceMs: number }>;
}
