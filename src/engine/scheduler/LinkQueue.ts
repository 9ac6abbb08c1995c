/** Transfers that may wait for one link; whoever asks for more has ignored the bounds of its hand-over queues. */
export const MAX_WAITING_TRANSFERS = 256;

interface Waiting {
  readonly priority: number;
  readonly order: number;
  readonly move: () => Promise<void>;
  readonly settled: PromiseWithResolvers<void>;
}

/** Transfers over links between executors: one at a time on each link, the most urgent first, else in their order. Links don't wait for each other. */
export class LinkQueue {
  readonly #links = new Map<string, Waiting[]>();
  readonly #busy = new Set<string>();
  #order = 0;

  /** Settles as `move` does. @throws {RangeError} too many wait for the link. */
  move(link: string, priority: number, move: () => Promise<void>): Promise<void> {
    const waiting = this.#links.get(link) ?? [];
    if (waiting.length >= MAX_WAITING_TRANSFERS) throw new RangeError(`${waiting.length} transfers wait for ${link}`);
    const settled = Promise.withResolvers<void>();
    waiting.push({ priority, order: this.#order++, move, settled });
    this.#links.set(link, waiting);
    this.#next(link);
    return settled.promise;
  }

  #next(link: string): void {
    const waiting = this.#links.get(link)!;
    if (this.#busy.has(link)) return;
    const first = waiting.sort((a, b) => a.priority - b.priority || a.order - b.order).shift();
    if (first === undefined) {
      this.#links.delete(link);
      return;
    }
    this.#busy.add(link);
    const done = (): void => {
      this.#busy.delete(link);
      this.#next(link);
    };
    first.move().then(
      () => {
        done();
        first.settled.resolve();
      },
      (error: unknown) => {
        done();
        first.settled.reject(error);
      },
    );
  }
}
