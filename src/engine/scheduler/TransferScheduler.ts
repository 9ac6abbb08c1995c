import type { BlockId } from '../model/work.ts';
import { LinkQueue } from './LinkQueue.ts';

/** Where blocks live: a worker, as far as this layer is concerned. */
export interface BlockHolder {
  release(blocks: readonly BlockId[]): void;
}

/**
 * Movement of blocks between places. Ids that nothing refers to any more go back to their executor, once per scheduling round and in one message, behind
 * whatever still reads them in its queue. What goes from one executor to another takes its turn on the link between them.
 */
export class TransferScheduler {
  readonly #pending = new Map<BlockHolder, BlockId[]>();

  readonly #links = new LinkQueue();

  /** A transfer over a link, when it has its turn there; lower priorities first. Settles as `run` does. @throws {RangeError} too many wait for the link. */
  move(link: string, priority: number, run: () => Promise<void>): Promise<void> {
    return this.#links.move(link, priority, run);
  }

  /** Called by the pool of a worker when a block's last reference goes. */
  release(holder: BlockHolder, block: BlockId): void {
    const blocks = this.#pending.get(holder);
    if (blocks === undefined) this.#pending.set(holder, [block]);
    else blocks.push(block);
  }

  /** Sends what has gathered; the number of blocks sent. */
  flush(): number {
    let sent = 0;
    for (const [holder, blocks] of this.#pending) {
      if (blocks.length === 0) continue;
      sent += blocks.length;
      holder.release(blocks);
    }
    this.#pending.clear();
    return sent;
  }
}
