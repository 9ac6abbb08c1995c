/** What happens when an executor thread stops answering or dies while a spare waits. Real threads, real weights. */
import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import type { PlannedUnit, StepResult } from '../../../src/engine/model/work.ts';
import type { Takeover } from '../../../src/engine/workers/Worker.ts';
import { contextOf, ExecutorBench } from '../model/ExecutorBench.ts';

/** Longer than the time after which a silent executor with a spare is given up, short enough to wait for. */
const HANG_MS = 900;
const MODEL_LOAD_MS = 60_000;
const PROMPT = [1, 30, 19, 15, 0, 0, 0, 0, 0, 0, 0, 0];

let bench: ExecutorBench;
let takeovers: Takeover[] = [];
before(async () => {
  bench = await ExecutorBench.open({ spare: true });
});
after(() => bench.close());

/** A worker with a spare ready. */
async function spared(): Promise<void> {
  await until(() => bench.worker.hasSpare, MODEL_LOAD_MS);
  takeovers = [];
  bench.worker.onTakeover((takeover) => takeovers.push(takeover));
}

/** Another worker in place of the shared one. */
async function reopen(options: { readonly spare: boolean }): Promise<void> {
  await bench.close();
  bench = await ExecutorBench.open(options);
}

/** A cheap unit: one entry of the start bank. */
const bankUnit = (sessionId: string, index = 0): PlannedUnit => bench.bankUnit(sessionId, index);

async function run(...units: readonly PlannedUnit[]): Promise<string[]> {
  const { kernel, modelId, plan } = units[0]!;
  const results = await bench.worker.executeWork({ batchId: bench.nextId(), modelId, component: plan.component, kernel, units });
  return results.map(codeOf);
}

function codeOf(result: StepResult): string {
  return result.ok ? 'ok' : result.code;
}

async function until(condition: () => boolean, withinMs = 10_000): Promise<void> {
  for (const deadline = Date.now() + withinMs; !condition(); await sleep(5)) assert.ok(Date.now() < deadline, 'waited too long');
}

test('a spare takes over from an executor that hangs: units in flight are lost, blocks are there bit for bit, the story goes on as without it', async () => {
  await spared();
  const kernel = bench.kernels.video_continuation;
  const ctx = contextOf({ seed: 7, prompt: await bench.encodePrompt('a', PROMPT) });
  const initial = kernel.initState({ firstChunk: 0 }, ctx);
  const made = (await bench.step(kernel, 'a', initial, ctx, { keep: true }))!;
  const expected = (await bench.step(kernel, 'a', made.state, ctx, { keep: true }))!;
  const blocks = [...Object.values(ctx.conditioning.prompt!), ...expected.state.blocks];
  const before = await bench.worker.read(blocks);
  const held = await bench.heldBlocks();

  bench.worker.injectFault({ sessionId: 'a', fault: 'executor_hang', hangMs: HANG_MS });
  const startedAt = performance.now();
  const lost = await Promise.all([run(bankUnit('a', 1)), run(bankUnit('b', 2))]);
  assert.deepEqual(lost, [['executor_lost'], ['executor_lost']]);
  assert.ok(performance.now() - startedAt < HANG_MS, 'given up before it answers');
  assert.equal(bench.worker.health().state, 'ready', 'the worker goes on at once');
  assert.equal(bench.worker.hasSpare, false, 'one take-over at a time');

  const again = (await bench.step(kernel, 'a', made.state, ctx, { keep: true }))!;
  assert.deepEqual(await bench.readOutputs(again.ran), await bench.readOutputs(expected.ran), 'the same step, on the other thread');
  assert.deepEqual(await bench.worker.read(blocks), before);
  assert.deepEqual(await run(bankUnit('b', 2)), ['ok']);
  assert.deepEqual(takeovers.map(({ reason, sessions, blocks: count }) => ({ reason, sessions, held: count >= held })), [{ reason: 'silent', sessions: 4, held: true }]);
  assert.ok(takeovers[0]!.tookMs > 0 && takeovers[0]!.tookMs < HANG_MS + 5000);

  const now = await bench.heldBlocks();
  await until(() => bench.worker.hasSpare);
  assert.equal(await bench.heldBlocks(), now, 'what the old thread did late changed nothing');
  assert.deepEqual(await bench.worker.read(blocks), before);
});

test('the two threads take turns: the one that hung takes over from the one that took over', async () => {
  await spared();
  const first = bankUnit('a', 3);
  assert.deepEqual(await run(first), ['ok']);
  const [expected] = await bench.worker.read(bench.blocksOf(first));
  for (let round = 1; round <= 3; round++) {
    bench.worker.injectFault({ sessionId: 'a', fault: 'executor_hang', hangMs: 400 });
    assert.deepEqual(await run(bankUnit('a', 1)), ['executor_lost']);
    assert.deepEqual(await run(bankUnit('a', round)), ['ok']);
    assert.equal(takeovers.length, round);
    await until(() => bench.worker.hasSpare);
    assert.deepEqual(await bench.worker.read(bench.blocksOf(first)), [expected]);
  }
});

test('a fault strikes the thread that worked when it was armed: it does not wait for that thread to work again', async () => {
  await spared();
  bench.worker.injectFault({ sessionId: 'a', fault: 'executor_hang', hangMs: 400 });
  bench.worker.injectFault({ sessionId: 'b', fault: 'kernel_exception' });
  assert.deepEqual(await run(bankUnit('a')), ['executor_lost']);
  await until(() => bench.worker.hasSpare);
  bench.worker.injectFault({ sessionId: 'a', fault: 'executor_hang', hangMs: 400 });
  assert.deepEqual(await run(bankUnit('a')), ['executor_lost']);
  assert.deepEqual(await run(bankUnit('b')), ['ok'], 'on the thread where its fault was armed');
});

test('a second hang before the first thread is back: the worker is unresponsive, and whoever answers first goes on', async () => {
  await spared();
  const kept = bankUnit('c', 5);
  const freed = bankUnit('c', 6);
  assert.deepEqual([await run(kept), await run(freed)], [['ok'], ['ok']]);
  const content = await bench.worker.read(bench.blocksOf(kept));
  bench.worker.injectFault({ sessionId: 'a', fault: 'executor_hang', hangMs: 3500 });
  assert.deepEqual(await run(bankUnit('a')), ['executor_lost']);
  bench.worker.injectFault({ sessionId: 'a', fault: 'executor_hang', hangMs: 6000 });
  assert.deepEqual(await run(bankUnit('a')), ['executor_lost']);
  assert.equal(bench.worker.health().state, 'unresponsive');
  assert.deepEqual(await run(bankUnit('b')), ['executor_lost'], 'nothing is queued behind a thread that stands still');
  bench.worker.release(bench.blocksOf(freed));
  const startedAt = performance.now();
  await until(() => bench.worker.health().state === 'ready');
  assert.ok(performance.now() - startedAt < 3000, 'it did not wait for the one that hangs longer');
  assert.deepEqual(await run(bankUnit('b')), ['ok']);
  assert.deepEqual(await bench.worker.read(bench.blocksOf(kept)), content);
  await assert.rejects(bench.worker.read(bench.blocksOf(freed)), RangeError, 'what was freed meanwhile stays freed');
});

test('a thread that dies is replaced: the spare goes on, and a fresh one becomes the spare', async () => {
  await spared();
  const kept = bankUnit('b', 4);
  assert.deepEqual(await run(kept), ['ok']);
  const content = await bench.worker.read(bench.blocksOf(kept));
  for (let round = 1; round <= 2; round++) {
    bench.worker.injectFault({ sessionId: 'a', fault: 'executor_death' });
    assert.deepEqual(await run(bankUnit('a')), ['executor_lost']);
    assert.equal(bench.worker.health().state, 'ready');
    assert.deepEqual(await run(bankUnit('a')), ['ok']);
    assert.deepEqual(await bench.worker.read(bench.blocksOf(kept)), content);
    await until(() => bench.worker.hasSpare, MODEL_LOAD_MS);
  }
  assert.deepEqual(takeovers.map(({ reason }) => reason), ['died', 'died']);
});

test('a late unit of the thread that hung never writes into a slot that was given to somebody else', async () => {
  await spared();
  const latents = await bench.startLatents('a', 5);
  const { pools, unit: placed } = bench.pictureUnit('late', latents, { slots: 1, slot: 0, frame: 0 });
  bench.worker.injectFault({ sessionId: 'late', fault: 'executor_hang', hangMs: HANG_MS });
  assert.deepEqual(await run(placed), ['executor_lost']);
  assert.deepEqual(await run({ ...placed, unitId: bench.nextId() }), ['ok'], 'the session is attached to the spare as well');
  const picture = pools.video.bytes(0).slice();
  assert.ok(new Set(picture).size > 20, 'a picture has many levels');
  pools.video.bytes(0).fill(77);
  await until(() => bench.worker.hasSpare);
  assert.ok(pools.video.bytes(0).every((byte) => byte === 77));
});

test('memory that sleeps stays asleep with the executor that takes over, and wakes there', async () => {
  await spared();
  const [own, other] = [bankUnit('a', 1), bankUnit('b', 2)];
  assert.deepEqual(await run(own), ['ok']);
  assert.deepEqual(await run(other), ['ok']);
  bench.worker.injectFault({ sessionId: 'a', fault: 'executor_hang', hangMs: 400 });
  await bench.worker.sleep(['kv']);
  assert.deepEqual(await run(bankUnit('a')), ['executor_lost']);
  const kernel = bench.kernels.encoder_chunk;
  const ctx = contextOf({ seed: 0 });
  const encode = () => bench.unitOf('encoder_chunk', 'a', kernel.planStep(kernel.initState({ ids: PROMPT }, ctx), ctx)!);
  assert.deepEqual(await run(encode()), ['runtime_error'], 'keys and values are asleep');
  await bench.worker.wake(['kv']);
  assert.deepEqual(await run(encode()), ['ok']);
  assert.equal((await bench.worker.read(bench.blocksOf(own))).length, 1);
});

test('a thread that dies while its spare is not ready yet: the worker waits for it', async () => {
  await reopen({ spare: true });
  const kept = bankUnit('b', 4);
  assert.deepEqual(await run(kept), ['ok']);
  const content = await bench.worker.read(bench.blocksOf(kept));
  bench.worker.injectFault({ sessionId: 'a', fault: 'executor_death' });
  assert.equal(bench.worker.hasSpare, false);
  assert.deepEqual(await run(bankUnit('a')), ['executor_lost']);
  assert.equal(bench.worker.health().state, 'unresponsive');
  await until(() => bench.worker.health().state === 'ready', MODEL_LOAD_MS);
  assert.deepEqual(await bench.worker.read(bench.blocksOf(kept)), content);
});

test('a thread that dies without a spare takes its worker with it', async () => {
  await reopen({ spare: false });
  bench.worker.injectFault({ sessionId: 'a', fault: 'executor_death' });
  assert.deepEqual(await run(bankUnit('a')), ['executor_lost']);
  assert.equal(bench.worker.health().state, 'closed');
});
