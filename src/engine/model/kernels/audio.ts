import type { DeviceModel, LoopContext, LoopKernel, LoopState, StepOutputs } from '../loop_kernel.ts';
import { blocksAmong, tensorInput, type BlockId, type GivenTensor, type PlannedUnit, type StepResult, type UnitInput, type WorkPlan, type WorkUnitBatch } from '../work.ts';
import { expandInitial, type InitialValues } from '../spec/loop_spec.ts';
import { unitElements, unitShape } from '../spec/tensor_signature.ts';
import type { ComponentGraph } from './component_graph.ts';
import { runDeclared } from './run_declared.ts';
import { NOISE_STREAMS } from './noise_streams.ts';
import { checkFrames, oneHot } from './vae_tile_decode.ts';

export interface AudioInput {
  /** Absolute index of the first chunk that will be heard. */
  readonly firstChunk: number;
}

/** What the synthesiser reads next. */
export interface AudioChunkSource {
  readonly latents: BlockId | GivenTensor;
  /** Absolute index of the chunk. */
  readonly chunk: number;
  readonly frames: readonly number[];
  /** Media time of the chunk's frame 0. */
  readonly start90k: number;
}

export interface AudioState extends LoopState {
  readonly plan: AudioPlan;
  readonly latents: BlockId | GivenTensor | null;
  /** Synthesiser state by input name (`phase`, `control`, `tail`); null = the initial one of the LoopSpec. */
  readonly carried: Readonly<Record<string, BlockId | GivenTensor>> | null;
  /** Slots of the session's audio pool, one per frame of the current source, as far as made. */
  readonly slots: readonly number[];
}

export interface AudioPlan {
  readonly [key: string]: unknown;
  readonly chunk: number;
  readonly frames: readonly number[];
  readonly start90k: number;
  /** How many of `frames` are made. */
  readonly made: number;
}

/**
 * Sound, one unit per picture frame. Long-lived: oscillator phase, last controls and the tail of the noise go from frame to frame,
 * so chunks join without a seam. It waits (plans nothing) whenever its chunk is used up; {@link withChunk} gives it the next.
 */
export class AudioKernel implements LoopKernel<AudioInput, AudioState, readonly number[]> {
  readonly kind = 'audio';
  readonly #graph: ComponentGraph;
  readonly #initial: Readonly<Record<string, UnitInput>>;
  readonly #framesPerChunk: number;
  readonly #frame90k: number;

  /** @param initial state by input name, from the LoopSpec. @param frame90k ticks of one frame. */
  constructor(graph: ComponentGraph, initial: Readonly<Record<string, InitialValues>>, frame90k: number) {
    this.#graph = graph;
    this.#initial = Object.fromEntries(
      CARRIED.map((name) => {
        const shape = unitShape(graph.spec.inputs[name]!);
        return [name, { kind: 'floats', values: expandInitial(initial[name] ?? [], unitElements(graph.spec.inputs[name]!)), shape }];
      }),
    );
    this.#framesPerChunk = Number(graph.spec.inputs['frame']!.shape[1]);
    this.#frame90k = frame90k;
  }

  initState({ firstChunk }: AudioInput, _ctx: LoopContext): AudioState {
    return { version: 0, plan: { chunk: firstChunk, frames: [], start90k: 0, made: 0 }, latents: null, carried: null, slots: [], blocks: [] };
  }

  /** Points the loop at the next chunk; what it carried stays. */
  withChunk(state: AudioState, { latents, chunk, frames, start90k }: AudioChunkSource): AudioState {
    checkFrames(frames, this.#framesPerChunk);
    return stateOf(state.version + 1, { chunk, frames: [...frames], start90k, made: 0 }, latents, state.carried, []);
  }

  /** Between two chunks, with what it carried on when it was kept. */
  resumed(plan: AudioPlan, carried: AudioState['carried']): AudioState {
    return stateOf(0, plan, null, carried, []);
  }

  planStep({ plan, latents, carried }: AudioState, ctx: LoopContext): WorkPlan | null {
    const frame = plan.frames[plan.made];
    if (frame === undefined || latents === null) return null;
    const noise = this.#graph.spec.inputs['noise']!.shape.slice(1) as number[];
    return this.#graph.plan({
      kind: 'audio_chunk',
      step: frame,
      inputs: {
        x: tensorInput(latents),
        frame: oneHot(frame, this.#framesPerChunk),
        ...Object.fromEntries(CARRIED.map((name) => [name, carried === null ? this.#initial[name]! : tensorInput(carried[name]!)])),
        noise: {
          kind: 'noise',
          distribution: 'uniform',
          counter: { seed: ctx.seed, lineage: ctx.lineage, chunk: plan.chunk, step: frame, stream: NOISE_STREAMS.sound },
          shape: noise,
        },
      },
      state: plan,
      leadsTo: plan.start90k + frame * this.#frame90k,
    });
  }

  advance(state: AudioState, _unit: PlannedUnit, { blocks, slots, next }: StepOutputs): AudioState {
    const carried = Object.fromEntries(CARRIED.map((name) => [name, blocks[`${name}_next`]!]));
    return stateOf(state.version + 1, next as AudioPlan, state.latents, carried, [...state.slots, slots['pcm']!]);
  }

  runStep(batch: WorkUnitBatch, device: DeviceModel): Promise<StepResult[]> {
    return runDeclared(batch, device, (unit) => {
      const plan = unit.plan.state as AudioPlan;
      return { next: { ...plan, made: plan.made + 1 }, values: {} };
    });
  }

  finalize({ slots }: AudioState, _ctx: LoopContext): readonly number[] {
    return slots;
  }
}

function stateOf(version: number, plan: AudioPlan, latents: AudioState['latents'], carried: AudioState['carried'], slots: readonly number[]): AudioState {
  const held = latents !== null && plan.made < plan.frames.length ? latents : null;
  return { version, plan, latents: held, carried, slots, blocks: blocksAmong([...(held === null ? [] : [held]), ...(carried === null ? [] : Object.values(carried))]) };
}

const CARRIED = ['phase', 'control', 'tail'] as const;
