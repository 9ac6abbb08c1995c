import type { MediaTime90k } from './media_time.ts';
import { Outgoing, OUTGOING_BYTES } from './outgoing.ts';

/**
 * The shared words of one session: what must be seen by all threads at once, without a message.
 *
 * - *epoch*: the fence. Only {@link SessionWords.raiseEpoch} changes it; whoever does work compares before it publishes.
 * - *closed*: set once, never cleared.
 * - *action*: the latest held input state, written by the media thread where it arrives, read by the engine at every `planStep`.
 * - *anchor*: the presentation timeline, written by the media thread alone under a sequence lock.
 * - *outgoing*: how far media has gone out, and from where on it was recalled.
 */
export class SessionWords {
  readonly buffer: SharedArrayBuffer;
  readonly outgoing: Outgoing;
  readonly #ints: Int32Array;
  readonly #floats: Float64Array;

  constructor(buffer: SharedArrayBuffer = new SharedArrayBuffer(BYTES)) {
    if (buffer.byteLength !== BYTES) throw new TypeError(`session words are ${BYTES} bytes, got ${buffer.byteLength}`);
    this.buffer = buffer;
    this.#ints = new Int32Array(buffer, 0, INTS);
    this.#floats = new Float64Array(buffer, INTS * 4, FLOATS);
    this.outgoing = new Outgoing(buffer, INTS * 4 + FLOATS * 8);
  }

  get epoch(): number {
    return Atomics.load(this.#ints, Int.epoch);
  }

  /** Fences: everything of an older epoch is void from here on. Returns the new epoch. */
  raiseEpoch(): number {
    return Atomics.add(this.#ints, Int.epoch, 1) + 1;
  }

  /** Before anybody else has it: a session that comes back goes on above every epoch it has had. */
  restoreEpoch(epoch: number): void {
    Atomics.store(this.#ints, Int.epoch, epoch);
  }

  get closed(): boolean {
    return Atomics.load(this.#ints, Int.closed) !== 0;
  }

  markClosed(): void {
    Atomics.store(this.#ints, Int.closed, 1);
  }

  /** Held input state. A torn read across fields is harmless: each field is a state of its own, and `sequence` is written last. */
  get action(): ActionState {
    const ints = this.#ints;
    const sequence = Atomics.load(ints, Int.actionSequence);
    return {
      sequence,
      steer: Atomics.load(ints, Int.steer),
      speed: Atomics.load(ints, Int.speed),
      leftPresses: Atomics.load(ints, Int.leftPresses),
      rightPresses: Atomics.load(ints, Int.rightPresses),
    };
  }

  writeAction(action: ActionState): void {
    const ints = this.#ints;
    Atomics.store(ints, Int.steer, action.steer);
    Atomics.store(ints, Int.speed, action.speed);
    Atomics.store(ints, Int.leftPresses, action.leftPresses);
    Atomics.store(ints, Int.rightPresses, action.rightPresses);
    Atomics.store(ints, Int.actionSequence, action.sequence);
  }

  /** Null until the first frame has been scheduled. */
  get anchor(): PresentationAnchor | null {
    const ints = this.#ints;
    for (;;) {
      const before = Atomics.load(ints, Int.anchorLock);
      if (before === 0) return null;
      if ((before & 1) === 1) continue; // a write is under way: it is three stores long
      const anchor = { mediaTime90k: this.#floats[Float.anchorMedia]!, atMs: this.#floats[Float.anchorMs]! };
      if (Atomics.load(ints, Int.anchorLock) === before) return anchor;
    }
  }

  /** Media thread only. */
  writeAnchor(anchor: PresentationAnchor): void {
    const ints = this.#ints;
    Atomics.add(ints, Int.anchorLock, 1);
    this.#floats[Float.anchorMedia] = anchor.mediaTime90k;
    this.#floats[Float.anchorMs] = anchor.atMs;
    Atomics.add(ints, Int.anchorLock, 1);
  }
}

/** The media time that leaves the server at a monotonic time; later media follows in step. */
export interface PresentationAnchor {
  readonly mediaTime90k: MediaTime90k;
  /** Milliseconds of `monotonicMs`. */
  readonly atMs: number;
}

export interface ActionState {
  /** The client's counter: rises with every change. */
  readonly sequence: number;
  /** −1 left, 0 straight, 1 right. */
  readonly steer: number;
  /** 0 stopped … 3 fastest. */
  readonly speed: number;
  /** Presses since the session began: a tap shorter than a step is still seen for one step. */
  readonly leftPresses: number;
  readonly rightPresses: number;
}

const Int = { epoch: 0, closed: 1, actionSequence: 2, steer: 3, speed: 4, leftPresses: 5, rightPresses: 6, anchorLock: 7 } as const;
const Float = { anchorMedia: 0, anchorMs: 1 } as const;
const INTS = 16;
const FLOATS = 4;
const BYTES = INTS * 4 + FLOATS * 8 + OUTGOING_BYTES;
