/** The engine as a library on the real model: sessions, whole runs, the card, and the guide as it is written. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { play } from '../../examples/interactive_session.ts';
import { openEngine, SegueError, type Engine, type InteractiveSession, type SessionFrame } from '../../src/index.ts';
import { Classifier, majority } from '../oracle/Classifier.ts';

const ROOT = fileURLToPath(new URL('../../', import.meta.url));
const MODEL = join(ROOT, 'models/drive');

let engine: Engine;
before(async () => {
  engine = await openEngine(MODEL, { spare: false, calibrationRuns: 2 });
});
after(() => engine.close());

async function frames(session: InteractiveSession, count: number): Promise<SessionFrame[]> {
  const all: SessionFrame[] = [];
  for await (const event of session) {
    if (event.type === 'frame') all.push(event);
    if (all.length === count) break;
  }
  return all;
}

const code = (wanted: string) => (error: unknown) => error instanceof SegueError && error.code === wanted;
const checkNothingLeft = (): void => assert.equal(engine.core.stats().blocksLive, engine.core.cachedBlocks);

test('the example: a session in real time, whose redirect goes on from the very frame that was seen', async () => {
  const began = performance.now();
  const { frames: seen, text, redirect } = await play(engine, 'forest at dusk', 'desert at dawn');
  assert.ok(performance.now() - began > 35 * 80, 'frames come when they are due, not as fast as they can be made');
  assert.equal(seen.length, 36);
  seen.forEach(({ start90k, end90k }, index) => assert.deepEqual([start90k, end90k], [index * 7500, (index + 1) * 7500], 'the story has no gap and no repetition'));
  assert.deepEqual([...new Set(seen.slice(0, 24).map(({ epoch }) => epoch))], [0]);
  assert.deepEqual([...new Set(seen.slice(24).map(({ epoch }) => epoch))], [1]);
  assert.ok(seen.some(({ actionSequence }) => actionSequence === 1), 'frames were made under the key that was held');
  assert.ok(redirect.outcome === 'applied' && redirect.media90k >= 24 * 7500, JSON.stringify(redirect));
  assert.match(text, /desert/);
  const readings = await (await Classifier.load()).read(seen.slice(-6).map(({ pixels }) => pixels));
  assert.equal(majority(readings, 'place').value, 'desert');
  for (const { samples } of seen.slice(2)) assert.equal(samples.length, 2000);
  checkNothingLeft();
});

test('an interrupt stops in the call itself; resume goes on from the frame that was seen; a rewind goes back to one', async () => {
  const session = engine.session({ prompt: 'forest at dusk', seed: 5 });
  const first = await frames(session, 6);
  const { answer } = session.interrupt();
  assert.equal((await answer).outcome, 'applied');
  const waiting = frames(session, 1);
  assert.equal(await Promise.race([waiting, new Promise((resolve) => setTimeout(resolve, 400, 'silence'))]), 'silence');
  session.resume();
  const [next] = await waiting;
  assert.deepEqual([next!.start90k, next!.epoch], [first.at(-1)!.end90k, 1]);
  const { answer: back } = session.rewind(first[2]!.start90k);
  assert.equal((await back).outcome, 'applied');
  assert.equal(session.presented90k, first[2]!.start90k);
  const [again] = await frames(session, 1);
  assert.deepEqual([again!.start90k, again!.epoch], [first[2]!.start90k, 2]);
  await session.close();
  checkNothingLeft();
});

test('what is asked for is answered once: superseded by what is newer, failed for words that mean nothing, or with the session', async () => {
  const session = engine.session({ prompt: 'forest at dusk', seed: 5 });
  await frames(session, 2);
  const [older, newer] = [session.redirect('desert at dawn'), session.redirect('coast at night')];
  assert.deepEqual(await older.answer, { outcome: 'superseded', by: newer.id });
  const nonsense = session.redirect('zxqv wvut');
  const watching = frames(session, 8);
  await assert.rejects(nonsense.answer, code('prompt_not_understood'));
  assert.equal((await watching).length, 8, 'the story goes on');
  await assert.rejects(session[Symbol.asyncIterator]().next().then(() => session[Symbol.asyncIterator]().next()), code('conflict'));
  const last = session.redirect('forest at noon');
  const closed = session.close();
  await assert.rejects(last.answer, code('session_closed'));
  await Promise.all([closed, session.close()]);
  assert.throws(() => session.redirect('coast'), code('session_closed'));
  checkNothingLeft();
});

test('a session that nobody watches makes what its buffer holds and no more; aborted, it is closed', async () => {
  const stop = new AbortController();
  const session = engine.session({ seed: 2, signal: stop.signal });
  await new Promise((resolve) => setTimeout(resolve, 1500));
  const before = engine.core.stats().unitsExecuted;
  await new Promise((resolve) => setTimeout(resolve, 500));
  assert.ok(engine.core.stats().unitsExecuted - before <= 2, 'nothing is computed for nobody');
  stop.abort();
  await session.close();
  assert.equal(engine.core.stats().sessions, 0);
  checkNothingLeft();
  assert.throws(() => engine.session({ signal: stop.signal }), { name: 'AbortError' });
});

test('generate gives all of a run, the same for the same seed, and names what it can not run', async () => {
  const inputs = { prompt: 'forest at dusk in fog', chunks: 2, actions: [{ steer: 0, speed: 2 }] };
  const [a, b] = [await engine.generate('reason_then_generate', inputs, { seed: 3 }), await engine.generate('reason_then_generate', inputs, { seed: 3 })];
  assert.equal(a.frames.length, 4);
  assert.equal(a.samples.length, 4 * 2000);
  assert.match(a.text, /forest/);
  assert.deepEqual(b.frames, a.frames);
  assert.deepEqual(b.samples, a.samples);
  await assert.rejects(engine.generate('reason_then_generate', { ...inputs, chunks: 0 }), code('bad_request'));
  assert.throws(() => engine.generate('paint', {}), (error: unknown) => error instanceof SegueError && error.code === 'program_not_found' && /no program paint, there are reason_then_generate/.test(error.message));
  assert.throws(() => engine.session({ program: 'toString' }), code('program_not_found'));
});

test('the card says what the engine offers and costs', () => {
  const card = engine.deploymentCard();
  assert.equal(card.modelId, 'drive');
  assert.deepEqual(card.programs?.map(({ id }) => id), ['drive', 'drive_omni', 'drive_transform']);
  assert.deepEqual(card.inlinePrograms, ['reason_then_generate', 'picture_then_generate', 'continue_from_video', 'transform_video', 'logprob_recompute']);
  assert.ok(card.capabilities.includes('streaming_video_continuation') && card.maxSessions >= 1 && card.cost.length > 5 && card.devices === 1);
  assert.deepEqual(structuredClone(card), card, 'plain data');
});

test('close ends what goes on, twice at once as well; after it nothing begins', async () => {
  const other = await openEngine(MODEL, { spare: false, calibrationRuns: 1 });
  const session = other.session({ seed: 1 });
  const running = other.generate('reason_then_generate', { prompt: 'forest', chunks: 30, actions: [{ steer: 0, speed: 2 }] });
  running.catch(() => undefined);
  await frames(session, 1);
  await Promise.all([other.close(), other.close()]);
  await assert.rejects(running, code('engine_unavailable'));
  assert.ok(session.closed);
  assert.throws(() => other.session(), code('engine_unavailable'));
});

test('the guide runs as it is written', async () => {
  const guide = readFileSync(join(ROOT, 'docs/guides/library.md'), 'utf8');
  const blocks = [...guide.matchAll(/^```ts\n([\s\S]*?)^```/gm)].map(([, text]) => text!);
  assert.ok(blocks.length >= 4);
  const folder = mkdtempSync(join(ROOT, 'test/out-guide-'));
  try {
    const file = join(folder, 'guide.ts');
    writeFileSync(file, blocks.join('\n'));
    const { stdout } = await promisify(execFile)(process.execPath, [file], { cwd: ROOT, timeout: 60_000 });
    assert.match(stdout, /24 frames/);
    assert.match(stdout, /applied/);
  } finally {
    rmSync(folder, { recursive: true });
  }
});
