/** Requests closer together than this are one: eight joining watchers, or one that repeats its PLI, cost one keyframe. */
export const KEYFRAME_INTERVAL_MS = 300;
/** A keyframe without which nothing can be decoded comes sooner, and still not more often than this. */
export const REQUIRED_KEYFRAME_INTERVAL_MS = 100;

export type KeyframeDecision = 'key' | 'delta' | 'wait';

/** When the next encoded frame is a keyframe. */
export class KeyframePolicy {
  #lastMs = -Infinity;
  #requested = true;
  #required = true;

  /** A receiver lost a picture or joined. */
  request(): void {
    this.#requested = true;
  }

  /** An encoded frame was not sent: the encoder has gone past what receivers have, so that only a keyframe can be decoded now. */
  require(): void {
    this.#required = true;
  }

  /** `wait`: a delta frame would be undecodable and a keyframe would come too soon, so nothing is encoded now. */
  decide(nowMs: number): KeyframeDecision {
    const elapsed = nowMs - this.#lastMs;
    if (this.#required) return elapsed >= REQUIRED_KEYFRAME_INTERVAL_MS ? 'key' : 'wait';
    return this.#requested && elapsed >= KEYFRAME_INTERVAL_MS ? 'key' : 'delta';
  }

  /** A keyframe was handed to the receivers. */
  sent(nowMs: number): void {
    this.#lastMs = nowMs;
    this.#requested = false;
    this.#required = false;
  }
}
