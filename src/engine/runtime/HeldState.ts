import type { SharedPool } from '../../streams/shared_pool.ts';
import type { BlockPool } from '../memory/BlockPool.ts';
import type { BlockId } from '../model/work.ts';
import type { FilledSlot } from '../programs/RealtimeProgram.ts';

export interface StateHolder<State> {
  blocks(state: State): readonly BlockId[];
  slots(state: State): readonly FilledSlot[];
}

/** The state of a run, and what it holds: blocks with the executor and filled slots are let go of when no state needs them, exactly once. */
export class HeldState<State> {
  readonly #holder: StateHolder<State>;
  readonly #pool: BlockPool;
  readonly #slots: Readonly<Record<'video' | 'audio', SharedPool>>;
  #state: State;
  #released = false;

  constructor(initial: State, holder: StateHolder<State>, pool: BlockPool, slots: Readonly<Record<'video' | 'audio', SharedPool>>) {
    this.#holder = holder;
    this.#pool = pool;
    this.#slots = slots;
    this.#state = initial;
    pool.retain(holder.blocks(initial));
  }

  get state(): State {
    return this.#state;
  }

  /** @param filled slots that the step has filled. @param emitted slots that belong to the receiver from here on. */
  replace(next: State, filled: readonly FilledSlot[], emitted: readonly FilledSlot[]): void {
    const before = this.#state;
    this.#pool.retain(this.#holder.blocks(next));
    this.#state = next;
    const kept = [...this.#holder.slots(next), ...emitted].map(keyOf);
    for (const slot of [...this.#holder.slots(before), ...filled]) if (!kept.includes(keyOf(slot))) this.#slots[slot.pool].release(slot.slot);
    this.#pool.release(this.#holder.blocks(before));
  }

  /** Lets go of everything; idempotent. */
  release(): void {
    if (this.#released) return;
    this.#released = true;
    for (const { pool, slot } of this.#holder.slots(this.#state)) this.#slots[pool].release(slot);
    this.#pool.release(this.#holder.blocks(this.#state));
  }
}

function keyOf({ pool, slot }: FilledSlot): string {
  return `${pool}/${slot}`;
}
