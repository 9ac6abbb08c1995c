import type { BlockId, PlanState } from '../model/work.ts';
import type { BlockAccount, BlockPool } from '../memory/BlockPool.ts';
import { hashCacheKey, type CacheKey } from './CacheKey.ts';

/** Who may write, who may read, and what happens under pressure: one per cache class. */
export interface CachePolicy {
  readonly cacheClass: string;
  /** Bumped when the meaning of a value changes. */
  readonly contractVersion: string;
  /** Loop kinds that may publish, and that may look up. */
  readonly producers: readonly string[];
  readonly consumers: readonly string[];
  readonly eviction: 'least_recently_used';
  /** Results are bit-equal to recomputation (`exact`) or not. */
  readonly parity: 'exact' | 'approximate';
}

/** A whole step's outcome: enough to stand for the step. Half-filled values can't be built. */
export interface CachedStep {
  readonly blocks: Readonly<Record<string, BlockId>>;
  readonly values: Readonly<Record<string, readonly number[]>>;
  readonly next: PlanState;
}

export interface CacheStats {
  readonly entries: number;
  readonly blocks: number;
  readonly bytes: number;
  readonly hits: number;
  readonly misses: number;
  readonly evictions: number;
  readonly refused: number;
}

/**
 * Results of steps on one executor, found again by {@link CacheKey}. The cache holds one reference on each block of an entry;
 * eviction drops entries that nothing else refers to, least recently used first, and leaves alone whatever a live version uses.
 */
export class CacheManager {
  readonly policy: CachePolicy;
  readonly #pool: BlockPool;
  readonly #account: BlockAccount;
  /** Insertion order is order of use: a hit is taken out and put back. */
  readonly #entries = new Map<string, CachedStep>();
  #stats = { hits: 0, misses: 0, evictions: 0, refused: 0 };
  #closed = false;

  /** @param account budget of this cache; blocks that it keeps are charged to it. */
  constructor(policy: CachePolicy, pool: BlockPool, account: BlockAccount) {
    this.policy = policy;
    this.#pool = pool;
    this.#account = account;
  }

  /** The cached step, its blocks not retained: retain them before anything else happens. Null on a miss. */
  lookup(key: CacheKey, consumer: string): CachedStep | null {
    if (this.#closed || !this.policy.consumers.includes(consumer) || key.cacheContractVersion !== this.policy.contractVersion) return null;
    const hash = hashCacheKey(key);
    const entry = this.#entries.get(hash);
    if (entry === undefined) {
      this.#stats.misses++;
      return null;
    }
    this.#stats.hits++;
    this.#entries.delete(hash);
    this.#entries.set(hash, entry);
    return entry;
  }

  /** Keeps a finished step. False where the class doesn't allow it, it is there already, or there is no room even after eviction. */
  publish(key: CacheKey, step: CachedStep, producer: string): boolean {
    if (this.#closed || !this.policy.producers.includes(producer) || key.cacheContractVersion !== this.policy.contractVersion) return false;
    const hash = hashCacheKey(key);
    if (this.#entries.has(hash)) return false;
    const blocks = Object.values(step.blocks);
    while (!this.#pool.transfer(blocks, this.#account)) {
      if (!this.#evictOne()) {
        this.#stats.refused++;
        return false;
      }
    }
    this.#pool.retain(blocks);
    this.#entries.set(hash, step);
    return true;
  }

  /** Drops every entry that no version uses; the number of entries dropped. */
  trim(): number {
    let dropped = 0;
    while (this.#evictOne()) dropped++;
    return dropped;
  }

  stats(): CacheStats {
    const blocks = [...this.#entries.values()].flatMap((entry) => Object.values(entry.blocks));
    return { entries: this.#entries.size, blocks: blocks.length, bytes: this.#pool.bytesOf(blocks), ...this.#stats };
  }

  /** Drops all entries; blocks in use elsewhere live on there. Idempotent. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    for (const entry of this.#entries.values()) this.#pool.release(Object.values(entry.blocks));
    this.#entries.clear();
    this.#pool.close(this.#account);
  }

  #evictOne(): boolean {
    for (const [hash, entry] of this.#entries) {
      const blocks = Object.values(entry.blocks);
      if (blocks.some((block) => this.#pool.references(block) > 1)) continue;
      this.#entries.delete(hash);
      this.#pool.release(blocks);
      this.#stats.evictions++;
      return true;
    }
    return false;
  }
}
