import type { DeviceModel, LoopContext, LoopKernel, LoopState, StepOutputs } from '../loop_kernel.ts';
import { unitElements } from '../spec/tensor_signature.ts';
import type { BlockId, PlannedUnit, StepResult, WorkPlan, WorkUnitBatch } from '../work.ts';
import type { ComponentGraph } from './component_graph.ts';
import { runDeclared } from './run_declared.ts';

export interface VaeTileEncodeInput {
  /** RGB of one picture of the model's size, row by row, in shared memory: it crosses threads without a copy. Not written any more. */
  readonly image: SharedArrayBuffer;
}

export interface VaeTileEncodeState extends LoopState {
  readonly plan: VaeTileEncodePlan;
  /** Null once it has been encoded. */
  readonly image: SharedArrayBuffer | null;
  /** Clean latents of a chunk that shows the picture; null until the unit has run. */
  readonly latents: BlockId | null;
}

export interface VaeTileEncodePlan {
  readonly [key: string]: unknown;
  readonly done: boolean;
  /** Entry of the start bank that the picture is most like; null until the unit has run. */
  readonly entry: number | null;
}

export interface EncodedPicture {
  readonly latents: BlockId;
  readonly entry: number;
}

/** Encodes a given picture as the first chunk of a story, and reads what it shows. One unit: the tile of this model is a frame. */
export class VaeTileEncodeKernel implements LoopKernel<VaeTileEncodeInput, VaeTileEncodeState, EncodedPicture> {
  readonly kind = 'vae_tile_encode';
  readonly #graph: ComponentGraph;
  readonly #shape: readonly number[];
  readonly #bytes: number;

  constructor(graph: ComponentGraph) {
    this.#graph = graph;
    const rgb = graph.spec.inputs['rgb']!;
    this.#shape = rgb.shape.slice(1) as number[];
    this.#bytes = unitElements(rgb);
  }

  initState({ image }: VaeTileEncodeInput, _ctx: LoopContext): VaeTileEncodeState {
    if (image.byteLength !== this.#bytes) throw new TypeError(`a picture is ${this.#bytes} bytes, got ${image.byteLength}`);
    return { version: 0, plan: { done: false, entry: null }, image, latents: null, blocks: [] };
  }

  planStep({ plan, image }: VaeTileEncodeState, _ctx: LoopContext): WorkPlan | null {
    if (plan.done || image === null) return null;
    return this.#graph.plan({ kind: 'vae_tile', step: 0, inputs: { rgb: { kind: 'bytes', bytes: image, shape: this.#shape } }, state: plan, leadsTo: null });
  }

  advance(state: VaeTileEncodeState, _unit: PlannedUnit, { blocks, next }: StepOutputs): VaeTileEncodeState {
    const latents = blocks['x']!;
    return { version: state.version + 1, plan: next as VaeTileEncodePlan, image: null, latents, blocks: [latents] };
  }

  runStep(batch: WorkUnitBatch, device: DeviceModel): Promise<StepResult[]> {
    return runDeclared(batch, device, (_unit, values) => {
      const entry = values['entry']?.[0];
      if (entry === undefined || !Number.isInteger(entry) || entry < 0) throw new TypeError(`an entry of the start bank is a whole number ≥ 0, got ${entry}`);
      return { next: { done: true, entry } satisfies VaeTileEncodePlan, values: { entry: [entry] } };
    });
  }

  /** @throws {TypeError} before the unit has run. */
  finalize({ latents, plan }: VaeTileEncodeState, _ctx: LoopContext): EncodedPicture {
    if (latents === null || plan.entry === null) throw new TypeError('the picture has not been encoded yet');
    return { latents, entry: plan.entry };
  }
}
