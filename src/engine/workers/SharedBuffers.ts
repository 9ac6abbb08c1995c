/**
 * Shared memory that blocks have given back, by size. A new buffer is zeroed and touched page by page, which costs several times the
 * copy that follows; a model's blocks have a handful of sizes, so one that was freed nearly always fits the next.
 */
export class SharedBuffers {
  readonly #free = new Map<number, SharedArrayBuffer[]>();
  readonly #capacity: number;
  #bytes = 0;

  /** @param capacity bytes kept at most; beyond it a buffer is left to the garbage collector. */
  constructor(capacity = DEFAULT_CAPACITY) {
    this.#capacity = capacity;
  }

  /** Bytes that wait. */
  get bytes(): number {
    return this.#bytes;
  }

  /** A buffer of exactly so many bytes. What is in it is left over from before. */
  take(bytes: number): SharedArrayBuffer {
    const buffer = this.#free.get(bytes)?.pop();
    if (buffer === undefined) return new SharedArrayBuffer(bytes);
    this.#bytes -= bytes;
    return buffer;
  }

  /** The caller was its only owner. */
  give(buffer: SharedArrayBuffer): void {
    const bytes = buffer.byteLength;
    if (this.#bytes + bytes > this.#capacity) return;
    const sameSize = this.#free.get(bytes);
    if (sameSize === undefined) this.#free.set(bytes, [buffer]);
    else sameSize.push(buffer);
    this.#bytes += bytes;
  }

  clear(): void {
    this.#free.clear();
    this.#bytes = 0;
  }
}

/** The blocks of two sessions of the shipped model, so that one that leaves furnishes the next. */
const DEFAULT_CAPACITY = 16 * 1024 * 1024;
