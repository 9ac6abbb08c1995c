/**
 * How the engine reaches an executor whose thread is computing and reads no messages: one shared word per batch in flight.
 * Bits 0 … 30 say which units of the batch are cancelled. Bit 31 is set by the executor when it begins to publish outputs;
 * from then on it is too late. Setting and testing are one atomic step, so a cancelled unit never writes into a slot
 * that the engine has since given to somebody else.
 */
export class CancelWords {
  readonly buffer: SharedArrayBuffer;
  readonly #words: Int32Array;

  constructor(buffer: SharedArrayBuffer = new SharedArrayBuffer(4 * NUM_CANCEL_WORDS)) {
    this.buffer = buffer;
    this.#words = new Int32Array(buffer);
  }

  get count(): number {
    return this.#words.length;
  }

  /** Engine: before a batch is handed over. */
  reset(word: number): void {
    Atomics.store(this.#words, word, 0);
  }

  /** Engine: cancels units by their index in the batch. False where the executor has begun to publish: results will come. */
  cancel(word: number, unitIndices: readonly number[]): boolean {
    const bits = unitIndices.reduce((mask, index) => mask | (1 << index), 0) & ~PUBLISHING;
    return (Atomics.or(this.#words, word, bits) & PUBLISHING) === 0;
  }

  /** Executor: whether a unit is cancelled so far. */
  isCancelled(word: number, unitIndex: number): boolean {
    return (Atomics.load(this.#words, word) & (1 << unitIndex)) !== 0;
  }

  /** Executor: closes the word to cancellation and returns a test for what was cancelled before. */
  beginPublish(word: number): (unitIndex: number) => boolean {
    const cancelled = Atomics.or(this.#words, word, PUBLISHING);
    return (unitIndex) => (cancelled & (1 << unitIndex)) !== 0;
  }
}

/** One more than the most batches in flight, so that one given up as lost can keep its word while others run. */
export const NUM_CANCEL_WORDS = 16;
export const MAX_UNITS_PER_BATCH = 31;
const PUBLISHING = 1 << 31;
