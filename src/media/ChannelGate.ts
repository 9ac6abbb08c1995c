import { Compile } from 'typebox/compile';
import { CutRequest, HoldRequest, InputMessage, InterruptRequest, RedirectRequest, ReleaseRequest, RewindRequest, fences } from '../protocol/channel.ts';
import { SegueError, type ErrorBody } from '../protocol/errors.ts';
import type { Static } from 'typebox';
import type { ChannelLabel } from '../streams/messages.ts';
import type { MediaLimits } from './options.ts';

export type FencingRequest = Static<typeof InterruptRequest> | Static<typeof RedirectRequest> | Static<typeof CutRequest> | Static<typeof RewindRequest>;

export type Admitted =
  /** Raises the epoch, unless its id did already. */
  | { readonly kind: 'fence'; readonly request: FencingRequest }
  /** Stops what leaves for a while, or ends that, unless its id did already. */
  | { readonly kind: 'hold'; readonly request: Static<typeof HoldRequest> | Static<typeof ReleaseRequest> }
  | { readonly kind: 'input'; readonly message: Static<typeof InputMessage> }
  /** For the control thread to understand. */
  | { readonly kind: 'forward'; readonly type: string | null }
  | { readonly kind: 'refuse'; readonly error: ErrorBody; readonly re: string | null }
  /** Refused, and an answer to each would only add to the flood. */
  | { readonly kind: 'ignore' };

const isInput = Compile(InputMessage);
const isInterrupt = Compile(InterruptRequest);
const isRedirect = Compile(RedirectRequest);
const isCut = Compile(CutRequest);
const isRewind = Compile(RewindRequest);
const isHold = Compile(HoldRequest);
const isRelease = Compile(ReleaseRequest);

const ANSWER_INTERVAL_MS = 1000;

interface Bucket {
  tokens: number;
  atMs: number;
  answeredMs: number;
}

/**
 * The edge of the data channels: size, rate, JSON and shape, for each connection and channel apart. Decides what a message is and
 * touches nothing else. Refusals of `control` are each answered, for each request waits for one; those of `input` once a second.
 */
export class ChannelGate {
  readonly #limits: MediaLimits;
  readonly #buckets = new Map<string, Bucket>();

  constructor(limits: MediaLimits) {
    this.#limits = limits;
  }

  admit(connectionId: string | null, channel: ChannelLabel, data: string | Uint8Array, nowMs: number): Admitted {
    const bucket = this.#bucket(`${channel} ${connectionId ?? ''}`, channel, nowMs);
    const sparing = channel === 'input';
    if (typeof data !== 'string') return this.#refuse(bucket, nowMs, sparing, new SegueError('bad_json', 'messages are JSON text'), null);
    if (Buffer.byteLength(data) > this.#limits.maxMessageBytes) {
      return this.#refuse(bucket, nowMs, sparing, new SegueError('payload_too_large', `a message may have ${this.#limits.maxMessageBytes} bytes`), null);
    }
    const message = parse(data);
    const re = message === null ? null : idOf(message);
    if (bucket.tokens < 1) return this.#refuse(bucket, nowMs, sparing, new SegueError('rate_limited', 'too many messages', { retryAfterMs: 1000 }), re);
    bucket.tokens -= 1;
    if (message === null) return this.#refuse(bucket, nowMs, sparing, new SegueError('bad_json', 'a message is one JSON object'), null);
    if ((isInterrupt.Check(message) || isRedirect.Check(message) || isCut.Check(message) || isRewind.Check(message)) && fences(message)) return { kind: 'fence', request: message };
    if (channel === 'control' && (isHold.Check(message) || isRelease.Check(message))) return { kind: 'hold', request: message };
    if (channel !== 'input') return { kind: 'forward', type: typeof message['type'] === 'string' ? message['type'] : null };
    if (isInput.Check(message)) return { kind: 'input', message };
    return this.#refuse(bucket, nowMs, true, new SegueError('bad_request', 'not a message of the input channel'), re);
  }

  forget(connectionId: string): void {
    for (const key of this.#buckets.keys()) if (key.endsWith(` ${connectionId}`)) this.#buckets.delete(key);
  }

  #bucket(key: string, channel: ChannelLabel, nowMs: number): Bucket {
    const rate = channel === 'input' ? this.#limits.inputRate : this.#limits.controlRate;
    let bucket = this.#buckets.get(key);
    if (bucket === undefined) this.#buckets.set(key, (bucket = { tokens: rate * 2, atMs: nowMs, answeredMs: -Infinity }));
    bucket.tokens = Math.min(rate * 2, bucket.tokens + ((nowMs - bucket.atMs) / 1000) * rate);
    bucket.atMs = nowMs;
    return bucket;
  }

  #refuse(bucket: Bucket, nowMs: number, sparing: boolean, error: SegueError, re: string | null): Admitted {
    if (sparing && nowMs - bucket.answeredMs < ANSWER_INTERVAL_MS) return { kind: 'ignore' };
    bucket.answeredMs = nowMs;
    return { kind: 'refuse', error: error.toBody(), re };
  }
}

function parse(text: string): Record<string, unknown> | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : null;
  } catch {
    return null;
  }
}

function idOf(message: Record<string, unknown>): string | null {
  const id = message['id'];
  return typeof id === 'string' && id.length <= 64 ? id : null;
}
