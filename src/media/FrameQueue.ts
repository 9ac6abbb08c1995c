import type { VideoChunk } from '../streams/media_events.ts';
import type { SharedPool } from '../streams/shared_pool.ts';

export type PushResult = 'queued' | 'replaced' | 'duplicate';

/**
 * Pictures that wait for their time, in the order in which the engine sent them. Owns the slot of every frame in it: a frame leaves
 * by `take` (its bytes are copied and the slot released there), or is dropped; each slot is released exactly once.
 * Bounded by the pool's slots.
 */
export class FrameQueue {
  readonly #pool: SharedPool;
  #frames: VideoChunk[] = [];

  constructor(pool: SharedPool) {
    this.#pool = pool;
  }

  get length(): number {
    return this.#frames.length;
  }

  get head(): VideoChunk | null {
    return this.#frames[0] ?? null;
  }

  get next(): VideoChunk | null {
    return this.#frames[1] ?? null;
  }

  /**
   * Takes the slot over. A `final` takes the place of the `preview` of the same range. Any other frame of a range that is queued is a
   * duplicate: its slot is released, except where it is the very slot that the queued frame still owns.
   */
  push(frame: VideoChunk): PushResult {
    if (this.#frames.some((queued) => queued.slot === frame.slot)) return 'duplicate';
    const at = this.#frames.findIndex((queued) => queued.epoch === frame.epoch && queued.start90k === frame.start90k);
    if (at < 0) {
      this.#frames.push(frame);
      return 'queued';
    }
    const queued = this.#frames[at]!;
    if (queued.stage === 'preview' && frame.stage === 'final') {
      this.#frames[at] = frame;
      this.#pool.release(queued.slot);
      return 'replaced';
    }
    this.#pool.release(frame.slot);
    return 'duplicate';
  }

  /** Copies the head's picture into `into`, releases its slot and removes it. */
  take(into: Uint8Array): VideoChunk {
    const frame = this.#frames[0];
    if (frame === undefined) throw new RangeError('the frame queue is empty');
    into.set(this.#pool.bytes(frame.slot).subarray(0, into.byteLength));
    this.dropHead();
    return frame;
  }

  dropHead(): void {
    const frame = this.#frames.shift();
    if (frame !== undefined) this.#pool.release(frame.slot);
  }

  /** Drops every frame that `stale` names; returns how many. */
  dropWhere(stale: (frame: VideoChunk) => boolean): number {
    const kept: VideoChunk[] = [];
    for (const frame of this.#frames) {
      if (stale(frame)) this.#pool.release(frame.slot);
      else kept.push(frame);
    }
    const dropped = this.#frames.length - kept.length;
    this.#frames = kept;
    return dropped;
  }

  clear(): number {
    return this.dropWhere(() => true);
  }
}
