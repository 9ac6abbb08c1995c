import { BlockStore, frees, type BlockRelease, type SharedBlock } from './BlockStore.ts';
import type { AttachedSession, ToExecutor } from './executor_messages.ts';

/**
 * The engine's list of what an executor holds: sessions, and the blocks that lie in shared memory. It equals what the thread will hold once
 * it has read everything that was posted to it so far and is not still running: so another thread can go on from it, and copies nothing.
 */
export class BlockRegistry {
  readonly #sessions = new Map<string, AttachedSession>();
  readonly #blocks = new BlockStore();
  /** Batches that will write blocks → what was freed after they had been posted: what they write doesn't outlive it. */
  readonly #pending = new Map<number, BlockRelease[]>();

  get sessions(): number {
    return this.#sessions.size;
  }

  get blocks(): number {
    return this.#blocks.size;
  }

  has(block: number): boolean {
    return this.#blocks.get(block) !== undefined;
  }

  get(block: number): SharedBlock | undefined {
    return this.#blocks.get(block);
  }

  /** Blocks that nobody here has written. */
  put(blocks: readonly SharedBlock[]): void {
    for (const block of blocks) this.#blocks.put(block);
  }

  attach(session: AttachedSession): void {
    this.#sessions.set(session.sessionId, session);
  }

  free(release: BlockRelease): void {
    if (release.type === 'detach') this.#sessions.delete(release.sessionId);
    this.#blocks.free(release);
    for (const releases of this.#pending.values()) releases.push(release);
  }

  /** A batch was posted. */
  begin(batchId: number): void {
    this.#pending.set(batchId, []);
  }

  /** It wrote these; gives those that are still there. None where nobody waits for it any more. */
  settle(batchId: number, published: readonly SharedBlock[]): readonly SharedBlock[] {
    const releases = this.#pending.get(batchId);
    if (releases === undefined) return [];
    this.#pending.delete(batchId);
    const kept = published.filter((block) => !releases.some((release) => frees(release, block)));
    for (const block of kept) this.#blocks.put(block);
    return kept;
  }

  /** It was cancelled before it could write anything. */
  lose(batchId: number): void {
    this.#pending.delete(batchId);
  }

  /** All of it, for another thread. */
  adoption(): Extract<ToExecutor, { type: 'adopt' }> {
    return { type: 'adopt', sessions: [...this.#sessions.values()], blocks: [...this.#blocks.values()] };
  }

  clear(): void {
    this.#sessions.clear();
    this.#blocks.clear();
    this.#pending.clear();
  }
}
