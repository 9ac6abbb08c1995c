import type { AdapterInForce } from '../../protocol/session_adapter.ts';
import type { SharedPool } from '../../streams/shared_pool.ts';
import type { BlockPool } from '../memory/BlockPool.ts';
import type { ProgramState, RealtimeProgram, Transition } from '../programs/RealtimeProgram.ts';
import type { HeldAction } from '../scheduler/LoopScheduler.ts';
import { HeldState } from './HeldState.ts';
import type { CommittedUnit } from './WorkSource.ts';

/** What a fork was made from. It is worth something only while a redirect would begin with exactly this. */
export interface ForkOrigin {
  readonly version: ProgramState;
  readonly lineage: number;
  readonly action: Pick<HeldAction, 'steer' | 'speed'>;
  readonly adapter: AdapterInForce | null;
}

/**
 * One other future of a session that nobody has asked for yet: a version's blocks, counted and not copied, and what was made from it. Holds all that
 * it refers to, until it is dropped or handed over.
 */
export class DraftFork {
  readonly origin: ForkOrigin;
  readonly #held: HeldState<ProgramState>;
  readonly #program: RealtimeProgram;
  readonly #pool: BlockPool;
  readonly #slots: Readonly<Record<'video' | 'audio', SharedPool>>;
  /** Versions that its steps made, oldest first; more than one only where the origin still owed something. */
  readonly versions: ProgramState[] = [];
  /** The latest step that read held input. */
  felt: CommittedUnit | null = null;
  #made: Transition<ProgramState> | null = null;

  constructor(origin: ForkOrigin, initial: ProgramState, program: RealtimeProgram, pool: BlockPool, slots: Readonly<Record<'video' | 'audio', SharedPool>>) {
    this.origin = origin;
    this.#program = program;
    this.#pool = pool;
    this.#slots = slots;
    this.#held = new HeldState(initial, program, pool, slots);
  }

  get state(): ProgramState {
    return this.#held.state;
  }

  /** What completed its first frame; null until then. */
  get made(): Transition<ProgramState> | null {
    return this.#made;
  }

  /** Takes a step's transition in. What it would have shown is kept. */
  advance(transition: Transition<ProgramState>, unit: CommittedUnit): void {
    const { state, version, frame } = transition;
    this.#held.replace(state, [], frame === null ? [] : [{ pool: 'video', slot: frame.videoSlot }, { pool: 'audio', slot: frame.audioSlot }]);
    if (version !== null) {
      this.#pool.retain(this.#program.blocks(version));
      this.versions.push(version);
    }
    if (unit.plan.kind === 'diffusion_step') this.felt = unit;
    if (frame !== null) this.#made = transition;
  }

  /** Lets go of everything, filled slots too. Once, instead of {@link surrender}. */
  drop(): void {
    const frame = this.#made?.frame ?? null;
    if (frame !== null) {
      this.#slots.video.release(frame.videoSlot);
      this.#slots.audio.release(frame.audioSlot);
    }
    this.#releaseVersions();
    this.#held.release();
  }

  /** Lets go of its count on blocks; filled slots are the receiver's from here on, which holds the same state already. */
  surrender(): void {
    this.#releaseVersions();
    this.#pool.release(this.#program.blocks(this.#held.state));
  }

  #releaseVersions(): void {
    for (const version of this.versions.splice(0)) this.#pool.release(this.#program.blocks(version));
  }
}
