/**
 * One run of an inline program, from words, or a picture and words, to a film: the model reasons in text, then drives, sounds and draws.
 *
 *   node examples/reason_then_generate.ts "a rainy night in the city" out
 *   node examples/reason_then_generate.ts "make it night" out picture.png
 *
 * writes `out/frame-000.ppm` …, `out/sound.wav`, and says what it thinks meanwhile. Ctrl+C ends it at the unit it is at.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { extname, join } from 'node:path';
import { ImageReader } from '../src/api/ImageReader.ts';
import { openEngine, type Engine, type EngineEvent, type RunOptions } from '../src/index.ts';

const TYPES: Readonly<Record<string, 'image/png' | 'image/jpeg' | 'image/webp'>> = { '.png': 'image/png', '.jpg': 'image/jpeg', '.jpeg': 'image/jpeg', '.webp': 'image/webp' };
const MODEL = new URL('../models/drive', import.meta.url).pathname;

/** Two seconds: straight on, then to the left, faster. With an `image` (RGB of the model's size) the story starts from it, and the words change what it shows. */
export function reasonThenGenerate(engine: Engine, prompt: string, image: SharedArrayBuffer | null, options: RunOptions = {}): AsyncGenerator<EngineEvent, void> {
  const actions = [...Array(6).fill({ steer: 0, speed: 2 }), { steer: -1, speed: 3 }];
  const inputs = { prompt, chunks: 12, actions };
  return image === null ? engine.run('reason_then_generate', inputs, options) : engine.run('picture_then_generate', { ...inputs, image }, options);
}

/** A picture file as the model takes it. @throws {SegueError} for one that can't be read. */
export function readPicture(engine: Engine, path: string): Promise<SharedArrayBuffer> {
  const mimeType = TYPES[extname(path).toLowerCase()] ?? 'image/png';
  return new ImageReader(engine.spec.format).read({ mimeType, data: readFileSync(path).toString('base64') });
}

export async function main(prompt: string, out: string, picture: string | null, signal: AbortSignal): Promise<void> {
  const engine = await openEngine(MODEL);
  const { width, height, audioSampleRate } = engine.spec.format;
  const sound: Uint8Array[] = [];
  mkdirSync(out, { recursive: true });
  try {
    const image = picture === null ? null : await readPicture(engine, picture);
    for await (const event of reasonThenGenerate(engine, prompt, image, { seed: 7, signal })) {
      if (event.type === 'text.delta') process.stdout.write(event.complete ? `${event.text}\n` : event.text);
      if (event.type === 'media.chunk') {
        writeFileSync(join(out, `frame-${String(event.frame).padStart(3, '0')}.ppm`), Buffer.concat([Buffer.from(`P6 ${width} ${height} 255\n`), event.pixels]));
        sound.push(new Uint8Array(event.samples.buffer));
      }
      if (event.type === 'completed') console.log(`${event.usage.units} units, ${event.usage.deviceMs.toFixed(0)} ms of the device`);
    }
    writeFileSync(join(out, 'sound.wav'), wav(Buffer.concat(sound), audioSampleRate));
  } finally {
    await engine.close();
  }
}

/** Mono, 16 bit. */
function wav(samples: Buffer, rate: number): Buffer {
  const header = Buffer.alloc(44);
  header.write('RIFF', 0);
  header.writeUInt32LE(36 + samples.length, 4);
  header.write('WAVEfmt ', 8);
  header.writeUInt32LE(16, 16);
  header.writeUInt16LE(1, 20);
  header.writeUInt16LE(1, 22);
  header.writeUInt32LE(rate, 24);
  header.writeUInt32LE(rate * 2, 28);
  header.writeUInt16LE(2, 32);
  header.writeUInt16LE(16, 34);
  header.write('data', 36);
  header.writeUInt32LE(samples.length, 40);
  return Buffer.concat([header, samples]);
}

if (import.meta.main) {
  const interrupt = new AbortController();
  process.once('SIGINT', () => interrupt.abort());
  const [prompt = 'a rainy night in the city', out = 'out', picture = null] = process.argv.slice(2);
  await main(prompt, out, picture, interrupt.signal).catch((error: unknown) => {
    if (interrupt.signal.aborted) return;
    console.error(error instanceof Error ? error.message : error);
    process.exitCode = 1;
  });
}
