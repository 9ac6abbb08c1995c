import type { LoopTurn } from './LoopTurn.ts';

/** A turn that waits for a worker. */
export interface QueuedTurn<Session> {
  readonly session: Session;
  readonly turn: LoopTurn;
  /** Not before this time, monotonic ms. */
  readonly releaseMs: number;
  /** Finished by this time, if everything after it is to be in time. */
  readonly deadlineMs: number;
  /** Set by whoever queued it when the session moved on; the queue drops it when it comes up. */
  void: boolean;
}

/**
 * What waits for one worker: released turns by component and deadline, and turns whose time hasn't come. Taking the most urgent
 * costs the logarithm of what waits, whatever the number of sessions. Bounded by its users: a session has at most a turn per loop.
 */
export class ReadyQueue<Session> {
  readonly #released = new Map<string, Heap<QueuedTurn<Session>>>();
  readonly #later = new Heap<QueuedTurn<Session>>((turn) => turn.releaseMs);

  push(turn: QueuedTurn<Session>, nowMs: number): void {
    if (turn.releaseMs > nowMs) this.#later.push(turn);
    else this.#release(turn);
  }

  /** Removes and returns the released turn with the earliest deadline; null where nothing is released. */
  take(nowMs: number): QueuedTurn<Session> | null {
    this.#releaseDue(nowMs);
    let first: Heap<QueuedTurn<Session>> | null = null;
    for (const heap of this.#released.values()) {
      if (this.#head(heap) !== null && (first === null || heap.peek()!.deadlineMs < first.peek()!.deadlineMs)) first = heap;
    }
    return first?.pop() ?? null;
  }

  /** Removes and returns the released turn of one component with the earliest deadline. */
  takePeer(component: string): QueuedTurn<Session> | null {
    const heap = this.#released.get(component);
    if (heap === undefined || this.#head(heap) === null) return null;
    return heap.pop();
  }

  /** Most urgent released turn of every other component: who would have to wait for a batch of `component`. */
  others(component: string): QueuedTurn<Session>[] {
    const heads: QueuedTurn<Session>[] = [];
    for (const [other, heap] of this.#released) {
      const head = other === component ? null : this.#head(heap);
      if (head !== null) heads.push(head);
    }
    return heads;
  }

  /** When the next turn is released; null where none waits for its time. */
  nextReleaseMs(): number | null {
    const head = this.#head(this.#later);
    return head === null || head.releaseMs === Infinity ? null : head.releaseMs;
  }

  get size(): number {
    let size = this.#later.size;
    for (const heap of this.#released.values()) size += heap.size;
    return size;
  }

  #releaseDue(nowMs: number): void {
    for (let head = this.#head(this.#later); head !== null && head.releaseMs <= nowMs; head = this.#head(this.#later)) this.#release(this.#later.pop()!);
  }

  #release(turn: QueuedTurn<Session>): void {
    let heap = this.#released.get(turn.turn.component);
    if (heap === undefined) this.#released.set(turn.turn.component, (heap = new Heap((queued) => queued.deadlineMs)));
    heap.push(turn);
  }

  /** First turn that is not void; void ones are dropped on the way. */
  #head(heap: Heap<QueuedTurn<Session>>): QueuedTurn<Session> | null {
    for (let head = heap.peek(); head !== null; head = heap.peek()) {
      if (!head.void) return head;
      heap.pop();
    }
    return null;
  }
}

/** Binary min-heap; equal keys leave in the order they came, so that a schedule is reproducible. */
class Heap<Item> {
  readonly #keyOf: (item: Item) => number;
  readonly #items: { readonly item: Item; readonly key: number; readonly order: number }[] = [];
  #order = 0;

  constructor(keyOf: (item: Item) => number) {
    this.#keyOf = keyOf;
  }

  get size(): number {
    return this.#items.length;
  }

  peek(): Item | null {
    return this.#items[0]?.item ?? null;
  }

  push(item: Item): void {
    this.#items.push({ item, key: this.#keyOf(item), order: this.#order++ });
    for (let at = this.#items.length - 1; at > 0; ) {
      const parent = (at - 1) >> 1;
      if (!this.#before(at, parent)) break;
      this.#swap(at, parent);
      at = parent;
    }
  }

  pop(): Item | null {
    const top = this.#items[0];
    if (top === undefined) return null;
    const last = this.#items.pop()!;
    if (this.#items.length > 0) {
      this.#items[0] = last;
      this.#sink();
    }
    return top.item;
  }

  #sink(): void {
    for (let at = 0; ; ) {
      let least = at;
      for (const child of [2 * at + 1, 2 * at + 2]) if (child < this.#items.length && this.#before(child, least)) least = child;
      if (least === at) return;
      this.#swap(at, least);
      at = least;
    }
  }

  #before(a: number, b: number): boolean {
    const first = this.#items[a]!;
    const second = this.#items[b]!;
    return first.key < second.key || (first.key === second.key && first.order < second.order);
  }

  #swap(a: number, b: number): void {
    const item = this.#items[a]!;
    this.#items[a] = this.#items[b]!;
    this.#items[b] = item;
  }
}
