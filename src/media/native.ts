import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { SegueError } from '../protocol/errors.ts';

/**
 * The codec addon (`native/`, built by `native/build.sh`): VP8 of libvpx, Opus of libopus, colour conversion of libyuv.
 * Video runs on the addon's own threads, one call of a codec at a time and in order; more than four waiting calls are refused.
 */
export interface NativeCodecs {
  readonly VpxEncoder: new (options: VpxEncoderOptions) => VpxEncoder;
  readonly VpxDecoder: new () => VpxDecoder;
  readonly OpusEncoder: new (options: OpusEncoderOptions) => OpusEncoder;
  readonly OpusDecoder: new (options: { readonly sampleRate: number; readonly channels: number }) => OpusDecoder;
  /** Lets the calling thread go before ordinary ones; false where the process may not. The encoder threads do so by themselves. */
  readonly raiseThreadPriority: () => boolean;
  readonly vpxVersion: string;
  readonly opusVersion: string;
}

export type PixelFormat = 'rgb24' | 'i420';

export interface VpxEncoderOptions {
  /** Pixels, 2 … 16383. */
  readonly width: number;
  readonly height: number;
  /** 1 … 240; the rate control's idea of a frame's share. */
  readonly framesPerSecond: number;
  /** Bits per second, 1000 … 100,000,000. */
  readonly bitrate: number;
  /** 0 best … 16 fastest; default 6. */
  readonly speed?: number;
  /** Most that a keyframe may take, in per cent of one frame's share; 0 = no cap; default 300. */
  readonly maxKeyframePercent?: number;
}

export interface EncodedPicture {
  readonly data: Uint8Array;
  readonly keyframe: boolean;
  /** Milliseconds on the encoder thread, conversion included. */
  readonly encodeMs: number;
}

export interface VpxEncoder {
  /** Reads `pixels` until the promise settles; rejects when four calls wait already. Throws after close. */
  encode(pixels: Uint8Array, options: { readonly format: PixelFormat; readonly keyframe: boolean }): Promise<EncodedPicture>;
  /** In force from the next encode on; no keyframe. */
  setBitrate(bitsPerSecond: number): void;
  /** Idempotent; a running call still settles. */
  close(): void;
}

export interface VpxDecoder {
  /** With `fit` the picture is scaled to cover that size, and what sticks out at two sides is cut off. Rejects when four calls wait already. */
  decode(data: Uint8Array, format: PixelFormat, fit?: { readonly width: number; readonly height: number }): Promise<{ readonly width: number; readonly height: number; readonly data: Uint8Array }>;
  close(): void;
}

export interface OpusEncoderOptions {
  readonly sampleRate: 8000 | 12000 | 16000 | 24000 | 48000;
  readonly channels: 1 | 2;
  /** Bits per second, 6000 … 510,000. */
  readonly bitrate: number;
  /** 0 … 10; default 5. */
  readonly complexity?: number;
}

export interface OpusEncoder {
  /** One packet of interleaved samples: 2.5, 5, 10, 20, 40 or 60 ms. Synchronous: about 0.1 ms. */
  encode(pcm: Int16Array): Uint8Array;
  setBitrate(bitsPerSecond: number): void;
  close(): void;
}

export interface OpusDecoder {
  /** Null conceals a lost packet of 20 ms. */
  decode(packet: Uint8Array | null): Int16Array;
  close(): void;
}

const ADDON = fileURLToPath(new URL('../../native/build/segue_media.node', import.meta.url));
let loaded: NativeCodecs | null = null;

/** @throws {SegueError} `internal`, saying what to run, where the addon is not built or can't be loaded. */
export function loadNative(path: string = ADDON): NativeCodecs {
  if (loaded !== null && path === ADDON) return loaded;
  try {
    const codecs = createRequire(import.meta.url)(path) as NativeCodecs;
    if (path === ADDON) loaded = codecs;
    return codecs;
  } catch (cause) {
    throw new SegueError('internal', `the codec addon ${path} can't be loaded: run "make start" (or native/build.sh) to build it`, { cause });
  }
}
