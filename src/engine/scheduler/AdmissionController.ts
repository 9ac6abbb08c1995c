import type { BlockAccount, BlockPool, MemoryBudget } from '../memory/BlockPool.ts';
import type { CostModel } from './CostModel.ts';

/** What a session needs to keep its media rate: declared by its program before anything runs. */
export interface MediaDemand {
  /** Components that run per chunk, each as often as it is listed. */
  readonly chunkComponents: readonly string[];
  /** Milliseconds of media in a chunk. */
  readonly chunkMs: number;
  /** Components of one redirect from its arrival to its first changed frame, each as often as it is listed. */
  readonly redirectComponents: readonly string[];
  /** Bytes of blocks that the session keeps with its executor at most. */
  readonly memory: MemoryBudget;
  /** Bytes that each chunk of the past takes which can be gone back to at once; absent where none is kept. */
  readonly chunkMemory?: MemoryBudget;
  /** Slots that each output pool must have for media to flow. */
  readonly minSlots: { readonly video: number; readonly audio: number };
}

export interface AdmissionBound {
  /** Share of a device that may be promised, 0 … 1: the rest is for planning, hops between threads and the machine's other work. */
  readonly bound: number;
  /** Share of a device kept for each session's redirects. */
  readonly redirectReserve: number;
  /** Time that the longest unit, which can't be pre-empted, must fit into: the look-ahead. */
  readonly lookAheadMs: number;
}

export type Admission =
  | { readonly admitted: true; readonly grant: AdmissionGrant }
  | { readonly admitted: false; readonly reason: 'compute' | 'memory' | 'slots'; readonly load: number };

/** Everything that a session was promised. Released once, on every path; releasing again is harmless. */
export interface AdmissionGrant {
  readonly load: number;
  readonly account: BlockAccount;
  release(): void;
}

/**
 * Refuses what it can't sustain instead of letting everybody stutter. One per device: the sum of predicted device-seconds per second,
 * plus a reserve for redirects, plus the longest unit, stays under a stated bound, and memory is reserved with it: all or nothing.
 */
export class AdmissionController {
  readonly #costs: CostModel;
  readonly #pool: BlockPool;
  readonly #limits: AdmissionBound;
  #sessions = 0;
  /** Of admitted sessions, how many have a reserve for redirects. */
  #redirectable = 0;
  /**
   * Runs per millisecond that admitted sessions declared, by component: priced anew at every question, because costs follow what units take when undisturbed, and
   * asked at every step that is due out of a reserve, so it must not cost more the more sessions there are.
   */
  readonly #rates = new Map<string, number>();

  constructor(costs: CostModel, pool: BlockPool, limits: AdmissionBound) {
    if (!(limits.bound > 0 && limits.bound <= 1)) throw new TypeError(`bound must be in (0, 1], got ${limits.bound}`);
    this.#costs = costs;
    this.#pool = pool;
    this.#limits = limits;
  }

  /** Share of the device that is promised. */
  get load(): number {
    let load = this.#redirectable * this.#limits.redirectReserve;
    for (const [component, rate] of this.#rates) load += rate * this.#costs.undisturbed(component);
    return load;
  }

  /** Bandwidth of one session's reserve: what it was promised, and an equal part of what nobody was. */
  get reserveBandwidth(): number {
    return this.#limits.redirectReserve + Math.max(0, this.#limits.bound - this.load) / Math.max(1, this.#sessions);
  }

  /** Bandwidth of all that one session was promised, media and reserve, and of its part of what nobody was. */
  shareOf(demand: MediaDemand): number {
    return Math.min(1, this.#costs.undisturbedSum(demand.chunkComponents) / demand.chunkMs + this.reserveBandwidth);
  }

  get sessions(): number {
    return this.#sessions;
  }

  /** Share of a device that one session takes on average, its redirect reserve included; whoever can't be redirected has none. */
  demandOf(demand: MediaDemand): number {
    return this.#costs.undisturbedSum(demand.chunkComponents) / demand.chunkMs + (demand.redirectComponents.length === 0 ? 0 : this.#limits.redirectReserve);
  }

  /** Sessions of one demand that the bound lets in on an empty device. */
  capacityFor(demand: MediaDemand): number {
    return Math.max(1, Math.floor((this.#limits.bound - this.#blocking(demand)) / this.demandOf(demand) + 1e-9));
  }

  /** @param slots what the session's output pools have. */
  admit(owner: string, demand: MediaDemand, slots: { readonly video: number; readonly audio: number }): Admission {
    const load = this.demandOf(demand);
    if (slots.video < demand.minSlots.video || slots.audio < demand.minSlots.audio) return { admitted: false, reason: 'slots', load };
    // A device with nobody on it takes whoever comes first: nobody else can be hurt, and costs that a busy moment inflated are only
    // put right by running.
    if (this.#sessions > 0 && this.load + load + this.#blocking(demand) > this.#limits.bound + 1e-9) return { admitted: false, reason: 'compute', load };
    const account = this.#pool.reserve(owner, demand.memory);
    if (account === null) return { admitted: false, reason: 'memory', load };
    this.#count(demand, 1);
    let released = false;
    const release = (): void => {
      if (released) return;
      released = true;
      this.#count(demand, -1);
      this.#pool.close(account);
    };
    return { admitted: true, grant: { load, account, release } };
  }

  /** Work that only fills slack: its memory is promised, of the device's time nothing. */
  admitSlack(owner: string, memory: MemoryBudget): Admission {
    const account = this.#pool.reserve(owner, memory);
    if (account === null) return { admitted: false, reason: 'memory', load: 0 };
    return { admitted: true, grant: { load: 0, account, release: () => this.#pool.close(account) } };
  }

  #count({ chunkComponents, chunkMs, redirectComponents }: MediaDemand, sessions: 1 | -1): void {
    this.#sessions += sessions;
    if (redirectComponents.length > 0) this.#redirectable += sessions;
    for (const component of chunkComponents) this.#rates.set(component, (this.#rates.get(component) ?? 0) + sessions / chunkMs);
    // Sums of fractions that are added and taken off again don't come out at 0.
    if (this.#sessions === 0) this.#rates.clear();
  }

  /** The longest unit may have just begun when somebody's look-ahead starts. */
  #blocking({ chunkComponents, redirectComponents }: MediaDemand): number {
    return this.#costs.longest([...chunkComponents, ...redirectComponents]) / this.#limits.lookAheadMs;
  }
}
