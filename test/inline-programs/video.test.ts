/** Given video on the real model: going on from a clip, and making it something else, alone and beside a live session. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import sharp from 'sharp';
import { clipOf, transformVideo } from '../../examples/transform_video.ts';
import { inlineOf, REASON_THEN_GENERATE, SegueError, type Engine, type EngineEvent, type RunOptions } from '../../src/index.ts';
import { Classifier, majority } from '../oracle/Classifier.ts';
import { openLiveEngine, Watcher } from './live_engine.ts';

/** Renders of the world: a forest by day that turns left, a clear desert at dawn that turns right (`python/segue_drive/world/clip.py`). */
const CLIPS = ['forest-day-left', 'desert-dawn-right'].map((name) => new URL(`../oracle/clips/${name}.png`, import.meta.url).pathname);
const STRAIGHT = [{ steer: 0, speed: 2 }];
const LEFT = [{ steer: -1, speed: 2 }];

let engine: Engine;
let clips: SharedArrayBuffer[][][];
before(async () => {
  engine = await openLiveEngine();
  clips = await Promise.all(CLIPS.map((path) => clipOf(engine, path)));
});
after(() => engine.close());

interface Ran {
  readonly frames: Extract<EngineEvent, { type: 'media.chunk' }>[];
  readonly text: string;
  readonly digest: string;
}

async function ran(events: AsyncIterable<EngineEvent>): Promise<Ran> {
  const frames: Ran['frames'][number][] = [];
  let text = '';
  const hash = createHash('sha256');
  for await (const event of events) {
    if (event.type === 'text.delta') text += event.text;
    if (event.type !== 'media.chunk') continue;
    frames.push(event);
    hash.update(event.pixels).update(event.samples);
  }
  return { frames, text, digest: hash.digest('hex') };
}

const goOn = (clip: number, prompt = 'clear sky', options: RunOptions = {}) =>
  ran(engine.run('continue_from_video', { prompt, look: clips[clip]![0]![0]!, frames: clips[clip]!, actions: LEFT, chunks: 3 }, { seed: 5, ...options }));

const transformed = (clip: number, prompt: string, strength = 0.75, options: RunOptions = {}) => ran(transformVideo(engine, clips[clip]!, prompt, { strength, seed: 5, ...options }));

/** Mean absolute difference, grey levels. */
function apart(a: Uint8Array, b: Uint8Array): number {
  let sum = 0;
  for (let at = 0; at < a.length; at++) sum += Math.abs(a[at]! - b[at]!);
  return sum / a.length;
}

/** Brightness of 14 × 8 tiles. */
function tiles(rgb: Uint8Array): number[] {
  const sums = new Array<number>(112).fill(0);
  for (let pixel = 0; pixel < 224 * 128; pixel++) {
    const tile = Math.floor(pixel / 224 / 16) * 14 + Math.floor((pixel % 224) / 16);
    sums[tile]! += 0.299 * rgb[pixel * 3]! + 0.587 * rgb[pixel * 3 + 1]! + 0.114 * rgb[pixel * 3 + 2]!;
  }
  return sums;
}

function correlation(a: readonly number[], b: readonly number[]): number {
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const [ma, mb] = [mean(a), mean(b)];
  let [ab, aa, bb] = [0, 0, 0];
  a.forEach((value, at) => {
    ab += (value - ma) * (b[at]! - mb);
    aa += (value - ma) ** 2;
    bb += (b[at]! - mb) ** 2;
  });
  return ab / Math.sqrt(aa * bb);
}

/** Brightness of the tiles of a row against the mean of that row: what is left and right of what, whatever the time of day. */
function layout(rgb: Uint8Array): number[] {
  const all = tiles(rgb);
  return all.map((value, at) => value - all.slice(Math.floor(at / 14) * 14, Math.floor(at / 14) * 14 + 14).reduce((sum, other) => sum + other, 0) / 14);
}

function meanColour(rgb: Uint8Array): number[] {
  const sums = [0, 0, 0];
  rgb.forEach((level, at) => (sums[at % 3]! += level));
  return sums.map((sum) => sum / (rgb.length / 3));
}

const distance = (a: readonly number[], b: readonly number[]): number => Math.hypot(...a.map((value, at) => value - b[at]!));
const lastOf = (clip: number): Uint8Array => new Uint8Array(clips[clip]!.at(-1)!.at(-1)!);

function checkNothingLeft(): void {
  assert.equal(engine.core.stats().blocksLive, engine.core.cachedBlocks);
}

test('continue: what comes first follows what was given last, and the story stays what it was', async (t) => {
  for (const clip of [0, 1]) {
    const { frames } = await goOn(clip);
    assert.deepEqual(frames.map(({ frame, origin }) => [frame, origin]), Array.from({ length: 6 }, (_, frame) => [frame, 'generated']));
    assert.equal(frames[0]!.chunk, clips[clip]!.length, 'chunks are counted on');
    const [own, other] = [apart(frames[0]!.pixels, lastOf(clip)), apart(frames[0]!.pixels, lastOf(1 - clip))];
    t.diagnostic(`clip ${clip}: ${own.toFixed(1)} grey levels from its last frame, ${other.toFixed(1)} from the other's`);
    assert.ok(own < 14 && own * 2 < other);
    assert.ok(frames.every(({ samples }) => samples.some((sample) => Math.abs(sample) > 50)), 'it can be heard');
  }
  const readings = await (await Classifier.load()).read((await goOn(0)).frames.map(({ pixels }) => pixels));
  assert.equal(majority(readings, 'place').value, 'forest');
  assert.equal(majority(readings, 'time').value, 'day');
  checkNothingLeft();
});

test('transform: what is where stays, and the time of day becomes what the words say', async (t) => {
  const night = await sharp(readFileSync(new URL('../oracle/renders/city-night-clear_sky.png', import.meta.url))).removeAlpha().raw().toBuffer();
  for (const strength of [0.5, 0.75]) {
    const { frames, text } = await transformed(0, 'make it night', strength);
    assert.match(text, /^forest night /, 'the words change what the video shows');
    assert.equal(frames.length, clips[0]!.length * 2);
    const last = frames.at(-1)!.pixels;
    const [own, other] = [correlation(layout(last), layout(lastOf(0))), correlation(layout(last), layout(lastOf(1)))];
    const [toNight, toDay] = [distance(meanColour(last), meanColour(night)), distance(meanColour(last), meanColour(lastOf(0)))];
    t.diagnostic(`strength ${strength}: layout ${own.toFixed(2)} like its own, ${other.toFixed(2)} like the other's; colour ${toNight.toFixed(0)} from night, ${toDay.toFixed(0)} from day`);
    assert.ok(own > 0.3 && own > other + 0.2);
    assert.ok(toNight * 2 < toDay);
  }
  checkNothingLeft();
});

test('the same inputs give the same bits: again, and beside a live session', async () => {
  const alone = [await goOn(0), await transformed(1, 'snow at night')];
  assert.equal((await goOn(0)).digest, alone[0]!.digest);
  const live = new Watcher(engine.session({ prompt: 'a desert at noon', seed: 3 }));
  const beside = await Promise.all([goOn(0), transformed(1, 'snow at night')]);
  assert.deepEqual(beside.map(({ digest }) => digest), alone.map(({ digest }) => digest));
  assert.ok(live.frames > 0, 'it played meanwhile');
  await live.close();
});

test('frames are asked for as room is there, chunk by chunk, and whoever gives them is told where the run ends', async () => {
  let asked = 0;
  let ended = false;
  async function* slow(): AsyncGenerator<readonly SharedArrayBuffer[]> {
    try {
      for (;;) {
        asked++;
        await new Promise((resolve) => setTimeout(resolve, 5));
        yield clips[0]![asked % clips[0]!.length]!;
      }
    } finally {
      ended = true;
    }
  }
  const inputs = { prompt: 'night', look: clips[0]![0]![0]!, frames: slow(), actions: STRAIGHT, strength: 0.5 };
  let made = 0;
  for await (const event of engine.run('transform_video', inputs, { buffer: 2 })) {
    if (event.type !== 'media.chunk') continue;
    made++;
    await new Promise((resolve) => setTimeout(resolve, 150));
    // One chunk each: in the buffer, in the making, encoded, being encoded, given, asked for.
    assert.ok(asked <= Math.ceil(made / 2) + 6, `${asked} chunks asked for after ${made} frames`);
    if (made === 10) break;
  }
  await new Promise((resolve) => setTimeout(resolve, 50));
  assert.ok(ended);
  checkNothingLeft();
});

test('what can not be run is refused and names its input; a source that breaks ends the run', async () => {
  const program = 'transform_video';
  const inputs = { prompt: 'night', look: clips[0]![0]![0]!, frames: clips[0]!, actions: STRAIGHT, strength: 0.75 };
  const param = async (change: object): Promise<string | undefined> => {
    try {
      await ran(engine.run(program, { ...inputs, ...change }));
      return 'taken';
    } catch (error) {
      assert.ok(error instanceof SegueError && error.code === 'bad_request', String(error));
      return error.details.param;
    }
  };
  async function* broken(): AsyncGenerator<readonly SharedArrayBuffer[]> {
    yield clips[0]![0]!;
    throw new Error('the camera is gone');
  }
  assert.equal(await param({ strength: 0 }), 'strength');
  assert.equal(await param({ strength: 1.5 }), 'strength');
  assert.equal(await param({ frames: 7 }), 'frames');
  assert.equal(await param({ frames: [] }), 'frames');
  assert.equal(await param({ frames: [[new SharedArrayBuffer(3), new SharedArrayBuffer(3)]] }), 'frames');
  assert.equal(await param({ frames: [[clips[0]![0]![0]!]] }), 'frames', 'a chunk is two frames');
  assert.equal(await param({ frames: broken() }), 'frames');
  assert.equal(await param({ actions: [{ steer: 0, speed: 9 }] }), 'actions');
  checkNothingLeft();
});

test('actions are conditioning of their own: checked against the model, packed once, consumed by the video loop', () => {
  const { spec } = inlineOf(engine).program(REASON_THEN_GENERATE);
  assert.deepEqual(spec.nodes['action'], { kind: 'condition', condition: 'action_condition' });
  assert.ok(spec.edges.some(({ kind, from, to }) => kind === 'tensor' && from === 'action' && to === 'video'));
  const around = { ...REASON_THEN_GENERATE, edges: [...REASON_THEN_GENERATE.edges.filter(({ to }) => to !== 'video.actions'), { kind: 'control', from: 'input.actions', to: 'video.actions' } as const] };
  assert.throws(() => inlineOf(engine).program(around), /control of actions can't go where tensor of action_conditioning is taken/);
});
