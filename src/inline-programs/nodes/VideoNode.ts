import type { VideoContinuationState } from '../../engine/model/kernels/video_continuation.ts';
import type { Conditioning, LoopState } from '../../engine/model/loop_kernel.ts';
import type { BlockId } from '../../engine/model/work.ts';
import type { Heads, InlineNode, NodeDemand, NodeState, NodeTurn, Taken } from '../../engine/programs/InlineNode.ts';
import { item, type Given, type Port, type Ports } from '../../engine/programs/inline_ports.ts';
import { SegueError } from '../../protocol/errors.ts';
import type { ContinuationModel } from '../../realtime-programs/continuation_model.ts';
import { bindingContext } from '../../engine/model/binding_context.ts';
import type { ActionConditioning } from './ActionConditionNode.ts';
import { givenChunks, MAX_CHUNKS, type ChunkLatents, type GivenChunk } from './chunk_items.ts';

/**
 * What its chunks come from. `start`: the first is given and shown, the others follow it. `clip`: given chunks are what came before, and only what follows
 * is made. `incoming`: each chunk is made from a given one.
 */
export type VideoOrigin = 'start' | 'clip' | 'incoming';

export interface VideoNodeState extends NodeState {
  readonly seed: number;
  readonly loop: VideoContinuationState | null;
  readonly prompt: Readonly<Record<string, BlockId>> | null;
  /** Chunks to be made; null until known. Of `incoming`, as many as come. */
  readonly chunks: number | null;
  readonly actions: ActionConditioning | null;
  /** Chunks that were given so far, and whether more may come. */
  readonly given: number;
  readonly ended: boolean;
}

const COUNT: Ports = { chunks: { kind: 'control', type: 'count' } };
const START: Port = { kind: 'tensor', type: 'start_latents' };
const GIVEN: Port = { kind: 'tensor', type: 'given_latents' };

/** A whole number of chunks, each under its entry of the action conditioning. */
export class VideoNode implements InlineNode<VideoNodeState> {
  readonly loopKind = 'video_continuation';
  readonly inputs: Ports;
  readonly outputs = { latents: { kind: 'tensor', type: 'latents' } } as const;
  readonly components: readonly string[];
  readonly #model: ContinuationModel;
  readonly #origin: VideoOrigin;

  constructor(model: ContinuationModel, origin: VideoOrigin) {
    this.#model = model;
    this.#origin = origin;
    this.components = [model.components.denoise, model.components.write];
    this.inputs = {
      prompt: { kind: 'tensor', type: 'prompt' },
      [origin]: origin === 'start' ? START : GIVEN,
      ...(origin === 'incoming' ? {} : COUNT),
      actions: { kind: 'tensor', type: 'action_conditioning' },
    };
  }

  open(seed: number): VideoNodeState {
    return { seed, loop: null, prompt: null, chunks: this.#origin === 'incoming' ? 0 : null, actions: null, given: 0, ended: false };
  }

  take(state: VideoNodeState, heads: Heads): Taken<VideoNodeState> | null {
    const { chunks, actions, prompt } = heads;
    if (state.chunks === null && chunks !== undefined) return { state: { ...state, chunks: chunksOf(chunks.value) }, taken: ['chunks'] };
    if (state.actions === null && actions !== undefined) return { state: { ...state, actions: actions.value as ActionConditioning }, taken: ['actions'] };
    if (state.prompt === null && state.loop === null && prompt !== undefined) return { state: { ...state, prompt: prompt.value as VideoNodeState['prompt'] }, taken: ['prompt'] };
    if (state.prompt === null || state.chunks === null || state.actions === null || state.ended) return null;
    const next = heads[this.#origin];
    const { video } = this.#model.loops;
    const loop = state.loop ?? video.initState({ firstChunk: 0 }, bindingContext(state.seed));
    if (next === undefined || !video.isFresh(loop)) return null;
    return { ...this.#given(state, loop, next.value), taken: [this.#origin] };
  }

  turn(state: VideoNodeState): NodeTurn | null {
    const { loop, prompt } = state;
    if (loop === null || this.finished(state) || (!state.ended && this.#model.loops.video.isFresh(loop))) return null;
    const { components } = this.#model;
    return { component: loop.plan.phase === 'write' ? components.write : components.denoise, conditioning: this.#conditioning(state, loop, prompt) };
  }

  stepped(state: VideoNodeState, stepped: LoopState): { state: VideoNodeState; gives: readonly Given[] } {
    const { video } = this.#model.loops;
    const loop = stepped as VideoContinuationState;
    const ready = state.loop!.plan.phase === 'denoise' && video.isChunkReady(loop);
    const next = { ...state, loop };
    const gives = ready ? [chunkItem({ latents: video.latentsOf(loop), chunk: loop.plan.chunk, seeded: false })] : [];
    return { state: ready && this.finished(next) ? { ...next, prompt: null } : next, gives };
  }

  /** Between the first denoise step of a chunk and its last. */
  midway({ loop }: VideoNodeState): boolean {
    return loop !== null && loop.plan.phase === 'denoise' && loop.plan.step > 0;
  }

  /** The last chunk is ready; nobody will look back on it, so its keys and values aren't written. */
  finished({ loop, chunks, given, ended }: VideoNodeState): boolean {
    if (!ended || loop === null || chunks === null) return false;
    const last = this.#last(given, chunks);
    return loop.plan.chunk > last || (loop.plan.phase === 'write' && loop.plan.chunk === last);
  }

  blocks(state: VideoNodeState): readonly BlockId[] {
    const { loop, prompt } = state;
    if (this.finished(state)) return [];
    return [...(loop?.blocks ?? []), ...(prompt === null ? [] : Object.values(prompt))];
  }

  demand(inputs: Readonly<Record<string, unknown>>): NodeDemand {
    const { components, steps, windowChunks } = this.#model;
    const given = this.#origin === 'start' ? 1 : givenChunks(inputs['frames']);
    const last = this.#last(given, this.#origin === 'incoming' ? 0 : chunksOf(inputs['chunks']));
    const made = this.#origin === 'incoming' ? given : last + 1 - given;
    return {
      // The window, the entry that is being written, and the oldest while it is still read.
      alive: [[components.write, windowChunks + 2], [components.denoise, 6]],
      units: [[components.denoise, made * steps], [components.write, Math.max(0, last)]],
    };
  }

  /** A given chunk comes in, or (null) the end of them. */
  #given(state: VideoNodeState, loop: VideoContinuationState, value: unknown): Omit<Taken<VideoNodeState>, 'taken'> {
    const { video } = this.#model.loops;
    if (this.#origin === 'start') {
      const latents = value as BlockId;
      const started = { ...state, loop: video.seeded(loop, latents), given: 1, ended: true };
      return { state: started, gives: [chunkItem({ latents, chunk: 0, seeded: true })] };
    }
    if (value === null) {
      if (state.given === 0) throw new SegueError('bad_request', 'frames: at least one chunk', { param: 'frames' });
      const ended = { ...state, loop, ended: true };
      return { state: this.finished(ended) ? { ...ended, prompt: null } : ended };
    }
    const { latents, level } = value as GivenChunk;
    return { state: { ...state, loop: this.#origin === 'clip' ? video.seeded(loop, latents) : video.noised(loop, latents, level), given: state.given + 1 } };
  }

  /** Index of the last chunk: start frames count as made, a clip's chunks don't. */
  #last(given: number, chunks: number): number {
    if (this.#origin === 'incoming') return given - 1;
    return this.#origin === 'start' ? chunks - 1 : given + chunks - 1;
  }

  /** A chunk's keys and values are written under what the chunk was made under. */
  #conditioning({ actions }: VideoNodeState, { plan }: VideoContinuationState, prompt: VideoNodeState['prompt']): Conditioning {
    const at = Math.min(plan.chunk, actions!.length - 1);
    return { version: 0, actionSequence: at, ...actions![at]!, prompt };
  }
}

function chunkItem(latents: ChunkLatents): Given {
  return { port: 'latents', item: item(latents, { blocks: [latents.latents] }) };
}

function chunksOf(value: unknown): number {
  if (!Number.isInteger(value) || (value as number) < 1 || (value as number) > MAX_CHUNKS) throw new SegueError('bad_request', `chunks is a whole number from 1 to ${MAX_CHUNKS}, got ${String(value)}`, { param: 'chunks' });
  return value as number;
}
