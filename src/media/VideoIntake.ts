import type { Clock } from '../observe/clock.ts';
import type { MediaFormat } from '../streams/media_time.ts';
import type { VpxDecoder } from './native.ts';

/** Frames that wait to be decoded; beyond that all of them are dropped, and a keyframe is asked for. A third of a second of a camera. */
const MAX_WAITING = 10;
/** Of an incoming picture: 1080p and a little. A header may claim 16,383 in each direction, which would be half a gigabyte. */
const MAX_PIXELS = 1920 * 1088;
/** A keyframe is asked for at most this often. */
const KEYFRAME_INTERVAL_MS = 500;
/**
 * Pictures of a session that may be referred to at once, as a ring: V8 doesn't count shared buffers, and nothing would give them back in time. 2.7 s of `drive`: longer than a
 * hold keeps a chunk waiting, or an executor that is slow.
 */
const RING = 32;
/** Pictures may come this much early: a camera's clock is not ours. */
const EARLY = 0.25;

export interface VideoIntakeDeps {
  readonly clock: Clock;
  readonly decoder: VpxDecoder;
  readonly format: MediaFormat;
  readonly framesPerChunk: number;
  /** RGB of a chunk's frames, of the format's size; written again after {@link RING} frames. */
  readonly chunk: (frames: readonly SharedArrayBuffer[]) => void;
  /** The sender must send a keyframe: nothing can be decoded before. */
  readonly keyframeNeeded: () => void;
  /** What came can't be used, and why. */
  readonly failed: (message: string) => void;
}

/**
 * Video that comes in, from VP8 frames to chunks of the model's pictures: decoded in order, scaled to cover the model's size, thinned out to its frame rate. What can't be
 * decoded in time is dropped as a whole up to the next keyframe; what is decoded and not used yet is replaced by what is newer.
 */
export class VideoIntake {
  readonly #deps: VideoIntakeDeps;
  readonly #waiting: { readonly data: Uint8Array; readonly key: boolean }[] = [];
  #decoding = false;
  #needsKeyframe = true;
  #askedMs = -Infinity;
  #takenMs = -Infinity;
  readonly #ring: SharedArrayBuffer[] = [];
  #taken = 0;
  #frames: SharedArrayBuffer[] = [];
  #dropped = 0;
  #closed = false;

  constructor(deps: VideoIntakeDeps) {
    this.#deps = deps;
  }

  /** VP8 frames that were dropped before they were decoded. */
  get dropped(): number {
    return this.#dropped;
  }

  /** One whole VP8 frame, or null where frames were lost. */
  push(frame: Uint8Array | null): void {
    if (this.#closed) return;
    const key = frame !== null && isKeyframe(frame);
    if (frame === null || (this.#needsKeyframe && !key)) return this.#resync(frame === null ? 0 : 1);
    if (key && pixelsOf(frame) > MAX_PIXELS) {
      this.#deps.failed(`a picture that comes in has at most ${MAX_PIXELS} pixels`);
      return this.#resync(1);
    }
    if (this.#waiting.length >= MAX_WAITING) return this.#resync(this.#waiting.splice(0).length + 1);
    this.#needsKeyframe = false;
    this.#waiting.push({ data: frame, key });
    void this.#decode();
  }

  /** Idempotent. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#waiting.length = 0;
    if (!this.#decoding) this.#deps.decoder.close();
  }

  #resync(dropped: number): void {
    this.#dropped += dropped;
    this.#needsKeyframe = true;
    const now = this.#deps.clock.now();
    if (now - this.#askedMs < KEYFRAME_INTERVAL_MS) return;
    this.#askedMs = now;
    this.#deps.keyframeNeeded();
  }

  async #decode(): Promise<void> {
    if (this.#decoding) return;
    this.#decoding = true;
    const { decoder, format } = this.#deps;
    for (let next = this.#waiting.shift(); next !== undefined; next = this.#waiting.shift()) {
      try {
        const { data } = await decoder.decode(next.data, 'rgb24', { width: format.width, height: format.height });
        if (!this.#closed) this.#take(data);
      } catch {
        // A damaged frame; what refers to it is damaged too.
        if (!this.#closed) this.#resync(1 + this.#waiting.splice(0).length);
      }
    }
    this.#decoding = false;
    if (this.#closed) decoder.close();
  }

  /** At the model's rate: a camera has more frames than it takes. */
  #take(rgb: Uint8Array): void {
    const now = this.#deps.clock.now();
    const { format, framesPerChunk, chunk } = this.#deps;
    const intervalMs = 1000 / format.framesPerSecond;
    if (now < this.#takenMs + (1 - EARLY) * intervalMs) return;
    // On the beat where frames come regularly, and from now on where they don't.
    this.#takenMs = now - this.#takenMs < 2 * intervalMs ? Math.max(this.#takenMs + intervalMs, now - intervalMs) : now;
    const at = this.#taken++ % RING;
    const frame = (this.#ring[at] ??= new SharedArrayBuffer(rgb.byteLength));
    new Uint8Array(frame).set(rgb);
    this.#frames.push(frame);
    if (this.#frames.length < framesPerChunk) return;
    chunk(this.#frames);
    this.#frames = [];
  }
}

/** RFC 6386, 9.1: the first bit says that it refers to others. */
function isKeyframe(frame: Uint8Array): boolean {
  return frame.length > 0 && (frame[0]! & 1) === 0;
}

/** What a keyframe's header claims. */
function pixelsOf(frame: Uint8Array): number {
  if (frame.length < 10) return 0; // the decoder will refuse it
  const side = (at: number): number => (frame[at]! | (frame[at + 1]! << 8)) & 0x3fff;
  return side(6) * side(8);
}
