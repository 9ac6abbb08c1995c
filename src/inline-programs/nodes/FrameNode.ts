import type { LoopState, StepOutputs } from '../../engine/model/loop_kernel.ts';
import type { BlockId } from '../../engine/model/work.ts';
import type { Heads, InlineNode, NodeDemand, NodeState, NodeTurn, Taken } from '../../engine/programs/InlineNode.ts';
import { item, type Given, type Ports } from '../../engine/programs/inline_ports.ts';
import type { ContinuationModel } from '../../realtime-programs/continuation_model.ts';
import { frameDuration90k } from '../../streams/media_time.ts';
import { bindingContext, UNCONDITIONED } from '../../engine/model/binding_context.ts';
import { givenChunks, type ChunkLatents, type DecodedFrame } from './chunk_items.ts';

export interface FrameState extends NodeState {
  readonly seed: number;
  /** The chunk in work; null where the node waits for one. */
  readonly source: ChunkLatents | null;
  /** Frames of it that are made. */
  readonly made: number;
}

export interface FrameSource {
  readonly latents: BlockId;
  readonly chunk: number;
  readonly frames: readonly number[];
  readonly start90k: number;
}

export interface FrameDeclaration {
  readonly loopKind: string;
  readonly component: string;
  /** Stream of the output, and the pool that its slots are of. */
  readonly output: 'pictures' | 'samples';
  readonly pool: 'video' | 'audio';
  readonly alive: number;
  /** The loop on its next chunk; `before` is null for the first. */
  readonly bind: (before: LoopState | null, source: FrameSource, seed: number) => LoopState;
}

/** Turns chunks of latents into frames of picture or of sound, one unit per frame. */
export class FrameNode implements InlineNode<FrameState> {
  readonly loopKind: string;
  readonly components: readonly string[];
  readonly inputs: Ports = { latents: { kind: 'tensor', type: 'latents' } };
  readonly outputs: Ports;
  readonly #model: ContinuationModel;
  readonly #declaration: FrameDeclaration;

  constructor(model: ContinuationModel, declaration: FrameDeclaration) {
    this.#model = model;
    this.#declaration = declaration;
    this.loopKind = declaration.loopKind;
    this.components = [declaration.component];
    this.outputs = { [declaration.output]: { kind: 'stream', type: declaration.output } };
  }

  static picture(model: ContinuationModel): FrameNode {
    const { loops, components } = model;
    const bind = (_: LoopState | null, { latents, frames, start90k }: FrameSource, seed: number) => loops.picture.initState({ latents, frames, start90k }, bindingContext(seed));
    return new FrameNode(model, { loopKind: loops.picture.kind, component: components.picture, output: 'pictures', pool: 'video', alive: 0, bind });
  }

  static sound(model: ContinuationModel): FrameNode {
    const { loops, components } = model;
    const bind: FrameDeclaration['bind'] = (before, source, seed) => loops.sound.withChunk((before as ReturnType<typeof loops.sound.initState> | null) ?? loops.sound.initState({ firstChunk: 0 }, bindingContext(seed)), source);
    return new FrameNode(model, { loopKind: loops.sound.kind, component: components.sound, output: 'samples', pool: 'audio', alive: 2, bind });
  }

  open(seed: number): FrameState {
    return { seed, loop: null, source: null, made: 0 };
  }

  take(state: FrameState, { latents }: Heads): Taken<FrameState> | null {
    if (state.source !== null || latents === undefined) return null;
    const source = latents.value as ChunkLatents;
    const { framesPerChunk, format } = this.#model;
    const frames = Array.from({ length: framesPerChunk }, (_, index) => index);
    const start90k = source.chunk * framesPerChunk * frameDuration90k(format);
    const loop = this.#declaration.bind(state.loop, { latents: source.latents, chunk: source.chunk, frames, start90k }, state.seed);
    return { state: { ...state, loop, source, made: 0 }, taken: ['latents'] };
  }

  turn({ source }: FrameState): NodeTurn | null {
    return source === null ? null : { component: this.#declaration.component, conditioning: UNCONDITIONED };
  }

  stepped(state: FrameState, loop: LoopState, { slots }: StepOutputs): { state: FrameState; gives: readonly Given[] } {
    const { output, pool } = this.#declaration;
    const { chunk, seeded } = state.source!;
    const slot = Object.values(slots)[0];
    if (slot === undefined) throw new TypeError(`a ${this.loopKind} unit fills a slot, this one filled none`);
    const frame: DecodedFrame = { chunk, frameInChunk: state.made, seeded, slot };
    const made = state.made + 1;
    const next = { ...state, loop, made, source: made === this.#model.framesPerChunk ? null : state.source };
    return { state: next, gives: [{ port: output, item: item(frame, { slots: [{ pool, slot }] }) }] };
  }

  midway({ source }: FrameState): boolean {
    return source !== null;
  }

  /** As far as it knows: every chunk that came is made. */
  finished({ source }: FrameState): boolean {
    return source === null;
  }

  blocks({ loop }: FrameState): readonly BlockId[] {
    return loop?.blocks ?? [];
  }

  demand({ chunks, frames }: Readonly<Record<string, unknown>>): NodeDemand {
    const { component, alive } = this.#declaration;
    return { alive: [[component, alive]], units: [[component, Number(chunks ?? givenChunks(frames)) * this.#model.framesPerChunk]] };
  }
}
