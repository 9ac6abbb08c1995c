import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { PromptProcessor } from '../../../../src/engine/model/processors/PromptProcessor.ts';
import { contextOf, ExecutorBench, outputsOf } from '../ExecutorBench.ts';

let bench: ExecutorBench;
before(async () => {
  bench = await ExecutorBench.open();
});
after(() => bench.close());

test('a pinned chunk repeats its first frame and makes another second one under a new lineage', async () => {
  const processor = PromptProcessor.load(bench.spec);
  const prompt = await bench.encodePrompt('b', processor.promptIds({ place: 3, time: 1, weather: 0 }));
  const kernel = bench.kernels.video_continuation;
  const ctx = contextOf({ seed: 3, prompt });
  const seeded = kernel.seeded(kernel.initState({ firstChunk: 0 }, ctx), await bench.startLatents('b', processor.bankIndex({ place: 3, time: 1, weather: 0 })));
  const { state: before } = (await bench.step(kernel, 'b', seeded, ctx, { keep: true }))!;
  const runChunk = async (from: typeof before, lineage: number) => {
    let state = from;
    while (!kernel.isChunkReady(state)) state = (await bench.step(kernel, 'b', state, { ...ctx, lineage }, { keep: true }))!.state;
    return { latents: kernel.latentsOf(state), values: (await bench.worker.read([kernel.latentsOf(state)]))[0]! };
  };
  const first = await runChunk(before, 0);
  const pinned = await runChunk(kernel.withPin(before, first.latents), 1);
  const free = await runChunk(before, 1);
  const gap = (frame: 0 | 1, other: Float32Array) => {
    let largest = 0;
    first.values.forEach((value, at) => {
      if (frameOf(at) === frame) largest = Math.max(largest, Math.abs(value - other[at]!));
    });
    return largest;
  };
  assert.ok(gap(0, pinned.values) < 1e-6, 'frame 0 stays');
  assert.ok(gap(1, pinned.values) > 0.05, 'frame 1 is new');
  assert.ok(gap(0, free.values) > 0.05, 'without a pin frame 0 is new too');
});

test('a change of steering lands at the very next step of the chunk in flight', async () => {
  const processor = PromptProcessor.load(bench.spec);
  const prompt = await bench.encodePrompt('c', processor.promptIds({ place: 0, time: 1, weather: 0 }));
  const kernel = bench.kernels.video_continuation;
  const straight = contextOf({ seed: 9, prompt });
  const start = kernel.initState({ firstChunk: 0 }, straight);
  const { state: half } = (await bench.step(kernel, 'c', start, straight, { keep: true }))!;
  assert.equal(half.plan.step, 1);
  const right = contextOf({ seed: 9, prompt, steer: 1, version: 2 });
  const kept = (await bench.step(kernel, 'c', half, straight, { keep: true }))!;
  const steered = (await bench.step(kernel, 'c', half, right, { keep: true }))!;
  assert.equal(steered.state.plan.changedAtStep, 1);
  assert.equal(steered.state.plan.conditioningVersion, 2);
  assert.notDeepEqual(await bench.readOutputs(kept.ran), await bench.readOutputs(steered.ran));
});

test('chunks in one step and in two share a batch, and each gives what it gives alone', async () => {
  const processor = PromptProcessor.load(bench.spec);
  const kernel = bench.kernels.video_continuation;
  const { batchTolerance } = bench.spec.loops['video_continuation']!.step;
  const prompt = await bench.encodePrompt('a', processor.promptIds({ place: 2, time: 1, weather: 0 }));
  const rows = [contextOf({ seed: 1, prompt, steps: 1 }), contextOf({ seed: 2, prompt }), contextOf({ seed: 3, prompt })].map((ctx) => ({ ctx, state: kernel.initState({ firstChunk: 0 }, ctx) }));
  // The last one is at its second step already.
  rows[2]!.state = (await bench.step(kernel, 'a', rows[2]!.state, rows[2]!.ctx, { keep: true }))!.state;
  const ran = await bench.runUnits(rows.map(({ ctx, state }) => bench.unitOf(kernel.kind, 'a', kernel.planStep(state, ctx)!)));
  const after = ran.map((unit, index) => kernel.advance(rows[index]!.state, unit.unit, outputsOf(unit)));
  assert.deepEqual(after.map((state) => [state.plan.steps, state.plan.step, kernel.isChunkReady(state)]), [[1, 1, true], [2, 1, false], [2, 2, true]]);
  for (const [index, { ctx, state }] of rows.entries()) {
    const alone = await bench.readOutputs((await bench.step(kernel, 'a', state, ctx, { keep: true }))!.ran);
    const together = await bench.readOutputs(ran[index]!);
    const gap = Math.max(...alone['x_next']!.map((value, at) => Math.abs(value - together['x_next']![at]!)));
    assert.ok(gap <= batchTolerance, `row ${index} differs by ${gap}`);
  }
});

test('a chunk keeps the number of steps that it began with, and one that the model does not declare is refused', () => {
  const kernel = bench.kernels.video_continuation;
  const under = (steps?: number) => contextOf({ seed: 1, prompt: {}, ...(steps === undefined ? {} : { steps }) });
  const fresh = kernel.initState({ firstChunk: 0 }, under());
  const levels = (plan: ReturnType<typeof kernel.planStep>) => ['t', 't_next'].map((name) => (plan!.inputs[name] as { values: readonly number[] }).values[0]);
  assert.deepEqual([levels(kernel.planStep(fresh, under())), levels(kernel.planStep(fresh, under(1)))], [[1, 0.5], [1, 0]]);
  const half = { ...fresh, x: 1, plan: { ...fresh.plan, step: 1 } };
  assert.deepEqual(levels(kernel.planStep(half, under(1))), [0.5, 0]);
  assert.throws(() => kernel.planStep(fresh, under(3)), /made in 2 or 1 steps, got 3/);
});

/** Which frame of its chunk an element of the latents [32, 128] belongs to: half of each picture token, whole sound tokens. */
function frameOf(index: number): 0 | 1 {
  const token = Math.floor(index / 128);
  return token < 28 ? (index % 128 < 64 ? 0 : 1) : token < 30 ? 0 : 1;
}
