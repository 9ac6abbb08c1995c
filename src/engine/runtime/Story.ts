import { frameDuration90k, type MediaTime90k } from '../../streams/media_time.ts';
import type { SharedPool } from '../../streams/shared_pool.ts';
import type { BlockPool } from '../memory/BlockPool.ts';
import type { FilledSlot, ProgramState, RealtimeProgram } from '../programs/RealtimeProgram.ts';
import { VersionLedger } from './VersionLedger.ts';

/**
 * Generated media this far behind the newest is committed whether it was reported or not: a silent client can't pile up versions.
 * Two chunks behind what was sent, and the one that is generated ahead of that.
 */
export const HORIZON_CHUNKS = 3;

/**
 * A session's model state: the one that is generated from, the versions that can be gone back to, and how far it was seen. Whatever a state
 * holds (blocks with the executor, output slots) is let go of when the state is, exactly once.
 */
export class Story {
  readonly #program: RealtimeProgram;
  readonly #pool: BlockPool;
  readonly #slots: Readonly<Record<'video' | 'audio', SharedPool>>;
  readonly #versions: VersionLedger<ProgramState>;
  readonly #frame90k: number;
  #state: ProgramState;
  #presented90k: MediaTime90k = 0;

  constructor(program: RealtimeProgram, initial: ProgramState, pool: BlockPool, slots: Readonly<Record<'video' | 'audio', SharedPool>>) {
    this.#program = program;
    this.#pool = pool;
    this.#slots = slots;
    this.#frame90k = frameDuration90k(program.format);
    this.#state = initial;
    pool.retain(program.blocks(initial));
    this.#versions = new VersionLedger(initial, { retain: (state) => pool.retain(program.blocks(state)), release: (state) => pool.release(program.blocks(state)) });
  }

  get state(): ProgramState {
    return this.#state;
  }

  get committed(): ProgramState {
    return this.#versions.committed;
  }

  get newest(): ProgramState {
    return this.#versions.newest;
  }

  /** Versions kept, the committed one included. */
  get versions(): number {
    return this.#versions.size;
  }

  /** Versions from a position on, oldest first. */
  from(position90k: MediaTime90k): readonly ProgramState[] {
    return this.#versions.from(position90k);
  }

  /** Takes another state in the place of the one that was. @param emitted slots that went to media with this change. */
  replace(next: ProgramState, emitted: readonly FilledSlot[] = []): void {
    const before = this.#state;
    if (next === before) return;
    this.#pool.retain(this.#program.blocks(next));
    this.#state = next;
    const kept = [...this.#program.slots(next), ...emitted];
    for (const slot of this.#program.slots(before)) if (!holds(kept, slot)) this.#slots[slot.pool].release(slot.slot);
    this.#pool.release(this.#program.blocks(before));
  }

  keep(version: ProgramState): void {
    this.#versions.keep(version);
  }

  /** Another beginning: no version of before can be gone back to. */
  beginAgain(state: ProgramState): void {
    this.replace(state);
    this.#versions.beginAgain(state);
    this.#presented90k = state.position90k;
  }

  /** The newest version at or before a position; what is later is dropped. The state stays as it is until it is replaced. */
  rewindTo(position90k: MediaTime90k): ProgramState {
    return this.#versions.rewindTo(position90k);
  }

  /** What was reported as seen, as a position that can be gone back to. */
  clamp(presented90k: MediaTime90k): MediaTime90k {
    return Math.min(this.#versions.newest.position90k, Math.max(this.#versions.committed.position90k, this.#wholeFrames(presented90k)));
  }

  seen(media90k: MediaTime90k): void {
    this.#presented90k = Math.max(this.#presented90k, this.#wholeFrames(media90k));
  }

  /** After a fence: seen up to here, and no further. */
  seenOnlyTo(position90k: MediaTime90k): void {
    this.#presented90k = position90k;
  }

  /**
   * Commits what was seen, and what lies behind the horizon. The committed state where that moved it, else null.
   * @param passed told of each version that is committed by it, in order, while it is kept.
   */
  commit(passed?: (version: ProgramState) => void): ProgramState | null {
    const horizon90k = this.#versions.newest.position90k - HORIZON_CHUNKS * this.#program.framesPerChunk * this.#frame90k;
    return this.#versions.commitTo(Math.max(this.#presented90k, horizon90k), passed) ? this.#versions.committed : null;
  }

  /** Lets go of everything. */
  close(): void {
    for (const { pool, slot } of this.#program.slots(this.#state)) this.#slots[pool].release(slot);
    this.#pool.release(this.#program.blocks(this.#state));
    this.#versions.clear();
  }

  /** The unit of commit is a frame: whoever saw part of one saw it. */
  #wholeFrames(media90k: MediaTime90k): MediaTime90k {
    return Math.ceil(media90k / this.#frame90k) * this.#frame90k;
  }
}

function holds(slots: readonly FilledSlot[], { pool, slot }: FilledSlot): boolean {
  return slots.some((other) => other.pool === pool && other.slot === slot);
}
