import type { DeviceModel, LoopContext, LoopKernel, LoopState, StepOutputs } from '../loop_kernel.ts';
import { blocksAmong, tensorInput, type BlockId, type GivenTensor, type PlannedUnit, type StepResult, type WorkPlan, type WorkUnitBatch } from '../work.ts';
import type { ComponentGraph } from './component_graph.ts';
import { runDeclared } from './run_declared.ts';

export interface VaeTileDecodeInput {
  /** Clean latents of one chunk. The loop holds them until its last frame is decoded. */
  readonly latents: BlockId | GivenTensor;
  /** Frames of the chunk to decode, in this order. */
  readonly frames: readonly number[];
  /** Media time of the chunk's frame 0. */
  readonly start90k: number;
}

export interface VaeTileDecodeState extends LoopState {
  readonly plan: VaeTileDecodePlan;
  readonly latents: BlockId | GivenTensor;
  /** Slots of the session's video pool, in the order of `plan.frames`, as far as decoded. */
  readonly slots: readonly number[];
}

export interface VaeTileDecodePlan {
  readonly [key: string]: unknown;
  readonly frames: readonly number[];
  readonly start90k: number;
  /** How many of `frames` are decoded. */
  readonly decoded: number;
}

/** Decodes the frames of a chunk, one unit each: the tile of this model is a frame, so that a fence waits for 7 ms and not for 13. */
export class VaeTileDecodeKernel implements LoopKernel<VaeTileDecodeInput, VaeTileDecodeState, readonly number[]> {
  readonly kind = 'vae_tile_decode';
  readonly #graph: ComponentGraph;
  readonly #framesPerChunk: number;
  readonly #frame90k: number;

  /** @param frame90k ticks of one frame. */
  constructor(graph: ComponentGraph, frame90k: number) {
    this.#graph = graph;
    this.#framesPerChunk = Number(graph.spec.inputs['frame']!.shape[1]);
    this.#frame90k = frame90k;
  }

  initState({ latents, frames, start90k }: VaeTileDecodeInput, _ctx: LoopContext): VaeTileDecodeState {
    checkFrames(frames, this.#framesPerChunk);
    return { version: 0, plan: { frames: [...frames], start90k, decoded: 0 }, latents, slots: [], blocks: frames.length === 0 ? [] : blocksAmong([latents]) };
  }

  planStep({ plan, latents }: VaeTileDecodeState, _ctx: LoopContext): WorkPlan | null {
    const frame = plan.frames[plan.decoded];
    if (frame === undefined) return null;
    return this.#graph.plan({
      kind: 'vae_tile',
      step: frame,
      inputs: { x: tensorInput(latents), frame: oneHot(frame, this.#framesPerChunk) },
      state: plan,
      leadsTo: plan.start90k + frame * this.#frame90k,
    });
  }

  advance(state: VaeTileDecodeState, _unit: PlannedUnit, { slots, next }: StepOutputs): VaeTileDecodeState {
    const plan = next as VaeTileDecodePlan;
    return {
      version: state.version + 1,
      plan,
      latents: state.latents,
      slots: [...state.slots, slots['rgb']!],
      blocks: plan.decoded === plan.frames.length ? [] : blocksAmong([state.latents]),
    };
  }

  runStep(batch: WorkUnitBatch, device: DeviceModel): Promise<StepResult[]> {
    return runDeclared(batch, device, (unit) => {
      const plan = unit.plan.state as VaeTileDecodePlan;
      return { next: { ...plan, decoded: plan.decoded + 1 }, values: {} };
    });
  }

  finalize({ slots }: VaeTileDecodeState, _ctx: LoopContext): readonly number[] {
    return slots;
  }
}

/** Which frame of a chunk a graph works on. */
export function oneHot(frame: number, framesPerChunk: number) {
  return { kind: 'floats', values: Array.from({ length: framesPerChunk }, (_, index) => (index === frame ? 1 : 0)), shape: [framesPerChunk] } as const;
}

export function checkFrames(frames: readonly number[], framesPerChunk: number): void {
  for (const frame of frames) {
    if (!Number.isInteger(frame) || frame < 0 || frame >= framesPerChunk) throw new TypeError(`a chunk has frames 0 to ${framesPerChunk - 1}, got ${frame}`);
  }
}
