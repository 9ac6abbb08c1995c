import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { OnnxWorker } from '../../../src/engine/workers/OnnxWorker.ts';
import type { PlannedUnit } from '../../../src/engine/model/work.ts';
import { SharedPool } from '../../../src/streams/shared_pool.ts';
import { contextOf, ExecutorBench, MODEL_DIR } from '../model/ExecutorBench.ts';

let bench: ExecutorBench;
before(async () => {
  bench = await ExecutorBench.open({ minWatchdogMs: 150 });
});
after(() => bench.close());

/** A cheap unit: one entry of the start bank. */
const bankUnit = (sessionId: string, index = 0): PlannedUnit => bench.bankUnit(sessionId, index);

function batchOf(units: readonly PlannedUnit[]) {
  const { kernel, modelId, plan } = units[0]!;
  return { batchId: bench.nextId(), modelId, component: plan.component, kernel, units };
}

function codeOf(result: { readonly ok: boolean; readonly code?: string }): string {
  return result.ok ? 'ok' : result.code!;
}

async function until(condition: () => boolean, withinMs = 3000): Promise<void> {
  for (const deadline = Date.now() + withinMs; !condition(); await sleep(5)) assert.ok(Date.now() < deadline, 'waited too long');
}

test('loading gives a cost for every component, alone and in batches, a weights version and a fingerprint', async () => {
  const worker = new OnnxWorker({ id: 'cost', calibrationRuns: 2, spare: false });
  try {
    const model = await worker.loadModel(MODEL_DIR);
    const { components, loops } = bench.spec;
    for (const componentId of Object.keys(components)) {
      const { maxBatch } = Object.values(loops).find(({ components: plain, adapted = [] }) => [...plain, ...adapted].includes(componentId))!.step;
      const entries = model.cost.filter(({ component }) => component === componentId);
      assert.deepEqual(entries.map(({ batch }) => batch), [...new Set([1, Math.min(2, maxBatch), maxBatch])]);
      for (const { p50Ms, p95Ms } of entries) assert.ok(p50Ms > 0 && p95Ms >= p50Ms && p95Ms < 5000);
    }
    const kernel = bench.kernels.start_bank;
    const { shapeKey } = kernel.planStep(kernel.initState({ index: 0 }, contextOf({ seed: 0 })), contextOf({ seed: 0 }))!;
    assert.ok(model.cost.some((entry) => entry.shapeKey === shapeKey), 'plans find their cost by shapeKey');
    assert.match(model.weightsVersion, /^drive-/);
    assert.match(model.fingerprint, /onnxruntime .* \/ cpu \//);
    await assert.rejects(worker.loadModel(MODEL_DIR), /has loaded a model already/);
  } finally {
    await worker.close();
  }
});

test('a picture and its sound are written into the slots that the engine reserved, and into no other', async () => {
  const latents = await bench.startLatents('a', 5);
  const { pools, unit: placed } = bench.pictureUnit('slots', latents, { slots: 3, slot: 1, frame: 1 });
  const [result] = await bench.worker.executeWork(batchOf([placed]));
  assert.ok(result!.ok);
  assert.ok(new Set(pools.video.bytes(1)).size > 20, 'a picture has many levels');
  for (const slot of [0, 2]) assert.ok(pools.video.bytes(slot).every((byte) => byte === 0));
  bench.worker.detach('slots');
});

test('more batches than maxInFlight at once is a programming error', async () => {
  const running = [0, 1].map((index) => bench.worker.executeWork(batchOf([bankUnit('a', index)])));
  assert.throws(() => bench.worker.executeWork(batchOf([bankUnit('a')])), /takes 2 batches at once/);
  for (const results of await Promise.all(running)) assert.equal(codeOf(results[0]!), 'ok');
});

test('a batch that does not answer in time: units fail as lost, late results change nothing, the worker recovers', async () => {
  const held = await bench.heldBlocks();
  bench.worker.injectFault({ sessionId: 'a', fault: 'executor_hang', hangMs: 600 });
  const [hung, queued] = [bankUnit('a', 1), bankUnit('b', 2)];
  const [first, second] = await Promise.all([bench.worker.executeWork(batchOf([hung])), bench.worker.executeWork(batchOf([queued]))]);
  assert.equal(codeOf(first[0]!), 'executor_lost');
  assert.equal(codeOf(second[0]!), 'executor_lost');
  assert.equal(bench.worker.health().state, 'unresponsive');
  const [refused] = await bench.worker.executeWork(batchOf([bankUnit('a')]));
  assert.equal(codeOf(refused!), 'executor_lost', 'nothing is queued behind a thread that stands still');
  await until(() => bench.worker.health().state === 'ready');
  assert.equal(await bench.heldBlocks(), held, 'the late units wrote no blocks');
  const again = bankUnit('a', 1);
  assert.equal(codeOf((await bench.worker.executeWork(batchOf([again])))[0]!), 'ok');
  bench.discard(again);
});

test('a late unit never writes into a slot that was given to somebody else', async () => {
  const latents = await bench.startLatents('a', 5);
  const { pools, unit } = bench.pictureUnit('late', latents, { slots: 1, slot: 0, frame: 0 });
  bench.worker.injectFault({ sessionId: 'late', fault: 'executor_hang', hangMs: 500 });
  const [result] = await bench.worker.executeWork(batchOf([unit]));
  assert.equal(codeOf(result!), 'executor_lost');
  pools.video.bytes(0).fill(77);
  await until(() => bench.worker.health().state === 'ready');
  assert.ok(pools.video.bytes(0).every((byte) => byte === 77));
  bench.worker.detach('late');
});

test('cancelling one unit of a batch leaves the other', async () => {
  bench.worker.injectFault({ sessionId: 'blocker', fault: 'executor_hang', hangMs: 30 });
  const busy = bench.worker.executeWork(batchOf([bankUnit('blocker')]));
  const [gone, stays] = [bankUnit('a', 1), bankUnit('b', 2)];
  const running = bench.worker.executeWork(batchOf([gone, stays]));
  bench.worker.cancel([gone.unitId, 999_999]);
  const results = await running;
  await busy;
  assert.deepEqual(results.map(codeOf), ['cancelled', 'ok']);
  await assert.rejects(bench.worker.read(bench.blocksOf(gone)), RangeError);
  bench.discard(stays);
});

test('detaching a session frees its blocks, cancels what waits and keeps what it published to a cache', async () => {
  const pools = { video: SharedPool.create(8, 1).descriptor, audio: SharedPool.create(8, 1).descriptor };
  bench.worker.attach('leaving', pools);
  const own = bankUnit('leaving');
  await bench.worker.executeWork(batchOf([own]));
  const prompt = await bench.encodePrompt('leaving', [1, 30, 19, 15, 0, 0, 0, 0, 0, 0, 0, 0]);
  bench.worker.injectFault({ sessionId: 'blocker', fault: 'executor_hang', hangMs: 30 });
  const busy = bench.worker.executeWork(batchOf([bankUnit('blocker')]));
  const waiting = bench.worker.executeWork(batchOf([bankUnit('leaving')]));
  bench.worker.detach('leaving');
  assert.equal(codeOf((await waiting)[0]!), 'cancelled');
  await busy;
  await assert.rejects(bench.worker.read(bench.blocksOf(own)), RangeError);
  assert.equal((await bench.worker.read(Object.values(prompt))).length, 3, 'a cached prompt may serve others');
  bench.worker.release(Object.values(prompt));
  const [late] = await bench.worker.executeWork(batchOf([bankUnit('leaving')]));
  assert.equal(codeOf(late!), 'cancelled', 'a detached session runs nothing');
});

test('a block is written once: a second unit that names it fails and the first content stays', async () => {
  const first = bankUnit('a', 1);
  await bench.worker.executeWork(batchOf([first]));
  const [before] = await bench.worker.read(bench.blocksOf(first));
  const second: PlannedUnit = { ...bankUnit('a', 2), outputs: first.outputs };
  const [result] = await bench.worker.executeWork(batchOf([second]));
  assert.equal(codeOf(result!), 'runtime_error');
  const [after] = await bench.worker.read(bench.blocksOf(first));
  assert.deepEqual(after, before);
  bench.discard(first);
});

test('an output that has no place is refused before anything runs', async () => {
  const misplaced = [
    { x: { kind: 'slot', pool: 'audio', slot: 999 } },
    { x: { kind: 'slot', pool: 'audio', slot: 0 } },
    { nonsense: { kind: 'value' } },
  ] as const;
  for (const outputs of misplaced) {
    const [result] = await bench.worker.executeWork(batchOf([{ ...bankUnit('a'), outputs }]));
    assert.equal(codeOf(result!), 'runtime_error');
  }
});

test('memory that sleeps is refused by name and works again after waking', async () => {
  const before = bankUnit('a', 4);
  await bench.worker.executeWork(batchOf([before]));
  const [expected] = await bench.worker.read(bench.blocksOf(before));
  await bench.worker.sleep(['weights']);
  const [asleep] = await bench.worker.executeWork(batchOf([bankUnit('a')]));
  assert.ok(!asleep!.ok && asleep!.code === 'runtime_error' && /weights is asleep/.test(asleep!.message));
  await bench.worker.wake(['weights']);
  const again = bankUnit('a', 4);
  assert.equal(codeOf((await bench.worker.executeWork(batchOf([again])))[0]!), 'ok');
  assert.deepEqual((await bench.worker.read(bench.blocksOf(again)))[0], expected);
  for (const unit of [before, again]) bench.discard(unit);
});

test('closing lets the running batch end, is idempotent, and refuses what comes after', async () => {
  const worker = new OnnxWorker({ id: 'closing', testMode: true, calibrationRuns: 0, spare: false });
  await worker.loadModel(MODEL_DIR);
  worker.attach('a', { video: SharedPool.create(8, 1).descriptor, audio: SharedPool.create(8, 1).descriptor });
  worker.injectFault({ sessionId: 'a', fault: 'executor_hang', hangMs: 100 });
  const running = worker.executeWork(batchOf([bankUnit('a')]));
  await Promise.all([worker.close(), worker.close()]);
  assert.equal(codeOf((await running)[0]!), 'ok');
  await worker.close();
  assert.equal(worker.health().state, 'closed');
  assert.equal(codeOf((await worker.executeWork(batchOf([bankUnit('a')])))[0]!), 'executor_lost');
  await assert.rejects(worker.read([1]), /closed/);
  worker.release([1]);
  worker.detach('a');
});

test('faults are obeyed in test mode only', () => {
  const worker = new OnnxWorker({ id: 'serious' });
  assert.throws(() => worker.injectFault({ sessionId: null, fault: 'kernel_exception' }), /not in test mode/);
});
