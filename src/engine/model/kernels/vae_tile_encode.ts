import type { DeviceModel, LoopContext, LoopKernel, LoopState, StepOutputs } from '../loop_kernel.ts';
import { unitElements } from '../spec/tensor_signature.ts';
import type { BlockId, PlannedUnit, StepResult, UnitInput, WorkPlan, WorkUnitBatch } from '../work.ts';
import type { ComponentGraph } from './component_graph.ts';
import { NOISE_STREAMS } from './noise_streams.ts';
import { runDeclared } from './run_declared.ts';
import { oneHot } from './vae_tile_decode.ts';

/** RGB of one picture of the model's size, row by row, in shared memory: it crosses threads without a copy. Not written any more. */
export type Picture = SharedArrayBuffer;

export type VaeTileEncodeInput =
  /** The first chunk of a story: both of its frames are the picture, and it is read what that shows. */
  | { readonly image: Picture }
  /** A chunk of a given video, one picture a frame. */
  | { readonly frames: readonly Picture[]; readonly towards: Towards | null };

/** Where a chunk of a given video is to be changed. */
export interface Towards {
  /** A chunk of what it is to look like: rows of channels take its mean and deviation. Held until the chunk is encoded. */
  readonly like: BlockId;
  /** Noise level that it leaves at, 0 clean … 1 nothing of it is left. */
  readonly level: number;
  /** Chunk that will be denoised from it: draws the same noise. */
  readonly chunk: number;
}

export interface VaeTileEncodeState extends LoopState {
  readonly plan: VaeTileEncodePlan;
  /** What is to be encoded; none once it has been. */
  readonly pictures: readonly Picture[];
  readonly towards: Towards | null;
  /** Latents of a chunk as far as they are encoded; null until a unit has run. */
  readonly latents: BlockId | null;
}

export interface VaeTileEncodePlan {
  readonly [key: string]: unknown;
  readonly of: 'picture' | 'video';
  /** Units that have run, and how many there are. */
  readonly encoded: number;
  readonly units: number;
  readonly done: boolean;
  /** Of a picture: entry of the start bank that it is most like. Null until the unit has run. */
  readonly entry: number | null;
}

export interface EncodedPicture {
  readonly latents: BlockId;
  readonly entry: number | null;
}

/** Encodes given pictures: one as the first chunk of a story, or a chunk of a video frame by frame. The tile of this model is a frame, one unit each. */
export class VaeTileEncodeKernel implements LoopKernel<VaeTileEncodeInput, VaeTileEncodeState, EncodedPicture> {
  readonly kind = 'vae_tile_encode';
  readonly #picture: ComponentGraph;
  readonly #video: ComponentGraph;
  readonly #shape: readonly number[];
  readonly #bytes: number;
  readonly #latentShape: readonly number[];
  readonly #framesPerChunk: number;

  constructor(picture: ComponentGraph, video: ComponentGraph) {
    this.#picture = picture;
    this.#video = video;
    const rgb = picture.spec.inputs['rgb']!;
    this.#shape = rgb.shape.slice(1) as number[];
    this.#bytes = unitElements(rgb);
    this.#latentShape = video.spec.inputs['before']!.shape.slice(1) as number[];
    this.#framesPerChunk = Number(video.spec.inputs['frame']!.shape[1]);
  }

  /** @throws {TypeError} for pictures of another size, another number of them, or a level outside 0 … 1. */
  initState(input: VaeTileEncodeInput, _ctx: LoopContext): VaeTileEncodeState {
    const pictures = 'image' in input ? [input.image] : input.frames;
    const towards = 'image' in input ? null : input.towards;
    if ('frames' in input && pictures.length !== this.#framesPerChunk) throw new TypeError(`a chunk is ${this.#framesPerChunk} frames, got ${pictures.length}`);
    for (const picture of pictures) if (picture.byteLength !== this.#bytes) throw new TypeError(`a picture is ${this.#bytes} bytes, got ${picture.byteLength}`);
    if (towards !== null && !(towards.level >= 0 && towards.level <= 1)) throw new TypeError(`a noise level is 0 to 1, got ${towards.level}`);
    const plan: VaeTileEncodePlan = { of: 'image' in input ? 'picture' : 'video', encoded: 0, units: pictures.length, done: false, entry: null };
    return { version: 0, plan, pictures, towards, latents: null, blocks: towards === null ? [] : [towards.like] };
  }

  planStep({ plan, pictures, towards, latents }: VaeTileEncodeState, ctx: LoopContext): WorkPlan | null {
    const picture = pictures[plan.encoded];
    if (plan.done || picture === undefined) return null;
    const rgb = { kind: 'bytes', bytes: picture, shape: this.#shape } as const;
    if (plan.of === 'picture') return this.#picture.plan({ kind: 'vae_tile', step: 0, inputs: { rgb }, state: plan, leadsTo: null });
    const zeros: UnitInput = { kind: 'zeros', shape: this.#latentShape };
    return this.#video.plan({
      kind: 'vae_tile',
      step: plan.encoded,
      inputs: {
        rgb,
        frame: oneHot(plan.encoded, this.#framesPerChunk),
        before: latents === null ? zeros : { kind: 'block', block: latents },
        like: towards === null ? zeros : { kind: 'block', block: towards.like },
        recolour: share(towards === null ? 0 : 1),
        eps: towards === null ? zeros : this.#noise(ctx, towards),
        level: share(towards?.level ?? 0),
      },
      state: plan,
      leadsTo: null,
    });
  }

  advance(state: VaeTileEncodeState, _unit: PlannedUnit, { blocks, next }: StepOutputs): VaeTileEncodeState {
    const latents = blocks['x']!;
    const plan = next as VaeTileEncodePlan;
    const towards = plan.done ? null : state.towards;
    return { version: state.version + 1, plan, pictures: plan.done ? [] : state.pictures, towards, latents, blocks: towards === null ? [latents] : [latents, towards.like] };
  }

  runStep(batch: WorkUnitBatch, device: DeviceModel): Promise<StepResult[]> {
    return runDeclared(batch, device, (unit, values) => {
      const plan = unit.plan.state as VaeTileEncodePlan;
      const encoded = plan.encoded + 1;
      const next: VaeTileEncodePlan = { ...plan, encoded, done: encoded === plan.units };
      if (plan.of === 'video') return { next, values: {} };
      const entry = values['entry']?.[0];
      if (entry === undefined || !Number.isInteger(entry) || entry < 0) throw new TypeError(`an entry of the start bank is a whole number ≥ 0, got ${entry}`);
      return { next: { ...next, entry }, values: { entry: [entry] } };
    });
  }

  /** @throws {TypeError} before all units have run. */
  finalize({ latents, plan }: VaeTileEncodeState, _ctx: LoopContext): EncodedPicture {
    if (latents === null || !plan.done) throw new TypeError('the pictures have not been encoded yet');
    return { latents, entry: plan.entry };
  }

  #noise({ seed, lineage }: LoopContext, { chunk }: Towards): UnitInput {
    return { kind: 'noise', distribution: 'normal', counter: { seed, lineage, chunk, step: 0, stream: NOISE_STREAMS.denoise }, shape: this.#latentShape };
  }
}

function share(value: number): UnitInput {
  return { kind: 'floats', values: [value], shape: [1] };
}
