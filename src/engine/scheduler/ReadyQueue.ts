import { Heap } from '../../observe/Heap.ts';
import type { LoopTurn } from './LoopTurn.ts';

/** A turn that waits for a worker. */
export interface QueuedTurn<Session> {
  readonly session: Session;
  readonly turn: LoopTurn;
  /** Not before this time, monotonic ms. */
  readonly releaseMs: number;
  /** Finished by this time, if everything after it is to be in time. */
  readonly deadlineMs: number;
  /** Place in line where another rule than the deadline says who is next: a baseline of the benchmarks. */
  readonly rank?: number;
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
      if (this.#head(heap) !== null && (first === null || rankOf(heap.peek()!) < rankOf(first.peek()!))) first = heap;
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
    if (heap === undefined) this.#released.set(turn.turn.component, (heap = new Heap<QueuedTurn<Session>>(rankOf)));
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

function rankOf({ rank, deadlineMs }: QueuedTurn<unknown>): number {
  return rank ?? deadlineMs;
}
