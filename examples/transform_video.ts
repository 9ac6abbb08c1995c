/**
 * A video as words say, chunk by chunk: what is where stays, place, time and weather become what is asked for.
 *
 *   node examples/transform_video.ts test/oracle/clips/forest-day-left.png "make it night" out
 *   node examples/transform_video.ts drive.webp "a snowy city" out 0.5
 *
 * takes an animated WebP, or a picture of frames one below the other, at the model's 12 frames a second, and writes `out/frame-000.ppm` …
 * The last argument is the strength: 0.5 keeps most of what is there, 1 only follows the words. Ctrl+C ends it at the unit it is at.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import sharp from 'sharp';
import { openEngine, type Engine, type EngineEvent, type RunOptions } from '../src/index.ts';
import type { VideoFrames } from '../src/inline-programs/drive_inline.ts';

const MODEL = new URL('../models/drive', import.meta.url).pathname;
/** What the model does where nobody says how it is driven: it follows the video's road, and goes at the usual speed. */
const STRAIGHT_ON = [{ steer: 0, speed: 2 }] as const;

export interface TransformOptions extends RunOptions {
  /** Above 0, at most 1. Default 0.75. */
  readonly strength?: number;
  /** How the video was driven, chunk by chunk, where that is known. */
  readonly actions?: readonly { readonly steer: number; readonly speed: number }[];
}

/** Frames of a file in chunks of the model's size; a last frame without a partner is left out. @throws for a file that can't be read, or shows no chunk. */
export async function clipOf(engine: Engine, path: string): Promise<SharedArrayBuffer[][]> {
  const { format, framesPerChunk } = engine.spec;
  // Loaders of files are blocked where pictures of strangers are read (see ImageReader): from memory, then.
  const file = readFileSync(path);
  const { width, height, pageHeight } = await sharp(file, { animated: true }).metadata();
  const frameHeight = pageHeight ?? Math.round((width * format.height) / format.width);
  const strip = await sharp(file, { animated: true }).flatten({ background: '#ffffff' }).toColourspace('srgb').raw().toBuffer();
  const frames: SharedArrayBuffer[] = [];
  for (let top = 0; top + frameHeight <= height; top += frameHeight) {
    const cut = strip.subarray(top * width * 3, (top + frameHeight) * width * 3);
    const rgb = await sharp(cut, { raw: { width, height: frameHeight, channels: 3 } }).resize(format.width, format.height, { fit: 'cover' }).raw().toBuffer();
    const frame = new SharedArrayBuffer(rgb.length);
    new Uint8Array(frame).set(rgb);
    frames.push(frame);
  }
  const chunks = Array.from({ length: Math.floor(frames.length / framesPerChunk) }, (_, chunk) => frames.slice(chunk * framesPerChunk, (chunk + 1) * framesPerChunk));
  if (chunks.length === 0) throw new RangeError(`${path} has ${frames.length} frames, a chunk is ${framesPerChunk}`);
  return chunks;
}

/** The words change what the first frame shows. `frames` are taken as there is room for them. */
export function transformVideo(engine: Engine, clip: VideoFrames & Iterable<readonly SharedArrayBuffer[]>, prompt: string, { strength = 0.75, actions = STRAIGHT_ON, ...options }: TransformOptions = {}): AsyncGenerator<EngineEvent, void> {
  const [first] = clip;
  return engine.run('transform_video', { prompt, look: first?.[0], frames: clip, actions, strength }, options);
}

export async function main(path: string, prompt: string, out: string, strength: number, signal: AbortSignal): Promise<void> {
  const engine = await openEngine(MODEL);
  const { width, height } = engine.spec.format;
  mkdirSync(out, { recursive: true });
  try {
    for await (const event of transformVideo(engine, await clipOf(engine, path), prompt, { strength, seed: 7, signal })) {
      if (event.type === 'text.delta') process.stdout.write(event.complete ? `${event.text}\n` : event.text);
      if (event.type === 'media.chunk') writeFileSync(join(out, `frame-${String(event.frame).padStart(3, '0')}.ppm`), Buffer.concat([Buffer.from(`P6 ${width} ${height} 255\n`), event.pixels]));
      if (event.type === 'completed') console.log(`${event.usage.units} units, ${event.usage.deviceMs.toFixed(0)} ms of the device`);
    }
  } finally {
    await engine.close();
  }
}

if (import.meta.main) {
  const interrupt = new AbortController();
  process.once('SIGINT', () => interrupt.abort());
  const [path = new URL('../test/oracle/clips/forest-day-left.png', import.meta.url).pathname, prompt = 'make it night', out = 'out', strength = '0.75'] = process.argv.slice(2);
  await main(path, prompt, out, Number(strength), interrupt.signal).catch((error: unknown) => {
    if (interrupt.signal.aborted) return;
    console.error(error instanceof Error ? error.message : error);
    process.exitCode = 1;
  });
}
