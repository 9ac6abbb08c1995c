import type { Tensor } from 'onnxruntime-node';
import type { BlockId, MemoryTag } from '../model/work.ts';

interface Block {
  readonly tensor: Tensor;
  readonly sessionId: string;
  readonly memory: MemoryTag;
  /** Published to a cache: may be used by other sessions, so it outlives the one that made it. */
  readonly published: boolean;
}

/** The tensors that live with one executor. Written once, never changed, freed by name. */
export class BlockStore {
  readonly #blocks = new Map<BlockId, Block>();
  #bytes = 0;

  get size(): number {
    return this.#blocks.size;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** @throws {RangeError} the id is taken: blocks are immutable. */
  put(id: BlockId, block: Block): void {
    if (this.#blocks.has(id)) throw new RangeError(`block ${id} is already written`);
    this.#blocks.set(id, block);
    this.#bytes += byteLength(block.tensor);
  }

  get(id: BlockId): Tensor | undefined {
    return this.#blocks.get(id)?.tensor;
  }

  /** Unknown ids are ignored: a unit that was cancelled never wrote its blocks. */
  release(ids: readonly BlockId[]): void {
    for (const id of ids) this.#drop(id);
  }

  releaseSession(sessionId: string): void {
    for (const [id, block] of this.#blocks) if (block.sessionId === sessionId && !block.published) this.#drop(id);
  }

  releaseMemory(memory: MemoryTag): void {
    for (const [id, block] of this.#blocks) if (block.memory === memory) this.#drop(id);
  }

  clear(): void {
    this.#blocks.clear();
    this.#bytes = 0;
  }

  #drop(id: BlockId): void {
    const block = this.#blocks.get(id);
    if (block === undefined) return;
    this.#blocks.delete(id);
    this.#bytes -= byteLength(block.tensor);
  }
}

function byteLength(tensor: Tensor): number {
  return (tensor.data as Float32Array).byteLength;
}
