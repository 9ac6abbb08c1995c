import { bindingContext, UNCONDITIONED } from '../engine/model/binding_context.ts';
import type { VaeTileDecodeState } from '../engine/model/kernels/vae_tile_decode.ts';
import type { LoopState } from '../engine/model/loop_kernel.ts';
import type { GivenTensor } from '../engine/model/work.ts';
import type { InlineDemand, InlineProgram, InlineTransition, RunInputs } from '../engine/programs/InlineProgram.ts';
import type { ProgramSpec } from '../engine/programs/ProgramSpec.ts';
import type { CommittedStep } from '../engine/programs/RealtimeProgram.ts';
import type { LoopTurn } from '../engine/scheduler/LoopTurn.ts';
import { SegueError } from '../protocol/errors.ts';
import type { KeptChunk, KeptTensor } from '../streams/storage_messages.ts';
import type { ContinuationModel } from './continuation_model.ts';
import { latentsOfFrame } from './kept_frame.ts';

interface PictureState {
  readonly loop: VaeTileDecodeState;
}

const LOOP = 'picture';

/** One frame of a kept chunk, decoded again: a run of one unit, which brings its latents along and keeps nothing with the executor. */
export class KeptPicture implements InlineProgram<PictureState> {
  readonly spec: ProgramSpec;
  readonly #model: ContinuationModel;

  constructor(model: ContinuationModel) {
    this.#model = model;
    this.spec = {
      programId: 'kept_picture',
      kind: 'inline',
      nodes: { [LOOP]: { kind: 'model_loop', loopKind: model.loops.picture.kind, components: [model.components.picture] }, out: { kind: 'stream', stream: 'video' } },
      edges: [{ kind: 'stream', from: LOOP, to: 'out' }],
    };
  }

  open(inputs: RunInputs, seed: number): InlineTransition<PictureState> {
    const chunk = inputs['chunk'] as KeptChunk;
    const frame = inputs['frame'] as number;
    try {
      const loop = this.#model.loops.picture.initState({ latents: givenTensor(latentsOfFrame(chunk, frame)), frames: [frame], start90k: chunk.start90k }, bindingContext(seed));
      return { state: { loop }, events: [] };
    } catch (error) {
      throw error instanceof TypeError ? new SegueError('bad_request', error.message, { param: 'frame', cause: error }) : error;
    }
  }

  demand(): InlineDemand {
    return { memory: { kv: 0, activations: 0 }, components: [this.#model.components.picture], minSlots: { video: 1, audio: 0 } };
  }

  turns(state: PictureState): readonly LoopTurn[] {
    const { loop } = state;
    if (this.finished(state)) return [];
    return [{ loopId: LOOP, kernel: this.#model.loops.picture.kind, component: this.#model.components.picture, state: loop, lineage: 0, conditioning: { kind: 'fixed', conditioning: UNCONDITIONED }, leadsTo: null, after: [], opensMedia: false, boosted: false }];
  }

  current({ loop }: PictureState): LoopState {
    return loop;
  }

  advance(_state: PictureState, { stepped }: CommittedStep): InlineTransition<PictureState> {
    const loop = stepped as VaeTileDecodeState;
    return { state: { loop }, events: [{ type: 'picture', videoSlot: loop.slots.at(-1)! }] };
  }

  finished({ loop }: PictureState): boolean {
    return loop.plan.decoded === loop.plan.frames.length;
  }

  describe({ loop }: PictureState): string {
    return `${loop.plan.decoded} of ${loop.plan.frames.length} frames decoded`;
  }

  blocks(): readonly [] {
    return [];
  }

  slots(): readonly [] {
    return [];
  }
}

export function givenTensor({ dims, data }: KeptTensor): GivenTensor {
  return { values: new Float32Array(data), shape: dims };
}
