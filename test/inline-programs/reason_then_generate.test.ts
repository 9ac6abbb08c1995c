/** The forcing case on the real model: text → reasoning → action → video → sound → pixels as one run, alone and beside live sessions. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, test } from 'node:test';
import { readPicture, reasonThenGenerate } from '../../examples/reason_then_generate.ts';
import type { BehaviorRecord, RecordedText } from '../../src/engine/runtime/BehaviorRecord.ts';
import { SegueError, type Engine, type EngineEvent, type RunOptions } from '../../src/index.ts';
import { Classifier, majority } from '../oracle/Classifier.ts';
import { openLiveEngine, Watcher } from './live_engine.ts';

const PROMPT = 'a rainy night in the city';
const INPUTS = { prompt: 'forest at dusk in fog', chunks: 5, actions: [{ steer: 1, speed: 2 }] };

let engine: Engine;
/** Most units that ran together, by loop. */
const joined = new Map<string, number>();
before(async () => {
  engine = await openLiveEngine((events) => {
    for (const { name, loopId = '', args } of events) if (name === 'dispatch') joined.set(loopId, Math.max(joined.get(loopId) ?? 0, Number(args?.['joined'])));
  });
});
after(() => engine.close());

interface Ran {
  readonly events: EngineEvent[];
  /** Of everything but what it took. */
  readonly digest: string;
  readonly record: BehaviorRecord | null;
}

async function ran(events: AsyncIterable<EngineEvent>): Promise<Ran> {
  const all: EngineEvent[] = [];
  const hash = createHash('sha256');
  let record: BehaviorRecord | null = null;
  for await (const event of events) {
    all.push(event);
    if (event.type === 'completed') record = event.record;
    else if (event.type === 'media.chunk') {
      const { pixels, samples, ...frame } = event;
      hash.update(JSON.stringify(frame)).update(pixels).update(samples);
    } else hash.update(JSON.stringify(event));
  }
  return { events: all, digest: hash.digest('hex'), record };
}

const run = (options: RunOptions = {}) => ran(engine.run('reason_then_generate', INPUTS, { seed: 11, ...options }));

/** Nothing of a run is left: blocks that are live are the cache's. */
function checkNothingLeft(): void {
  assert.equal(engine.core.stats().blocksLive, engine.core.cachedBlocks);
}

test('the example: words first, then frames that show what the words say, with sound, then what it took', async () => {
  const { events } = await ran(reasonThenGenerate(engine, PROMPT, null, { seed: 7 }));
  const text = events.map((event) => (event.type === 'text.delta' ? event.text : '')).join('');
  // Three wishes are two passes, each a plan and what it says of it.
  assert.match(text, /^\w+ night rain\. .+\ncity night rain\. .*city.*$/);
  const frames = events.filter((event) => event.type === 'media.chunk');
  const kinds = events.map(({ type }) => type);
  assert.equal(frames.length, 24);
  assert.deepEqual([kinds.lastIndexOf('text.delta') < kinds.indexOf('media.chunk'), kinds.indexOf('completed')], [true, kinds.length - 1]);
  assert.deepEqual(frames.map(({ frame }) => frame), Array.from({ length: 24 }, (_, index) => index));
  const readings = await (await Classifier.load()).read(frames.filter(({ origin }) => origin === 'generated').map(({ pixels }) => pixels));
  for (const [attribute, wanted] of [['place', 'city'], ['time', 'night'], ['weather', 'rain']] as const) {
    const { value, share } = majority(readings, attribute);
    assert.equal(value, wanted, attribute);
    assert.ok(share >= 0.75, `${attribute} ${value} in ${share}`);
  }
  for (const { samples } of frames.slice(2)) assert.ok(samples.length === 2000 && samples.some((sample) => Math.abs(sample) > 50), 'it can be heard');
  const completed = events.at(-1);
  assert.ok(completed?.type === 'completed' && completed.usage.units > 100 && completed.usage.deviceMs > 0);
  checkNothingLeft();
});

test('from a picture and words: what it shows is read, the words change that, and the film begins with the picture', async () => {
  const image = await readPicture(engine, new URL('../oracle/renders/forest-day-clear_sky.png', import.meta.url).pathname);
  const { events, digest } = await ran(reasonThenGenerate(engine, 'make it night', image, { seed: 7 }));
  const text = events.map((event) => (event.type === 'text.delta' ? event.text : '')).join('');
  assert.match(text, /^forest night clear sky\. /);
  const frames = events.filter((event) => event.type === 'media.chunk');
  assert.equal(frames.length, 24);
  const difference = frames[0]!.pixels.reduce((sum, level, at) => sum + Math.abs(level - new Uint8Array(image)[at]!), 0) / image.byteLength;
  assert.ok(difference < 12, `the first frame is the picture, ${difference.toFixed(1)} grey levels apart`);
  const readings = await (await Classifier.load()).read(frames.slice(-12).map(({ pixels }) => pixels));
  for (const [attribute, wanted] of [['place', 'forest'], ['time', 'night']] as const) {
    const { value, share } = majority(readings, attribute);
    assert.ok(value === wanted && share >= 0.75, `${attribute} ${value} in ${share}`);
  }
  assert.equal((await ran(reasonThenGenerate(engine, 'make it night', image, { seed: 7 }))).digest, digest);
  const program = 'picture_then_generate';
  await assert.rejects(ran(engine.run(program, { ...INPUTS, image: new SharedArrayBuffer(3) })), (error: unknown) => error instanceof SegueError && error.code === 'bad_request' && error.toBody().param === 'image');
  checkNothingLeft();
});

test('the same inputs give the same bits: again, and beside live sessions whose units share its batches', async () => {
  const first = await run();
  assert.equal((await run()).digest, first.digest);
  assert.notEqual((await run({ seed: 12 })).digest, first.digest, 'another seed is another film');
  const live = new Watcher(engine.session({ prompt: 'a desert at noon', seed: 3 }));
  let other: Watcher | null = null;
  try {
    other = new Watcher(engine.session({ prompt: 'coast at dawn with snow', seed: 3 }));
  } catch (error) {
    // A slow machine has no room for the second.
    assert.ok(error instanceof SegueError && error.code === 'at_capacity', String(error));
  }
  const [beside, another] = await Promise.all([run(), run({ seed: 12 })]);
  assert.equal(beside.digest, first.digest);
  assert.notEqual(another.digest, first.digest);
  assert.ok(live.frames > 0, 'it played meanwhile');
  await Promise.all([live.close(), other?.close()]);
});

test('interrupted in any loop, the language loop included: it ends at that unit, leaves nothing, and the next run is as if it had never been', async () => {
  const { digest, events } = await run();
  const text = events.filter(({ type }) => type === 'text.delta').length;
  // In the language loop, at its end, in the first picture, in the middle of a chunk, at the last frame.
  for (const at of [1, 3, text, text + 1, text + 4, events.length - 2]) {
    const stop = new AbortController();
    let given = 0;
    const units = engine.core.stats().unitsExecuted;
    await assert.rejects(async () => {
      for await (const _ of engine.run('reason_then_generate', INPUTS, { seed: 11, signal: stop.signal })) if (++given === at) stop.abort(new Error(`enough at ${at}`));
    }, new RegExp(`enough at ${at}$`));
    assert.equal(given, at, 'nothing comes after it');
    if (at <= text) assert.ok(engine.core.stats().unitsExecuted - units <= at + 4, 'and nothing is computed any more');
    checkNothingLeft();
  }
  for await (const event of engine.run('reason_then_generate', INPUTS, { seed: 11 })) if (event.type === 'media.chunk') break;
  checkNothingLeft();
  assert.equal((await run()).digest, digest);
});

test('whoever takes nothing holds the run, and ends it after a while', async () => {
  const events = engine.run('reason_then_generate', INPUTS, { buffer: 2, stallMs: 4000 });
  await events.next();
  const settled = async (): Promise<number> => {
    for (let before = -1; ; ) {
      const now = engine.core.stats().unitsExecuted;
      if (now === before) return now;
      before = now;
      await new Promise((resolve) => setTimeout(resolve, 700));
    }
  };
  await settled();
  await new Promise((resolve) => setTimeout(resolve, 4500));
  await assert.rejects(async () => {
    let event = await events.next();
    while (event.done !== true) event = await events.next();
  }, (error: unknown) => error instanceof SegueError && error.code === 'timed_out');
  checkNothingLeft();
});

test('C2: log-probabilities of sampled tokens are recomputed from the served weights, the same alone and in batches of any company', async (t) => {
  const texts: RecordedText[] = [];
  for (const [index, prompt] of ['forest at dusk in fog', 'sunny desert', 'make it night', 'a snowy mountain road at noon'].entries()) {
    const { record } = await ran(engine.run('reason_then_generate', { ...INPUTS, prompt, chunks: 1 }, { seed: index, record: { latents: false } }));
    assert.equal(record!.incomplete, false);
    texts.push(...record!.texts);
  }
  assert.ok(texts.length >= 4);
  const program = 'logprob_recompute';
  const recompute = async ({ prompt, tokens }: { prompt: readonly number[]; tokens: readonly number[] }): Promise<readonly number[]> => {
    const { events } = await ran(engine.run(program, { sampled: { prompt, tokens } }));
    const [values] = events;
    assert.ok(values?.type === 'logprobs');
    return values.values;
  };
  const alone: (readonly number[])[] = [];
  for (const text of texts) alone.push(await recompute(text));
  let largest = 0;
  for (const [index, { logprobs }] of texts.entries()) {
    assert.equal(alone[index]!.length, logprobs.length);
    logprobs.forEach((logprob, at) => (largest = Math.max(largest, Math.abs(logprob - alone[index]![at]!))));
  }
  t.diagnostic(`sampled against recomputed: largest difference ${largest.toExponential(2)}`);
  assert.ok(largest <= 1e-5, `sampled against recomputed: ${largest}`);
  // Batches of four, three, two, with everybody in every place.
  for (let size = texts.length; size >= 2; size--) {
    for (let first = 0; first < texts.length; first++) {
      const members = Array.from({ length: size }, (_, index) => (first + index) % texts.length);
      const together = await Promise.all(members.map((index) => recompute(texts[index]!)));
      assert.deepEqual(together, members.map((index) => alone[index]));
    }
  }
  // Traces go out ten times a second.
  await new Promise((resolve) => setTimeout(resolve, 200));
  t.diagnostic(`units joined: ${JSON.stringify([...joined])}`);
  assert.ok(joined.get('logprob')! > 1, 'they did share batches');
});

test('a record holds the trajectory: its latents are the ones that a run with the same seed makes again', async () => {
  const [a, b] = [await run({ record: { latents: true } }), await run({ record: { latents: true } })];
  assert.deepEqual(a.record!.trajectory.map(({ chunk, step, t, tNext, steer, speed }) => [chunk, step, t, tNext, steer, speed]), [1, 2, 3, 4].flatMap((chunk) => [[chunk, 0, 1, 0.5, 1, 2], [chunk, 1, 0.5, 0, 1, 2]]));
  assert.deepEqual(a.record!.trajectory, b.record!.trajectory);
  assert.ok(a.record!.trajectory.every(({ latents }) => latents?.length === 32 * 128));
  assert.deepEqual(structuredClone(a.record), a.record, 'plain data');
  checkNothingLeft();
});
