import type { BlockId } from '../model/work.ts';
import { HANDOVER_ITEMS } from '../programs/handover_items.ts';
import { HandedItem } from '../programs/inline_ports.ts';

/**
 * Between two stages of a run: items that lie with the consumer's executor and that it hasn't taken in yet, and the permits that its taking gives. The producer is given as many permits as items may
 * wait, so it is held, and everything before it, where the consumer is slow: nothing is dropped.
 */
export class HandOverQueue {
  readonly #release: (blocks: readonly BlockId[]) => void;
  readonly #items: HandedItem[] = [];
  /** Given to the consumer's intake and not taken in yet, or waiting here: their blocks are this queue's. */
  readonly #owned = new Set<HandedItem>();
  #permits = HANDOVER_ITEMS;
  #ended = false;
  #closed = false;
  #wakeConsumer: (() => void) | null = null;
  #wakeProducer: (() => void) | null = null;

  /** @param release lets go of blocks that nobody will take in. */
  constructor(release: (blocks: readonly BlockId[]) => void) {
    this.#release = release;
  }

  get waiting(): number {
    return this.#owned.size;
  }

  /** An item is there. False where nobody takes it any more: its blocks were let go of. */
  push(value: unknown, blocks: readonly BlockId[]): boolean {
    if (this.#closed) {
      this.#release(blocks);
      return false;
    }
    const handed = new HandedItem(value, blocks, () => {
      this.#owned.delete(handed);
      this.#permits++;
      this.#notify();
    });
    this.#owned.add(handed);
    this.#items.push(handed);
    this.#notify();
    return true;
  }

  /** The producer gives no more. */
  end(): void {
    this.#ended = true;
    this.#notify();
  }

  /** Nobody takes anything any more. Idempotent. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    for (const { blocks } of this.#owned) this.#release(blocks);
    this.#owned.clear();
    this.#items.length = 0;
    this.#notify();
  }

  /** For the consumer's intake. */
  async *items(): AsyncGenerator<HandedItem, void, undefined> {
    for (;;) {
      const next = this.#items.shift();
      if (next !== undefined) yield next;
      else if (this.#ended || this.#closed) return;
      else await new Promise<void>((resolve) => (this.#wakeConsumer = resolve));
    }
  }

  /** For the producer's intake: one for each item that may leave. */
  async *permits(): AsyncGenerator<true, void, undefined> {
    for (;;) {
      if (this.#closed) return;
      if (this.#permits > 0) {
        this.#permits--;
        yield true;
      } else await new Promise<void>((resolve) => (this.#wakeProducer = resolve));
    }
  }

  #notify(): void {
    this.#wakeConsumer?.();
    this.#wakeProducer?.();
    this.#wakeConsumer = this.#wakeProducer = null;
  }
}
