import type { VideoContinuationState } from '../../engine/model/kernels/video_continuation.ts';
import type { Conditioning, LoopState } from '../../engine/model/loop_kernel.ts';
import type { BlockId } from '../../engine/model/work.ts';
import type { Heads, InlineNode, NodeDemand, NodeState, NodeTurn, Taken } from '../../engine/programs/InlineNode.ts';
import { item, type Given } from '../../engine/programs/inline_ports.ts';
import { SegueError } from '../../protocol/errors.ts';
import type { ContinuationModel } from '../../realtime-programs/continuation_model.ts';
import { bindingContext } from '../../engine/model/binding_context.ts';
import type { ChunkLatents } from './chunk_items.ts';

/** What is steered in one chunk. */
export interface ChunkAction {
  /** −1 left, 0 straight, 1 right. */
  readonly steer: number;
  /** 0 stopped … 3 fastest. */
  readonly speed: number;
}

/** Chunks of one run: a minute of the shipped model. */
export const MAX_CHUNKS = 360;

export interface VideoNodeState extends NodeState {
  readonly seed: number;
  readonly loop: VideoContinuationState | null;
  readonly prompt: Readonly<Record<string, BlockId>> | null;
  readonly start: BlockId | null;
  readonly chunks: number | null;
  readonly actions: readonly ChunkAction[] | null;
}

/** A whole number of chunks: the first are the start frames, each later one is denoised under its entry of the action trace. */
export class VideoNode implements InlineNode<VideoNodeState> {
  readonly loopKind = 'video_continuation';
  readonly inputs = {
    prompt: { kind: 'tensor', type: 'prompt' },
    start: { kind: 'tensor', type: 'start_latents' },
    chunks: { kind: 'control', type: 'count' },
    actions: { kind: 'control', type: 'actions' },
  } as const;
  readonly outputs = { latents: { kind: 'tensor', type: 'latents' } } as const;
  readonly components: readonly string[];
  readonly #model: ContinuationModel;

  constructor(model: ContinuationModel) {
    this.#model = model;
    this.components = [model.components.denoise, model.components.write];
  }

  open(seed: number): VideoNodeState {
    return { seed, loop: null, prompt: null, start: null, chunks: null, actions: null };
  }

  take(state: VideoNodeState, heads: Heads): Taken<VideoNodeState> | null {
    if (state.chunks === null && heads['chunks'] !== undefined) return { state: { ...state, chunks: chunksOf(heads['chunks'].value) }, taken: ['chunks'] };
    if (state.actions === null && heads['actions'] !== undefined) return { state: { ...state, actions: actionsOf(heads['actions'].value) }, taken: ['actions'] };
    const { prompt, start } = heads;
    if (state.loop !== null || state.chunks === null || state.actions === null || prompt === undefined || start === undefined) return null;
    const { video } = this.#model.loops;
    const latents = start.value as BlockId;
    const loop = video.seeded(video.initState({ firstChunk: 0 }, bindingContext(state.seed)), latents);
    return { state: { ...state, loop, prompt: prompt.value as VideoNodeState['prompt'] }, taken: ['prompt', 'start'], gives: [chunkItem({ latents, chunk: 0, seeded: true })] };
  }

  turn(state: VideoNodeState): NodeTurn | null {
    const { loop, prompt } = state;
    if (loop === null || this.finished(state)) return null;
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

  /** The last chunk is ready; nobody will look back on it, so its keys and values aren't written. */
  finished({ loop, chunks }: VideoNodeState): boolean {
    return loop !== null && chunks !== null && loop.plan.phase === 'write' && loop.plan.chunk >= chunks - 1;
  }

  blocks(state: VideoNodeState): readonly BlockId[] {
    const { loop, prompt } = state;
    if (this.finished(state)) return [];
    return [...(loop?.blocks ?? []), ...(prompt === null ? [] : Object.values(prompt))];
  }

  demand(inputs: Readonly<Record<string, unknown>>): NodeDemand {
    const { components, steps, windowChunks } = this.#model;
    const chunks = chunksOf(inputs['chunks']);
    actionsOf(inputs['actions']);
    return {
      // The window, the entry that is being written, and the oldest while it is still read.
      alive: [[components.write, windowChunks + 2], [components.denoise, 6]],
      units: [[components.denoise, (chunks - 1) * steps], [components.write, chunks - 1]],
    };
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

function actionsOf(value: unknown): readonly ChunkAction[] {
  const bad = (problem: string) => new SegueError('bad_request', `actions: ${problem}`, { param: 'actions' });
  if (!Array.isArray(value) || value.length === 0) throw bad('at least one entry; the last holds for all chunks after it');
  return value.map((entry: unknown, at): ChunkAction => {
    const { steer, speed } = (entry ?? {}) as Partial<ChunkAction>;
    if (![-1, 0, 1].includes(steer as number) || ![0, 1, 2, 3].includes(speed as number)) throw bad(`entry ${at} needs steer −1, 0 or 1 and speed 0 to 3, got ${JSON.stringify(entry)}`);
    return { steer: steer!, speed: speed! };
  });
}
