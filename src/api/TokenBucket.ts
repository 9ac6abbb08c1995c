import type { Clock } from '../observe/clock.ts';

export interface BucketRate {
  /** Calls at once. */
  readonly burst: number;
  readonly perSecond: number;
}

/** Keys remembered: past this the one used longest ago is forgotten, and starts with a full bucket again. */
const MAX_KEYS = 4_096;

/** Token buckets by key (an address, a session). */
export class TokenBucket {
  readonly #clock: Clock;
  readonly #rate: BucketRate;
  readonly #buckets = new Map<string, { tokens: number; atMs: number }>();

  constructor(clock: Clock, rate: BucketRate) {
    this.#clock = clock;
    this.#rate = rate;
  }

  /** Takes one token: 0 where there was one, else ms until there is. */
  take(key: string): number {
    const now = this.#clock.now();
    const { burst, perSecond } = this.#rate;
    const bucket = this.#buckets.get(key) ?? { tokens: burst, atMs: now };
    bucket.tokens = Math.min(burst, bucket.tokens + ((now - bucket.atMs) / 1000) * perSecond);
    bucket.atMs = now;
    this.#buckets.delete(key);
    this.#buckets.set(key, bucket);
    if (this.#buckets.size > MAX_KEYS) this.#buckets.delete(this.#buckets.keys().next().value!);
    if (bucket.tokens < 1) return Math.ceil(((1 - bucket.tokens) / perSecond) * 1000);
    bucket.tokens -= 1;
    return 0;
  }
}
