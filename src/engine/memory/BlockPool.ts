import type { BlockId, MemoryTag } from '../model/work.ts';
import { MemoryAsleepError, MemoryInUseError } from './memory_errors.ts';

/** What a session (or a cache) may keep with one executor, in bytes by tag. A tag that is absent has no room. */
export type MemoryBudget = Readonly<Partial<Record<MemoryTag, number>>>;

/** A share of the pool that was reserved as a whole: blocks charged to it can't fail for lack of memory elsewhere. */
export interface BlockAccount {
  readonly owner: string;
  readonly budget: MemoryBudget;
  /** Bytes in use, by tag. */
  readonly used: Readonly<Record<MemoryTag, number>>;
}

export interface BlockRequest {
  readonly bytes: number;
  readonly memory: MemoryTag;
}

interface Account extends BlockAccount {
  readonly used: Record<MemoryTag, number>;
  readonly pool: BlockPool;
  closed: boolean;
}

interface Block {
  readonly bytes: number;
  readonly memory: MemoryTag;
  account: Account;
  references: number;
}

/**
 * Book-keeping of the blocks that live with one executor. The engine allocates ids, the executor holds the bytes.
 *
 * Blocks are immutable and reference-counted: a version of a loop's state is a list of ids, so keeping or forking one costs a count
 * per block and copies nothing. When a count drops to 0 the id goes to `onFree`, and the executor frees the bytes.
 *
 * Accounts reserve first (admission), blocks draw from them (dispatch): a unit that was admitted never finds the pool full.
 *
 * A tag may sleep while nothing lies in it. Until it is woken nothing of it can be promised, and allocating it is an error.
 */
export class BlockPool {
  readonly capacity: MemoryBudget;
  readonly #onFree: (block: BlockId) => void;
  readonly #blocks = new Map<BlockId, Block>();
  readonly #reserved: Record<MemoryTag, number> = { weights: 0, kv: 0, activations: 0, staging: 0 };
  readonly #accounts = new Set<Account>();
  readonly #nextId: () => BlockId;
  readonly #asleep = new Set<MemoryTag>();
  #bytes = 0;

  /** @param nextId gives ids that are unique over all pools of the engine. @param onFree called once per block, when nothing refers to it any more. */
  constructor({ capacity, nextId, onFree }: { readonly capacity: MemoryBudget; readonly nextId: () => BlockId; readonly onFree: (block: BlockId) => void }) {
    this.capacity = capacity;
    this.#nextId = nextId;
    this.#onFree = onFree;
  }

  get blocks(): number {
    return this.#blocks.size;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Accounts that are open. */
  get accounts(): number {
    return this.#accounts.size;
  }

  /** Tags that sleep. */
  get asleep(): readonly MemoryTag[] {
    return [...this.#asleep];
  }

  /**
   * All tags or none; again is no change.
   * @throws {MemoryInUseError} where blocks of a tag are held: their bytes would be gone.
   */
  sleep(tags: readonly MemoryTag[]): void {
    for (const tag of tags) {
      const owners = new Set<string>();
      for (const { memory, account } of this.#blocks.values()) if (memory === tag) owners.add(account.owner);
      if (owners.size > 0) throw new MemoryInUseError(tag, [...owners]);
    }
    for (const tag of tags) this.#asleep.add(tag);
  }

  /** Again is no change. */
  wake(tags: readonly MemoryTag[]): void {
    for (const tag of tags) this.#asleep.delete(tag);
  }

  /** Whether a whole budget fits beside what is reserved. */
  canReserve(budget: MemoryBudget): boolean {
    return TAGS.every((tag) => ((budget[tag] ?? 0) === 0 || !this.#asleep.has(tag)) && this.#reserved[tag] + (budget[tag] ?? 0) <= (this.capacity[tag] ?? 0));
  }

  /** All tags or none: null where it doesn't fit. */
  reserve(owner: string, budget: MemoryBudget): BlockAccount | null {
    if (!this.canReserve(budget)) return null;
    for (const tag of TAGS) this.#reserved[tag] += budget[tag] ?? 0;
    const account: Account = { owner, budget, used: { weights: 0, kv: 0, activations: 0, staging: 0 }, pool: this, closed: false };
    this.#accounts.add(account);
    return account;
  }

  /** Gives the reservation back; idempotent. Blocks still referenced live on until they are released, and what they take is promised to nobody before. */
  close(account: BlockAccount): void {
    const own = this.#own(account);
    if (own.closed) return;
    own.closed = true;
    this.#accounts.delete(own);
    for (const tag of TAGS) this.#reserved[tag] -= Math.max(0, (own.budget[tag] ?? 0) - own.used[tag]);
  }

  /**
   * Ids for every request, each with one reference that the caller owns; all or none. Null where the account has no room.
   * @throws {MemoryAsleepError} for memory of a tag that sleeps.
   */
  allocate(account: BlockAccount, requests: readonly BlockRequest[]): BlockId[] | null {
    const own = this.#own(account);
    if (own.closed) return null;
    const wanted: Record<MemoryTag, number> = { weights: 0, kv: 0, activations: 0, staging: 0 };
    for (const { bytes, memory } of requests) {
      if (this.#asleep.has(memory)) throw new MemoryAsleepError(memory, `${bytes} bytes for ${own.owner}`);
      wanted[memory] += bytes;
    }
    if (TAGS.some((tag) => wanted[tag] > 0 && own.used[tag] + wanted[tag] > (own.budget[tag] ?? 0))) return null;
    return requests.map(({ bytes, memory }) => {
      const id = this.#nextId();
      own.used[memory] += bytes;
      this.#bytes += bytes;
      this.#blocks.set(id, { bytes, memory, account: own, references: 1 });
      return id;
    });
  }

  /** @throws {RangeError} for a block that was freed: whoever holds a freed id would read another tensor or none. */
  retain(ids: readonly BlockId[]): void {
    for (const id of ids) this.#block(id).references++;
  }

  /** @throws {RangeError} for a block that was freed already. */
  release(ids: readonly BlockId[]): void {
    for (const id of ids) {
      const block = this.#block(id);
      block.references--;
      if (block.references > 0) continue;
      this.#blocks.delete(id);
      this.#discharge(block);
      this.#bytes -= block.bytes;
      this.#onFree(id);
    }
  }

  references(id: BlockId): number {
    return this.#blocks.get(id)?.references ?? 0;
  }

  bytesOf(ids: readonly BlockId[]): number {
    return ids.reduce((sum, id) => sum + this.#block(id).bytes, 0);
  }

  /** Charges blocks to another account (a session's result that a cache keeps); all or none, false where it doesn't fit. @param from only those charged to it; null: all. */
  transfer(ids: readonly BlockId[], to: BlockAccount, from: BlockAccount | null = null): boolean {
    const target = this.#own(to);
    const moving = [...new Set(ids)].map((id) => this.#block(id)).filter(({ account }) => account !== target && (from === null || account === from));
    const wanted: Record<MemoryTag, number> = { weights: 0, kv: 0, activations: 0, staging: 0 };
    for (const { bytes, memory } of moving) wanted[memory] += bytes;
    if (target.closed || TAGS.some((tag) => wanted[tag] > 0 && target.used[tag] + wanted[tag] > (target.budget[tag] ?? 0))) return false;
    for (const block of moving) {
      this.#discharge(block);
      block.account = target;
      target.used[block.memory] += block.bytes;
    }
    return true;
  }

  #discharge({ account, memory, bytes }: Block): void {
    account.used[memory] -= bytes;
    if (!account.closed) return;
    // Of an account that is closed only what is in use is still reserved, up to what it was.
    const budget = account.budget[memory] ?? 0;
    this.#reserved[memory] -= Math.min(budget, account.used[memory] + bytes) - Math.min(budget, account.used[memory]);
  }

  #block(id: BlockId): Block {
    const block = this.#blocks.get(id);
    if (block === undefined) throw new RangeError(`block ${id} is not live`);
    return block;
  }

  #own(account: BlockAccount): Account {
    if ((account as Account).pool !== this) throw new TypeError(`account of ${account.owner} belongs to another pool`);
    return account as Account;
  }
}

const TAGS: readonly MemoryTag[] = ['weights', 'kv', 'activations', 'staging'];
