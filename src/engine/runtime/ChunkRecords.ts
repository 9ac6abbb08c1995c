import { frameDuration90k, type MediaTime90k } from '../../streams/media_time.ts';
import type { ChunkOrigin, KeptChunk, KeptTensor } from '../../streams/storage_messages.ts';
import type { BlockId } from '../model/work.ts';
import type { KeptChunkPart } from '../programs/StoryKeeping.ts';
import type { SharedBlock } from '../workers/BlockStore.ts';
import type { SessionOpening } from './session_opening.ts';

export interface ChunkRecordsOptions {
  readonly sessionId: string;
  /** Machine and runtime. */
  readonly machine: string;
  /** That serve now. */
  readonly weightsVersion: () => string;
  readonly framesPerChunk: number;
  readonly frame90k: number;
  /** A block's bytes in place; undefined where they can't be read from here. */
  readonly view: (block: BlockId) => SharedBlock | undefined;
}

/** As far back as a version can be gone back to that lies inside a chunk: versions in memory are fewer. */
const MAX_WENT = 512;

/** Makes chunks into records that stand by themselves: their tensors copied out of the executor's memory, with what made them and the epoch each frame went out in. */
export class ChunkRecords {
  readonly #options: ChunkRecordsOptions;
  /** Epoch and weights of the last frames that went out, by media time. */
  readonly #went = new Map<MediaTime90k, { readonly epoch: number; readonly weightsVersion: string }>();

  constructor(options: ChunkRecordsOptions) {
    this.#options = options;
  }

  went(start90k: MediaTime90k, epoch: number, weightsVersion: string): void {
    this.#went.delete(start90k);
    this.#went.set(start90k, { epoch, weightsVersion });
    for (const oldest of this.#went.keys()) if (this.#went.size > MAX_WENT) this.#went.delete(oldest);
  }

  /** Its blocks are there during the call. @param epoch of frames that went out before this was begun. @throws {RangeError} where a block can't be read. */
  record({ chunk, start90k, end90k, conditioningVersion, data, blocks }: KeptChunkPart, epoch: number): KeptChunk & { readonly tensors: readonly (KeptTensor & { readonly data: ArrayBuffer })[] } {
    const { framesPerChunk, frame90k, machine, weightsVersion } = this.#options;
    const went = Array.from({ length: framesPerChunk }, (_, frame) => this.#went.get(start90k + frame * frame90k) ?? { epoch, weightsVersion: weightsVersion() });
    const epochs = went.map((frame) => frame.epoch);
    // A chunk is made by the weights of its last frame; the frames that it was made around may be older.
    const last = went.at(-1)!.weightsVersion;
    const frameWeights = went.every((frame) => frame.weightsVersion === last) ? {} : { frameWeights: went.map((frame) => frame.weightsVersion) };
    const made: ChunkOrigin = { weightsVersion: last, machine, epochs, ...frameWeights };
    return { chunk, start90k, end90k, epoch: epochs.at(-1)!, conditioningVersion, data: JSON.stringify({ ...data, origin: made }), tensors: Object.entries(blocks).map(([name, block]) => this.copy(name, block)) };
  }

  /** @throws {RangeError} where it can't be read. */
  copy(name: string, block: BlockId): KeptTensor & { readonly data: ArrayBuffer } {
    const shared = this.#options.view(block);
    if (shared === undefined) throw new RangeError(`block ${block} (${name}) of ${this.#options.sessionId} can't be read`);
    const copy = new Uint8Array(shared.buffer.byteLength);
    copy.set(new Uint8Array(shared.buffer));
    return { name, dims: shared.dims.slice(1), data: copy.buffer };
  }
}

/** Null for a program whose stories aren't kept, and where the executor's memory can't be read. */
export function openRecords({ sessionId, program, device }: Pick<SessionOpening, 'sessionId' | 'program' | 'device'>): ChunkRecords | null {
  const { worker, loaded } = device;
  if (program.keeping === undefined || worker.view === undefined) return null;
  const { framesPerChunk, format } = program;
  return new ChunkRecords({ sessionId, machine: loaded.fingerprint, weightsVersion: () => device.loaded.weightsVersion, framesPerChunk, frame90k: frameDuration90k(format), view: (block) => worker.view!(block) });
}
