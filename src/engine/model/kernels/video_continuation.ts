import type { Conditioning, DeviceModel, LoopContext, LoopKernel, LoopState, StepOutputs } from '../loop_kernel.ts';
import type { DenoisePolicy } from '../spec/loop_spec.ts';
import type { BlockId, NoiseCounter, PlannedUnit, StepResult, UnitInput, WorkPlan, WorkUnitBatch } from '../work.ts';
import type { ComponentGraph } from './component_graph.ts';
import { NOISE_STREAMS } from './noise_streams.ts';
import { promptInputs } from './prompt_inputs.ts';
import { runDeclared } from './run_declared.ts';
import { adapterInputs } from './adapter_inputs.ts';
import { windowInputs, type WindowEntry } from './window_inputs.ts';

/** What a chunk's steps run, and what writes its keys and values. */
export interface ContinuationGraphs {
  readonly denoise: ComponentGraph;
  readonly write: ComponentGraph;
}

export interface VideoContinuationInput {
  /** Absolute index of the first chunk; its media time is `firstChunk · framesPerChunk` frames. */
  readonly firstChunk: number;
}

export interface VideoContinuationState extends LoopState {
  readonly plan: VideoContinuationPlan;
  /** Keys and values of past chunks, oldest first, at most `windowChunks`. Immutable blocks: a version is this list. */
  readonly window: readonly WindowEntry[];
  /** The previous chunk as its successor is shown it; null before the first. */
  readonly prev: BlockId | null;
  /** The chunk in flight, partly or wholly denoised; null before its first step. */
  readonly x: BlockId | null;
  /** Latents whose first `plan.pinnedFrames` frames the chunk in flight must repeat. */
  readonly pin: BlockId | null;
}

export interface VideoContinuationPlan {
  readonly [key: string]: unknown;
  /** Absolute index of the chunk in flight. */
  readonly chunk: number;
  readonly phase: 'denoise' | 'write';
  /** Next denoise step, 0 … steps − 1; `steps` while writing. */
  readonly step: number;
  /** Denoise steps of the chunk in flight: settled by its first one, as declared until then. */
  readonly steps: number;
  /** Noise level at which the previous chunk is shown; 1 where there is none. */
  readonly tPrev: number;
  /** Leading frames that were seen already and stay: 0, or 1 … framesPerChunk − 1. */
  readonly pinnedFrames: number;
  /** Noise level that the chunk in flight begins at: 1 is noise alone, less is given latents that are noised so far. */
  readonly from: number;
  /** Whether the chunk in flight is given (start bank, picture, clip) instead of made. */
  readonly seeded: boolean;
  /** Conditioning of the latest denoise step, and the step at which it took force in this chunk. */
  readonly conditioningVersion: number;
  readonly actionSequence: number;
  readonly changedAtStep: number;
}

export interface VideoContinuationResult {
  /** Index after the last finished chunk. */
  readonly nextChunk: number;
}

/**
 * Continues the picture and the sound chunk by chunk: `steps` denoise units, or `reducedSteps` where the conditioning of a chunk's first one says so, then one
 * that writes the chunk's keys and values. A step's noise levels are inputs of its unit, so chunks with different numbers of steps share batches.
 * Conditioning is read anew at every `planStep`, so what a person does lands at the next step and not at the next chunk.
 */
export class VideoContinuationKernel implements LoopKernel<VideoContinuationInput, VideoContinuationState, VideoContinuationResult> {
  readonly kind = 'video_continuation';
  readonly policy: DenoisePolicy;
  readonly #plain: ContinuationGraphs;
  readonly #adapted: ContinuationGraphs | null;
  readonly #frame90k: number;
  readonly #latentShape: readonly number[];
  readonly #windowShape: readonly number[];

  /** @param adapted graphs for steps with an adapter. @param frame90k ticks of one frame. */
  constructor(plain: ContinuationGraphs, adapted: ContinuationGraphs | null, policy: DenoisePolicy, frame90k: number) {
    this.#plain = plain;
    this.#adapted = adapted;
    this.policy = policy;
    this.#frame90k = frame90k;
    this.#latentShape = plain.denoise.spec.inputs['x']!.shape.slice(1) as number[];
    this.#windowShape = plain.denoise.spec.inputs['k0']!.shape.slice(1) as number[];
  }

  initState({ firstChunk }: VideoContinuationInput, _ctx: LoopContext): VideoContinuationState {
    if (!Number.isInteger(firstChunk) || firstChunk < 0) throw new TypeError(`firstChunk is a whole number ≥ 0, got ${firstChunk}`);
    const plan = this.#freshChunk({ chunk: firstChunk, tPrev: 1, conditioningVersion: -1, actionSequence: -1 });
    return stateOf({ version: 0, plan, window: [], prev: null, x: null, pin: null });
  }

  /** True once denoising is complete: {@link latentsOf} may be decoded while keys and values are still to be written. */
  isChunkReady({ plan }: VideoContinuationState): boolean {
    return plan.phase === 'write';
  }

  /** Latents of the finished chunk. @throws {TypeError} while it is being denoised. */
  latentsOf({ plan, x }: VideoContinuationState): BlockId {
    if (plan.phase !== 'write' || x === null) throw new TypeError(`chunk ${plan.chunk} is still being denoised`);
    return x;
  }

  /** The chunk in flight regenerates only its later frames: the first `pinnedFrames` follow `latents`, which were seen. Only at its start. */
  withPin(state: VideoContinuationState, latents: BlockId, pinnedFrames = 1): VideoContinuationState {
    if (state.plan.phase !== 'denoise' || state.plan.step !== 0) throw new TypeError(`chunk ${state.plan.chunk} has begun: it can't be pinned any more`);
    if (!(pinnedFrames >= 1 && pinnedFrames < this.policy.framesPerChunk)) throw new TypeError(`pinnedFrames is 1 to ${this.policy.framesPerChunk - 1}, got ${pinnedFrames}`);
    return stateOf({ ...state, version: state.version + 1, plan: { ...state.plan, pinnedFrames }, pin: latents });
  }

  /** Takes a ready chunk (of the start bank, or of a clip) for the one in flight: only its keys and values are still to be written. */
  seeded(state: VideoContinuationState, latents: BlockId): VideoContinuationState {
    return this.finished(state, latents, true);
  }

  /** As {@link seeded}, with a chunk that was kept. */
  finished(state: VideoContinuationState, latents: BlockId, seeded: boolean): VideoContinuationState {
    const plan: VideoContinuationPlan = { ...state.plan, phase: 'write', step: state.plan.steps, pinnedFrames: 0, seeded };
    return stateOf({ ...state, version: state.version + 1, plan, x: latents, pin: null });
  }

  /**
   * The chunk in flight begins with given latents, noised to `level`, and takes only the steps from there on: what the noise leaves over stays. Steps keep
   * their declared levels, but that the first begins at `level`. Only at its start. @throws {TypeError}
   */
  noised(state: VideoContinuationState, latents: BlockId, level: number): VideoContinuationState {
    const { chunk, phase, step } = state.plan;
    if (phase !== 'denoise' || step !== 0 || state.x !== null) throw new TypeError(`chunk ${chunk} has begun: it can't begin with something else any more`);
    if (!(level > 0 && level <= 1)) throw new TypeError(`a noise level is above 0, at most 1, got ${level}`);
    const first = Math.min(this.policy.steps - 1, Math.floor((1 - level) * this.policy.steps));
    return stateOf({ ...state, version: state.version + 1, plan: { ...state.plan, step: first, from: level }, x: latents });
  }

  /** Nothing of the chunk in flight is there yet. */
  isFresh({ plan, x }: VideoContinuationState): boolean {
    return plan.phase === 'denoise' && x === null;
  }

  /** Before the first step of a chunk, behind a window that was kept. */
  resumed({ chunk, tPrev, window, prev }: Pick<VideoContinuationPlan, 'chunk' | 'tPrev'> & Pick<VideoContinuationState, 'window' | 'prev'>): VideoContinuationState {
    return stateOf({ version: 0, plan: this.#freshChunk({ chunk, tPrev, conditioningVersion: -1, actionSequence: -1 }), window, prev, x: null, pin: null });
  }

  /** Discards the chunk in flight, and its pin with it unless `keepPin`. */
  restarted(state: VideoContinuationState, { keepPin = false } = {}): VideoContinuationState {
    const plan = { ...this.#freshChunk(state.plan), pinnedFrames: keepPin ? state.plan.pinnedFrames : 0 };
    return stateOf({ ...state, version: state.version + 1, plan, x: null, pin: keepPin ? state.pin : null });
  }

  planStep(state: VideoContinuationState, ctx: LoopContext): WorkPlan | null {
    const { conditioning } = ctx;
    if (conditioning.prompt === null) return null;
    return state.plan.phase === 'denoise' ? this.#planDenoise(state, ctx) : this.#planWrite(state, ctx);
  }

  advance(state: VideoContinuationState, _unit: PlannedUnit, { blocks, next }: StepOutputs): VideoContinuationState {
    const plan = next as VideoContinuationPlan;
    const version = state.version + 1;
    if (state.plan.phase === 'denoise') return stateOf({ ...state, version, plan, x: blocks['x_next']! });
    const window = [...state.window, { k: blocks['k']!, v: blocks['v']! }].slice(-this.policy.windowChunks);
    return stateOf({ version, plan, window, prev: blocks['prev_next']!, x: null, pin: null });
  }

  runStep(batch: WorkUnitBatch, device: DeviceModel): Promise<StepResult[]> {
    return runDeclared(batch, device, (unit) => ({ next: this.#following(unit.plan.state as VideoContinuationPlan), values: {} }));
  }

  finalize({ plan }: VideoContinuationState, _ctx: LoopContext): VideoContinuationResult {
    return { nextChunk: plan.chunk };
  }

  #planDenoise(state: VideoContinuationState, ctx: LoopContext): WorkPlan {
    const plan = { ...withConditioning(state.plan, ctx.conditioning), steps: this.isFresh(state) ? this.#stepsUnder(ctx.conditioning) : state.plan.steps };
    const eps = this.#noise(ctx, plan.chunk, NOISE_STREAMS.denoise);
    return this.#graphs(ctx.conditioning).denoise.plan({
      kind: 'diffusion_step',
      step: plan.step,
      inputs: {
        x: state.x === null ? eps : { kind: 'block', block: state.x },
        eps,
        pin: state.pin === null ? { kind: 'zeros', shape: this.#latentShape } : { kind: 'block', block: state.pin },
        pin_frames: floats(Array.from({ length: this.policy.framesPerChunk }, (_, frame) => (frame < plan.pinnedFrames ? 1 : 0))),
        t: floats([Math.min(plan.from, 1 - plan.step / plan.steps)]),
        t_next: floats([1 - (plan.step + 1) / plan.steps]),
        ...this.#context(state, ctx.conditioning),
      },
      state: plan,
      leadsTo: this.#leadsTo(plan),
    });
  }

  #planWrite(state: VideoContinuationState, ctx: LoopContext): WorkPlan {
    const { plan } = state;
    return this.#graphs(ctx.conditioning).write.plan({
      kind: 'kv_write',
      step: plan.step,
      inputs: { x: { kind: 'block', block: state.x! }, eps: this.#noise(ctx, plan.chunk, NOISE_STREAMS.context), ...this.#context(state, ctx.conditioning) },
      state: plan,
      // What it leads to is the next chunk: this one's latents are complete.
      leadsTo: (plan.chunk + 1) * this.policy.framesPerChunk * this.#frame90k,
    });
  }

  #stepsUnder({ steps = this.policy.steps }: Conditioning): number {
    if (steps !== this.policy.steps && steps !== this.policy.reducedSteps) throw new TypeError(`a chunk is made in ${[this.policy.steps, this.policy.reducedSteps ?? []].flat().join(' or ')} steps, got ${steps}`);
    return steps;
  }

  #graphs({ adapter }: Conditioning): ContinuationGraphs {
    if (adapter == null) return this.#plain;
    if (this.#adapted === null) throw new TypeError(`adapter ${adapter.id} needs adapted graphs, and the loop has none`);
    return this.#adapted;
  }

  /** Inputs that both graphs share. */
  #context({ plan, prev, window }: VideoContinuationState, { steer, speed, prompt, mix, adapter }: Conditioning): Record<string, UnitInput> {
    const angles = timeAngles(plan.chunk, this.policy.timeRotary);
    return {
      prev: prev === null ? { kind: 'zeros', shape: this.#latentShape } : { kind: 'block', block: prev },
      t_prev: floats([plan.tPrev]),
      steer: { kind: 'ints', values: [steer + 1], shape: [1] },
      speed: { kind: 'ints', values: [speed], shape: [1] },
      time_cos: floats(angles.map(Math.cos)),
      time_sin: floats(angles.map(Math.sin)),
      ...promptInputs(prompt!, mix),
      ...windowInputs(window, this.policy.windowChunks, this.#windowShape),
      ...(adapter == null ? {} : adapterInputs(adapter, this.#adapted!.denoise.spec)),
    };
  }

  #noise({ seed, lineage }: LoopContext, chunk: number, stream: number): UnitInput {
    const counter: NoiseCounter = { seed, lineage, chunk, step: 0, stream };
    return { kind: 'noise', distribution: 'normal', counter, shape: this.#latentShape };
  }

  #leadsTo({ chunk, pinnedFrames }: VideoContinuationPlan): number {
    return (chunk * this.policy.framesPerChunk + pinnedFrames) * this.#frame90k;
  }

  #freshChunk({ chunk, tPrev, conditioningVersion, actionSequence }: Pick<VideoContinuationPlan, 'chunk' | 'tPrev' | 'conditioningVersion' | 'actionSequence'>): VideoContinuationPlan {
    return { chunk, phase: 'denoise', step: 0, steps: this.policy.steps, tPrev, pinnedFrames: 0, from: 1, seeded: false, conditioningVersion, actionSequence, changedAtStep: 0 };
  }

  #following(plan: VideoContinuationPlan): VideoContinuationPlan {
    if (plan.phase === 'write') return this.#freshChunk({ ...plan, chunk: plan.chunk + 1, tPrev: this.policy.contextNoise });
    const step = plan.step + 1;
    return { ...plan, step, phase: step === plan.steps ? 'write' : 'denoise' };
  }
}

/** Rotary angles of a chunk along time, in radians: absolute position, so keys are written rotated once and never again. */
export function timeAngles(chunk: number, { count, base, scale }: DenoisePolicy['timeRotary']): number[] {
  return Array.from({ length: count }, (_, index) => chunk * (base ** (-index / count) * scale));
}

function withConditioning(plan: VideoContinuationPlan, { version, actionSequence }: Conditioning): VideoContinuationPlan {
  const changed = version !== plan.conditioningVersion || actionSequence !== plan.actionSequence;
  return changed ? { ...plan, conditioningVersion: version, actionSequence, changedAtStep: plan.step } : plan;
}

function stateOf(state: Omit<VideoContinuationState, 'blocks'>): VideoContinuationState {
  const { version, plan, window, prev, x, pin } = state;
  const single = [prev, x, pin].filter((block) => block !== null);
  return { version, plan, window, prev, x, pin, blocks: [...window.flatMap(({ k, v }) => [k, v]), ...single] };
}

function floats(values: readonly number[]): UnitInput {
  return { kind: 'floats', values, shape: [values.length] };
}
