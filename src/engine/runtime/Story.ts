import { frameDuration90k, type MediaTime90k } from '../../streams/media_time.ts';
import type { SharedPool } from '../../streams/shared_pool.ts';
import type { BlockPool } from '../memory/BlockPool.ts';
import type { BlockId } from '../model/work.ts';
import type { FilledSlot, ProgramState, RealtimeProgram } from '../programs/RealtimeProgram.ts';
import type { PastMemory } from './PastMemory.ts';
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
  readonly #past: PastMemory | null;
  #state: ProgramState;
  #presented90k: MediaTime90k = 0;

  /** @param past memory for versions of so many chunks before the committed one; null: none are kept. */
  constructor(program: RealtimeProgram, initial: ProgramState, pool: BlockPool, slots: Readonly<Record<'video' | 'audio', SharedPool>>, past: { readonly memory: PastMemory; readonly chunks: number } | null = null) {
    this.#program = program;
    this.#pool = pool;
    this.#slots = slots;
    this.#frame90k = frameDuration90k(program.format);
    this.#state = initial;
    pool.retain(program.blocks(initial));
    this.#versions = new VersionLedger(initial, { retain: (state) => pool.retain(program.blocks(state)), release: (state) => pool.release(program.blocks(state)) }, (past?.chunks ?? 0) * program.framesPerChunk);
    this.#past = past?.memory ?? null;
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

  /** Versions of the past that are kept. */
  get pastVersions(): number {
    return this.#versions.past.length;
  }

  /** The newest version at or before a position, however far back; null where it isn't kept any more. */
  at(position90k: MediaTime90k): ProgramState | null {
    return this.#versions.at(position90k);
  }

  /** Versions from a position on, oldest first. */
  from(position90k: MediaTime90k): readonly ProgramState[] {
    return this.#versions.from(position90k);
  }

  /** The oldest version that reaches a position, also of the past. */
  reaching(position90k: MediaTime90k): ProgramState | undefined {
    return this.#versions.reaching(position90k);
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

  /** Goes on from a state of the past: all that came after it is let go of, committed or not. */
  goBackTo(state: ProgramState): void {
    this.replace(state);
    this.#versions.goBackTo(state);
    this.#past?.giveBack(this.#program.blocks(state));
  }

  /** Lets go of the past. True where that freed any memory. */
  forgetPast(): boolean {
    const forgot = this.#versions.forget();
    while (this.#versions.forget());
    this.#past?.release();
    return forgot;
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
    const before = this.#versions.committed;
    if (!this.#versions.commitTo(Math.max(this.#presented90k, horizon90k), passed)) return null;
    this.#chargePast(before.position90k);
    return this.#versions.committed;
  }

  /** Lets go of everything. */
  close(): void {
    for (const { pool, slot } of this.#program.slots(this.#state)) this.#slots[pool].release(slot);
    this.#pool.release(this.#program.blocks(this.#state));
    this.#versions.clear();
    this.#past?.close();
  }

  /** Versions from a position on have become past: what only they hold is charged to it, and the oldest go where it has no room. */
  #chargePast(from90k: MediaTime90k): void {
    if (this.#past === null) return;
    const { past } = this.#versions;
    const live = new Set([this.#state, ...this.#versions.from(0)].flatMap((version) => this.#program.blocks(version)));
    const departed = (): BlockId[] => this.#versions.past.filter(({ position90k }) => position90k >= from90k).flatMap((version) => this.#program.blocks(version)).filter((block) => !live.has(block));
    if (past.length > 0) while (!this.#past.charge(departed()) && this.#versions.forget());
  }

  /** The unit of commit is a frame: whoever saw part of one saw it. */
  #wholeFrames(media90k: MediaTime90k): MediaTime90k {
    return Math.ceil(media90k / this.#frame90k) * this.#frame90k;
  }
}

function holds(slots: readonly FilledSlot[], { pool, slot }: FilledSlot): boolean {
  return slots.some((other) => other.pool === pool && other.slot === slot);
}
