import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Let go of so much, a thread collects: pools of 30 to 60 sessions. */
const LIMIT_BYTES = 32 * 1024 * 1024;

/**
 * Shared buffers come back only when every thread that knew them has collected garbage, and V8 counts none of their bytes: a thread that makes little
 * garbage of its own (an executor makes next to none) would keep the buffers of thousands of sessions. So each thread counts what it lets go
 * of, and collects when it is a lot. That stops it for some milliseconds, once in dozens of sessions.
 */
export class DroppedMemory {
  readonly #collect: () => void;
  #bytes = 0;

  /** @param collect collects the garbage of the calling thread. */
  constructor(collect: () => void = collector()) {
    this.#collect = collect;
  }

  /** Nothing here refers to these buffers any more. */
  dropped(...buffers: readonly SharedArrayBuffer[]): void {
    for (const { byteLength } of buffers) this.#bytes += byteLength;
    if (this.#bytes < LIMIT_BYTES) return;
    this.#bytes = 0;
    // Not now: the caller's own variables still refer to them.
    setImmediate(this.#collect);
  }
}

/** Node has `gc` only with a flag; it may be set at any time, and shows in contexts made after that. */
function collector(): () => void {
  setFlagsFromString('--expose-gc');
  return runInNewContext('gc') as () => void;
}
