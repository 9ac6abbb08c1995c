import type { BlockId, MemoryTag } from '../model/work.ts';
import type { TensorSignature } from '../model/spec/tensor_signature.ts';

/**
 * A tensor that any thread of the process can read: written once into shared memory, never changed while it has its id. Plain data, so
 * that another executor can take it over without a copy.
 */
export interface SharedBlock {
  readonly id: BlockId;
  readonly sessionId: string;
  readonly memory: MemoryTag;
  /** Published to a cache: may be used by other sessions, so it outlives the one that made it. */
  readonly published: boolean;
  readonly dtype: TensorSignature['dtype'];
  /** Batch axis of 1 included. */
  readonly dims: readonly number[];
  readonly buffer: SharedArrayBuffer;
}

/** What frees blocks: by name, with their session, or with their kind of memory. */
export type BlockRelease =
  | { readonly type: 'release'; readonly blocks: readonly BlockId[] }
  | { readonly type: 'detach'; readonly sessionId: string }
  | { readonly type: 'sleep'; readonly tags: readonly MemoryTag[] };

/** Whether a block would be freed by it. */
export function frees(release: BlockRelease, block: SharedBlock): boolean {
  switch (release.type) {
    case 'release':
      return release.blocks.includes(block.id);
    case 'detach':
      return block.sessionId === release.sessionId && !block.published;
    case 'sleep':
      return release.tags.includes(block.memory);
  }
}

/** The blocks that live with one executor, or the engine's list of them. Written once, never changed. */
export class BlockStore<Block extends SharedBlock = SharedBlock> {
  readonly #blocks = new Map<BlockId, Block>();
  readonly #freed: (block: Block) => void;
  #bytes = 0;

  /** @param freed told of every block that is freed; not of those that `clear` forgets. */
  constructor(freed: (block: Block) => void = () => undefined) {
    this.#freed = freed;
  }

  get size(): number {
    return this.#blocks.size;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** @throws {RangeError} the id is taken: blocks are immutable. */
  put(block: Block): void {
    if (this.#blocks.has(block.id)) throw new RangeError(`block ${block.id} is already written`);
    this.#blocks.set(block.id, block);
    this.#bytes += block.buffer.byteLength;
  }

  get(id: BlockId): Block | undefined {
    return this.#blocks.get(id);
  }

  values(): Iterable<Block> {
    return this.#blocks.values();
  }

  /** Unknown ids are ignored: a unit that was cancelled never wrote its blocks. */
  free(release: BlockRelease): void {
    if (release.type === 'release') for (const id of release.blocks) this.#drop(this.#blocks.get(id));
    else for (const block of this.#blocks.values()) if (frees(release, block)) this.#drop(block);
  }

  /** Forgets them all. Their memory may have another owner by now, so nobody is told that it is free. */
  clear(): void {
    this.#blocks.clear();
    this.#bytes = 0;
  }

  #drop(block: Block | undefined): void {
    if (block === undefined) return;
    this.#blocks.delete(block.id);
    this.#bytes -= block.buffer.byteLength;
    this.#freed(block);
  }
}
