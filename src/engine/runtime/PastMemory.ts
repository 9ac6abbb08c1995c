import type { BlockAccount, BlockPool } from '../memory/BlockPool.ts';
import type { BlockId } from '../model/work.ts';
import type { Admission, AdmissionGrant } from '../scheduler/AdmissionController.ts';

export interface PastMemoryOptions {
  readonly pool: BlockPool;
  /** The session's own account. */
  readonly account: BlockAccount;
  /** Asks for memory that nobody needs in order to keep a promise. */
  readonly reserve: () => Admission;
}

/**
 * Memory of versions that nothing goes on from any more. An account of its own, so that they never take what the session was promised; given up at once to whoever
 * asks for a session's memory, and asked for again later.
 */
export class PastMemory {
  readonly #options: PastMemoryOptions;
  #grant: AdmissionGrant | null = null;
  #closed = false;

  constructor(options: PastMemoryOptions) {
    this.#options = options;
  }

  /** Charges blocks that only the past holds; false where there is no room. */
  charge(blocks: readonly BlockId[]): boolean {
    const { pool, account, reserve } = this.#options;
    if (this.#closed) return false;
    if (this.#grant === null) {
      const admission = reserve();
      if (!admission.admitted) return false;
      this.#grant = admission.grant;
    }
    return pool.transfer(blocks, this.#grant.account, account);
  }

  /** Blocks are of the present again. Where the session's account has no room for them yet they stay charged here until they go. */
  giveBack(blocks: readonly BlockId[]): void {
    if (this.#grant !== null) this.#options.pool.transfer(blocks, this.#options.account, this.#grant.account);
  }

  /** Gives the reservation back. */
  release(): void {
    this.#grant?.release();
    this.#grant = null;
  }

  /** Idempotent. */
  close(): void {
    this.#closed = true;
    this.release();
  }
}
