import type { VaeTileEncodeState } from '../../engine/model/kernels/vae_tile_encode.ts';
import { bindingContext, UNCONDITIONED } from '../../engine/model/binding_context.ts';
import type { LoopState } from '../../engine/model/loop_kernel.ts';
import type { BlockId } from '../../engine/model/work.ts';
import type { Heads, InlineNode, NodeDemand, NodeState, NodeTurn, Taken } from '../../engine/programs/InlineNode.ts';
import { item, type Given } from '../../engine/programs/inline_ports.ts';
import { SegueError } from '../../protocol/errors.ts';
import type { ImageStart } from '../../realtime-programs/continuation_model.ts';
import { givenChunks, MAX_CHUNKS, type GivenChunk } from './chunk_items.ts';

interface FramesState extends NodeState {
  readonly seed: number;
  readonly loop: VaeTileEncodeState | null;
  /** What the chunks are to look like; null: as they are. */
  readonly like: BlockId | null;
  readonly strength: number | null;
  /** The chunk that comes next. */
  readonly chunk: number;
  readonly ended: boolean;
}

/**
 * Encodes a given video chunk by chunk, as it comes. With `like` and `strength` each chunk is recoloured and noised on the way, to be denoised as
 * something else; without, it stays what it is. The end of the frames is passed on as a last item.
 */
export class FramesNode implements InlineNode<FramesState> {
  readonly loopKind: string;
  readonly components: readonly string[];
  readonly inputs = {
    frames: { kind: 'stream', type: 'frames' },
    like: { kind: 'tensor', type: 'start_latents', optional: true },
    strength: { kind: 'control', type: 'strength', optional: true },
  } as const;
  readonly outputs = { latents: { kind: 'tensor', type: 'given_latents' } } as const;
  readonly #image: ImageStart;

  constructor(image: ImageStart) {
    this.#image = image;
    this.loopKind = image.loop.kind;
    this.components = [image.videoComponent];
  }

  open(seed: number, connected: ReadonlySet<string>): FramesState {
    if (connected.has('like') !== connected.has('strength')) throw new TypeError('like and strength are connected both or neither');
    return { seed, loop: null, like: null, strength: connected.has('strength') ? null : 0, chunk: 0, ended: false };
  }

  take(state: FramesState, { frames, like, strength }: Heads): Taken<FramesState> | null {
    if (state.strength === null) {
      if (like === undefined || strength === undefined) return null;
      return { state: { ...state, like: like.value as BlockId, strength: strengthOf(strength.value) }, taken: ['like', 'strength'] };
    }
    if (state.loop !== null || state.ended || frames === undefined) return null;
    if (frames.value === null) return { state: { ...state, ended: true, like: null }, taken: ['frames'], gives: [{ port: 'latents', item: item(null) }] };
    if (state.chunk >= MAX_CHUNKS) throw bad(`at most ${MAX_CHUNKS} chunks`);
    return { state: { ...state, loop: this.#begin(state, frames.value), chunk: state.chunk + 1 }, taken: ['frames'] };
  }

  turn({ loop }: FramesState): NodeTurn | null {
    return loop === null ? null : { component: this.#image.videoComponent, conditioning: UNCONDITIONED };
  }

  stepped(state: FramesState, stepped: LoopState): { state: FramesState; gives: readonly Given[] } {
    const loop = stepped as VaeTileEncodeState;
    if (!loop.plan.done) return { state: { ...state, loop }, gives: [] };
    const given: GivenChunk = { latents: loop.latents!, level: state.strength! };
    return { state: { ...state, loop: null }, gives: [{ port: 'latents', item: item(given, { blocks: loop.blocks }) }] };
  }

  midway({ loop }: FramesState): boolean {
    return loop !== null;
  }

  finished({ ended, loop }: FramesState): boolean {
    return ended && loop === null;
  }

  blocks({ loop, like }: FramesState): readonly BlockId[] {
    return [...(loop?.blocks ?? []), ...(like === null ? [] : [like])];
  }

  demand({ frames, strength }: Readonly<Record<string, unknown>>): NodeDemand {
    if (strength !== undefined) strengthOf(strength);
    // One before it is taken, one that is made and the frame before in it, one that waits.
    return { alive: [[this.#image.videoComponent, 4]], units: [[this.#image.videoComponent, 2 * givenChunks(frames)]] };
  }

  #begin({ seed, like, strength, chunk }: FramesState, value: unknown): VaeTileEncodeState {
    const frames = Array.isArray(value) ? (value as unknown[]) : [value];
    if (!frames.every((frame) => frame instanceof SharedArrayBuffer)) throw bad('a chunk is a list of pictures in shared memory');
    try {
      return this.#image.loop.initState({ frames: frames as SharedArrayBuffer[], towards: like === null ? null : { like, level: strength!, chunk } }, bindingContext(seed));
    } catch (error) {
      throw error instanceof TypeError ? bad(error.message, error) : error;
    }
  }
}

function strengthOf(value: unknown): number {
  if (typeof value !== 'number' || !(value > 0 && value <= 1)) throw new SegueError('bad_request', `strength is above 0, at most 1, got ${String(value)}`, { param: 'strength' });
  return value;
}

function bad(problem: string, cause?: unknown): SegueError {
  return new SegueError('bad_request', `frames: ${problem}`, { param: 'frames', ...(cause === undefined ? {} : { cause }) });
}
