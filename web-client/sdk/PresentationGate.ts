import { rtpAtOrAfter } from './rtp_time.ts';

/** What may be seen: everything in order; nothing; or nothing until the first frame of a new epoch. */
export type Presentation = 'flowing' | 'held' | 'awaiting';

/** First frame of an epoch, as the server announced it. */
export interface EpochStart {
  readonly epoch: number;
  readonly rtp: number;
  readonly audioRtp: number;
}

interface Fence {
  readonly requestId: string;
  /** An interrupt was in force when this fence came, and still is if its request comes to nothing. */
  readonly heldBefore: boolean;
  /** Epochs from here on may be seen; null until the server has told it. */
  epoch: number | null;
  /** Opens by itself once the epoch has begun; an interrupt stays shut until it is released. */
  opens: boolean;
}

/** More epochs than can be in flight at once: each costs the server a round of its own. */
const MAX_STARTS = 16;

/**
 * Decides which frames are painted around a fence. Pure: no clock, no media, no messages of its own.
 *
 * A fencing request shuts the gate in the same call in which it is made. It opens for the frame that is at or after the first RTP timestamp of an
 * epoch that is not older than the one the server has answered with. Answer, announcement and frame may come in any order: the latest frame that can't be
 * decided yet is remembered, and handed out by the call that decides it. The picture never steps back in RTP time.
 */
export class PresentationGate {
  #fence: Fence | null = null;
  /** Newest last, one per epoch. */
  #starts: EpochStart[] = [];
  /** Frames before it are never painted again. Follows the last painted frame, so that the order survives the 32-bit wrap. */
  #floor: number | null = null;
  #undecided: number | null = null;
  #lastPainted: number | null = null;
  #newestEpoch = -1;

  get presentation(): Presentation {
    if (this.#fence === null) return 'flowing';
    return this.#fence.opens ? 'awaiting' : 'held';
  }

  /** RTP timestamp of the last painted frame of this connection. */
  get lastPainted(): number | null {
    return this.#lastPainted;
  }

  /** Newest epoch heard of. */
  get newestEpoch(): number {
    return this.#newestEpoch;
  }

  /** The start of the epoch that is to be seen next, once it is known; what the sound waits for too. */
  get opening(): EpochStart | null {
    const fence = this.#fence;
    if (fence === null || !fence.opens || fence.epoch === null) return null;
    const from = fence.epoch;
    return this.#starts.find((start) => start.epoch >= from) ?? null;
  }

  /** Shuts at once. `opens`: a redirect opens by itself, an interrupt doesn't. The newest fence counts. */
  shut(requestId: string, opens: boolean): void {
    this.#fence = { requestId, heldBefore: this.#fence !== null && (!this.#fence.opens || this.#fence.heldBefore), epoch: null, opens };
    this.#undecided = null;
  }

  /** The server has answered: what it sends under this epoch or a later one is new. Returns a frame to paint now, if one was waiting. */
  accept(requestId: string, epoch: number): number | null {
    this.#newestEpoch = Math.max(this.#newestEpoch, epoch);
    if (this.#fence?.requestId !== requestId) return null;
    this.#fence.epoch = epoch;
    return this.#decide();
  }

  /** A frame notice. Only the first of each epoch matters here. */
  announce(start: EpochStart): number | null {
    this.#newestEpoch = Math.max(this.#newestEpoch, start.epoch);
    if (this.#starts.some((known) => known.epoch === start.epoch)) return null;
    this.#starts.push({ epoch: start.epoch, rtp: start.rtp, audioRtp: start.audioRtp });
    this.#starts.sort((a, b) => a.epoch - b.epoch);
    if (this.#starts.length > MAX_STARTS) this.#starts.shift();
    return this.#decide();
  }

  /** A decoded frame. Returns whether to paint it now; if not, it may still be handed out later. */
  offer(rtp: number): boolean {
    if (this.#floor !== null && !rtpAtOrAfter(rtp, this.#floor)) return false;
    if (this.#fence === null) {
      this.#painted(rtp);
      return true;
    }
    this.#undecided = rtp;
    return this.#decide() !== null;
  }

  /** Lets an interrupted picture go on with what the server sends under the epoch of the interrupt: `resume`. */
  release(): number | null {
    if (this.#fence === null) return null;
    this.#fence.opens = true;
    return this.#decide();
  }

  /**
   * The request that shut the gate came to nothing (refused, superseded by another client, never answered). Whether the server had fenced for it is not known, so
   * only what is announced from now on is taken for new. An interrupt that was in force before stays in force.
   */
  fail(requestId: string): void {
    if (this.#fence?.requestId !== requestId) return;
    if (this.#fence.heldBefore) this.#fence.opens = false;
    if (this.#fence.epoch !== null) return;
    this.#fence.epoch = this.#newestEpoch;
    this.#starts = [];
    this.#undecided = null;
  }

  /** A new connection: RTP time starts anew, epochs and an open fence stay. */
  reconnect(): void {
    this.#starts = [];
    this.#floor = null;
    this.#undecided = null;
    this.#lastPainted = null;
  }

  #decide(): number | null {
    const start = this.opening;
    const frame = this.#undecided;
    if (start === null || frame === null || !rtpAtOrAfter(frame, start.rtp)) return null;
    this.#fence = null;
    this.#starts = this.#starts.filter((known) => known.epoch > start.epoch);
    this.#painted(frame);
    return frame;
  }

  #painted(rtp: number): void {
    this.#undecided = null;
    this.#floor = rtp;
    this.#lastPainted = rtp;
  }
}
