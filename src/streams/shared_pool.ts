/**
 * A fixed number of equal slots in one shared buffer: how frames and samples cross threads without a copy.
 * One thread acquires (the engine, when it reserves a unit's output), any thread may write the bytes of a slot it was handed,
 * and whoever consumed it releases. A slot is never reused before its release: an exhausted pool refuses.
 */
export class SharedPool {
  readonly buffer: SharedArrayBuffer;
  readonly slotBytes: number;
  readonly slots: number;
  readonly #states: Int32Array;

  private constructor(buffer: SharedArrayBuffer, slotBytes: number, slots: number) {
    this.buffer = buffer;
    this.slotBytes = slotBytes;
    this.slots = slots;
    this.#states = new Int32Array(buffer, 0, slots);
  }

  /** @param slotBytes bytes of one slot, a multiple of 8. @param slots how many, ≥ 1. */
  static create(slotBytes: number, slots: number): SharedPool {
    if (!Number.isInteger(slotBytes) || slotBytes <= 0 || slotBytes % 8 !== 0) throw new TypeError(`slotBytes must be a positive multiple of 8, got ${slotBytes}`);
    if (!Number.isInteger(slots) || slots < 1) throw new TypeError(`slots must be a positive integer, got ${slots}`);
    return new SharedPool(new SharedArrayBuffer(headerBytes(slots) + slotBytes * slots), slotBytes, slots);
  }

  /** Binds to a pool that another thread created. */
  static attach(descriptor: SharedPoolDescriptor): SharedPool {
    return new SharedPool(descriptor.buffer, descriptor.slotBytes, descriptor.slots);
  }

  get descriptor(): SharedPoolDescriptor {
    return { buffer: this.buffer, slotBytes: this.slotBytes, slots: this.slots };
  }

  canAcquire(count = 1): boolean {
    return this.slots - this.used >= count;
  }

  /** A free slot, now owned by the caller, or null when the pool is exhausted. */
  acquire(): number | null {
    for (let slot = 0; slot < this.slots; slot++) {
      if (Atomics.compareExchange(this.#states, slot, FREE, USED) === FREE) return slot;
    }
    return null;
  }

  /** Releasing a free slot is harmless: it returns false and changes nothing. */
  release(slot: number): boolean {
    return Atomics.compareExchange(this.#states, slot, USED, FREE) === USED;
  }

  bytes(slot: number): Uint8Array {
    if (!(slot >= 0 && slot < this.slots)) throw new RangeError(`slot ${slot} of ${this.slots}`);
    return new Uint8Array(this.buffer, headerBytes(this.slots) + slot * this.slotBytes, this.slotBytes);
  }

  get used(): number {
    let used = 0;
    for (let slot = 0; slot < this.slots; slot++) used += Atomics.load(this.#states, slot);
    return used;
  }
}

export interface SharedPoolDescriptor {
  readonly buffer: SharedArrayBuffer;
  readonly slotBytes: number;
  readonly slots: number;
}

const FREE = 0;
const USED = 1;

function headerBytes(slots: number): number {
  return Math.ceil((slots * 4) / 64) * 64;
}
