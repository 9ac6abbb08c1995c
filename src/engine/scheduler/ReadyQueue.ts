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
  /** It can't share a batch: its session's last step failed, or nobody has asked for it yet. */
  readonly alone?: boolean;
  /** Of the queue: it was taken, or withdrawn because its session moved on. */
  void: boolean;
}

/** Turns that were withdrawn are swept out once there are this many, and as many as wait. */
const SWEEP_AT = 64;

/**
 * What waits for one worker: released turns by component and deadline, and turns whose time hasn't come. Taking the most urgent
 * costs the logarithm of what waits, whatever the number of sessions. Bounded by its users: a session has at most a turn per loop,
 * and of turns that were withdrawn no more are held than wait.
 */
export class ReadyQueue<Session> {
  readonly #released = new Map<string, Heap<QueuedTurn<Session>>>();
  /** Released, and joined by nobody. */
  readonly #alone = new Map<string, Heap<QueuedTurn<Session>>>();
  readonly #later = new Heap<QueuedTurn<Session>>((turn) => turn.releaseMs);
  #held = 0;
  #withdrawn = 0;

  push(turn: QueuedTurn<Session>, nowMs: number): void {
    turn.void = false;
    this.#held++;
    if (turn.releaseMs > nowMs) this.#later.push(turn);
    else this.#release(turn);
  }

  /** Takes a turn out wherever it waits; harmless where it doesn't any more. */
  withdraw(turn: QueuedTurn<Session>): void {
    if (turn.void) return;
    turn.void = true;
    this.#withdrawn++;
    if (this.#withdrawn >= SWEEP_AT && 2 * this.#withdrawn > this.#held) this.#sweep();
  }

  /** Removes and returns the released turn with the earliest deadline; null where nothing is released. */
  take(nowMs: number): QueuedTurn<Session> | null {
    this.#releaseDue(nowMs);
    let first: Heap<QueuedTurn<Session>> | null = null;
    for (const heaps of [this.#released, this.#alone]) {
      for (const heap of heaps.values()) {
        if (this.#head(heap) !== null && (first === null || rankOf(heap.peek()!) < rankOf(first.peek()!))) first = heap;
      }
    }
    return first === null ? null : this.#pop(first);
  }

  /** Removes and returns the released turn with the earliest deadline among those of one component that can share a batch. */
  takePeer(component: string): QueuedTurn<Session> | null {
    const heap = this.#released.get(component);
    if (heap === undefined || this.#head(heap) === null) return null;
    return this.#pop(heap);
  }

  /** Most urgent released turn of everything that would have to wait for a batch of `component`. */
  others(component: string): QueuedTurn<Session>[] {
    const heads: QueuedTurn<Session>[] = [];
    for (const heaps of [this.#released, this.#alone]) {
      for (const [other, heap] of heaps) {
        const head = heaps === this.#released && other === component ? null : this.#head(heap);
        if (head !== null) heads.push(head);
      }
    }
    return heads;
  }

  /** When the next turn is released; null where none waits for its time. */
  nextReleaseMs(): number | null {
    const head = this.#head(this.#later);
    return head === null || head.releaseMs === Infinity ? null : head.releaseMs;
  }

  /** Turns that wait. */
  get size(): number {
    return this.#held - this.#withdrawn;
  }

  /** What is held of turns, those included that were withdrawn and are not swept out yet. */
  get held(): number {
    return this.#held;
  }

  #releaseDue(nowMs: number): void {
    for (let head = this.#head(this.#later); head !== null && head.releaseMs <= nowMs; head = this.#head(this.#later)) this.#release(this.#later.pop()!);
  }

  #release(turn: QueuedTurn<Session>): void {
    const heaps = turn.alone === true ? this.#alone : this.#released;
    let heap = heaps.get(turn.turn.component);
    if (heap === undefined) heaps.set(turn.turn.component, (heap = new Heap<QueuedTurn<Session>>(rankOf)));
    heap.push(turn);
  }

  #pop(heap: Heap<QueuedTurn<Session>>): QueuedTurn<Session> {
    const turn = heap.pop()!;
    turn.void = true;
    this.#held--;
    return turn;
  }

  /** First turn that waits; withdrawn ones are dropped on the way. */
  #head(heap: Heap<QueuedTurn<Session>>): QueuedTurn<Session> | null {
    for (let head = heap.peek(); head !== null; head = heap.peek()) {
      if (!head.void) return head;
      heap.pop();
      this.#held--;
      this.#withdrawn--;
    }
    return null;
  }

  #sweep(): void {
    for (const heap of [this.#later, ...this.#released.values(), ...this.#alone.values()]) heap.retain((turn) => !turn.void);
    this.#held -= this.#withdrawn;
    this.#withdrawn = 0;
  }
}

function rankOf({ rank, deadlineMs }: QueuedTurn<unknown>): number {
  return rank ?? deadlineMs;
}
