import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { LoopState } from '../../../src/engine/model/loop_kernel.ts';
import type { LoopKind } from '../../../src/engine/model/spec/loop_spec.ts';
import { contextOf, ExecutorBench, type RanUnit } from './ExecutorBench.ts';
import { testLoopKernel, type KernelCase } from './loop_kernel_contract.ts';

let plain: ExecutorBench;
let invariant: ExecutorBench;
before(async () => {
  plain = await ExecutorBench.open();
  invariant = await ExecutorBench.open({ batchInvariant: true });
});
after(async () => {
  await plain.close();
  await invariant.close();
});

// Prompts of the vocabulary, by id: `<bos>` and words.
const PROMPTS = [
  [1, 23, 67, 65, 30, 8, 19, 74, 15, 55, 0, 0],
  [1, 23, 67, 65, 14, 8, 43, 74, 49, 0, 0, 0],
  [1, 16, 19, 15, 0, 0, 0, 0, 0, 0, 0, 0],
];

function contract<State extends LoopState>(kind: LoopKind, kernelCase: Omit<KernelCase<State>, 'name' | 'tolerance'>): void {
  const tolerance = (bench: ExecutorBench) => bench.spec.loops[kind]!.step.batchTolerance;
  testLoopKernel(() => ({ plain, invariant }), { ...kernelCase, name: kind, tolerance });
}

contract('encoder_chunk', {
  units: 1,
  async ready(bench, _session, variant) {
    const ctx = contextOf({ seed: variant });
    const kernel = bench.kernels.encoder_chunk;
    return { kernel, state: kernel.initState({ ids: PROMPTS[variant]! }, ctx), contextAt: () => ctx, borrowed: [] };
  },
});

contract('start_bank', {
  units: 1,
  async ready(bench, _session, variant) {
    const ctx = contextOf({ seed: variant });
    const kernel = bench.kernels.start_bank;
    return { kernel, state: kernel.initState({ index: variant * 17 }, ctx), contextAt: () => ctx, borrowed: [] };
  },
});

contract('ar_decode', {
  units: 4,
  async ready(bench, _session, variant) {
    const ctx = contextOf({ seed: variant });
    const kernel = bench.kernels.ar_decode;
    const ids = [1, 30, 19, 15, 55, 3, 38, 36, [43, 49, 18][variant]!, 2];
    return { kernel, state: kernel.initState({ ids, endIds: [2], maxTokens: 20 }, ctx), contextAt: () => ctx, borrowed: [] };
  },
});

contract('video_continuation', {
  // A seeded chunk, then two made of three units each; steering changes between the two steps of a chunk.
  units: 7,
  async ready(bench, session, variant) {
    const kernel = bench.kernels.video_continuation;
    const prompt = await bench.encodePrompt(session, PROMPTS[variant]!);
    const latents = await bench.startLatents(session, 3 + variant * 20);
    const contextAt = (unit: number) => contextOf({ seed: 40 + variant, prompt, steer: unit >= 2 ? 1 : 0, speed: 1 + variant, version: unit >= 2 ? 2 : 1 });
    const state = kernel.seeded(kernel.initState({ firstChunk: 0 }, contextAt(0)), latents);
    return { kernel, state, contextAt, borrowed: [...Object.values(prompt), latents] };
  },
});

contract('vae_tile_decode', {
  units: 2,
  async ready(bench, session, variant) {
    const ctx = contextOf({ seed: variant });
    const kernel = bench.kernels.vae_tile_decode;
    const latents = await bench.startLatents(session, variant * 11);
    return { kernel, state: kernel.initState({ latents, frames: [0, 1], start90k: 0 }, ctx), contextAt: () => ctx, borrowed: [latents] };
  },
});

contract('audio', {
  units: 2,
  async ready(bench, session, variant) {
    const ctx = contextOf({ seed: variant });
    const kernel = bench.kernels.audio;
    const latents = await bench.startLatents(session, variant * 11);
    const state = kernel.withChunk(kernel.initState({ firstChunk: 0 }, ctx), { latents, chunk: 0, frames: [0, 1], start90k: 0 });
    return { kernel, state, contextAt: () => ctx, borrowed: [latents] };
  },
});

contract('logprob_recompute', {
  units: 1,
  async ready(bench, _session, variant) {
    const ctx = contextOf({ seed: variant });
    const kernel = bench.kernels.logprob_recompute;
    const prompt = [1, 30, 19, 15, 55, 3, 38, 36, [43, 49, 18][variant]!, 2];
    return { kernel, state: kernel.initState({ prompt, tokens: [43, 19, 15, 55, 3, 38, 2].slice(0, 4 + variant) }, ctx), contextAt: () => ctx, borrowed: [] };
  },
});
contract('vae_tile_encode', {
  units: 1,
  async ready(bench, _session, variant) {
    const ctx = contextOf({ seed: variant });
    const kernel = bench.kernels.vae_tile_encode;
    return { kernel, state: kernel.initState({ image: gradient(variant) }, ctx), contextAt: () => ctx, borrowed: [] };
  },
});

test('a chunk of a given video: one unit a frame, each of its own; recoloured and noised as far as it is told', async () => {
  const ctx = contextOf({ seed: 5 });
  const { vae_tile_encode: kernel, start_bank: bank } = plain.kernels;
  const { latents: block } = (await plain.runToEnd(bank, 'a', bank.initState({ index: 3 }, ctx), ctx)) as { latents: number };
  const encoded = async (frames: readonly SharedArrayBuffer[], towards: { readonly like: number; readonly level: number; readonly chunk: number } | null): Promise<readonly number[]> => {
    let state = kernel.initState({ frames, towards }, ctx);
    let last: readonly number[] = [];
    for (let next = await plain.step(kernel, 'a', state, ctx, { keep: true }); next !== null; next = await plain.step(kernel, 'a', state, ctx, { keep: true })) {
      last = (await plain.readOutputs(next.ran))['x']!;
      state = next.state;
    }
    assert.deepEqual([state.plan.encoded, state.plan.done], [2, true]);
    return last;
  };
  const [a, b] = [gradient(0), gradient(1)];
  const [ab, aa, bb] = [await encoded([a, b], null), await encoded([a, a], null), await encoded([b, b], null)];
  const half = (x: readonly number[], frame: number): number[] => x.slice(0, 28 * 128).filter((_, at) => Math.floor((at % 128) / 64) === frame);
  assert.deepEqual([half(ab, 0), half(ab, 1)], [half(aa, 0), half(bb, 1)]);
  const [mild, strong] = [await encoded([a, b], { like: block, level: 0, chunk: 4 }), await encoded([a, b], { like: block, level: 1, chunk: 4 })];
  assert.notDeepEqual(mild, ab);
  assert.deepEqual(strong, await encoded([b, a], { like: block, level: 1, chunk: 4 }), 'at 1 there is only noise');
  assert.notDeepEqual(strong, await encoded([a, b], { like: block, level: 1, chunk: 5 }), 'of that chunk');
  assert.throws(() => kernel.initState({ frames: [a], towards: null }, ctx), /a chunk is 2 frames, got 1/);
  assert.throws(() => kernel.initState({ frames: [a, b], towards: { like: block, level: 2, chunk: 0 } }, ctx), /a noise level is 0 to 1, got 2/);
});

test('a chunk that begins with given latents takes the steps from its noise level on, the first at that level', () => {
  const kernel = plain.kernels.video_continuation;
  const ctx = contextOf({ seed: 1 });
  const fresh = kernel.initState({ firstChunk: 0 }, ctx);
  const conditioned = { ...ctx, conditioning: { ...ctx.conditioning, prompt: {} } };
  const first = (level: number): readonly unknown[] => {
    const { step, inputs } = kernel.planStep(kernel.noised(fresh, 7, level), conditioned)!;
    return [step, (inputs['t'] as { values: readonly number[] }).values[0], (inputs['t_next'] as { values: readonly number[] }).values[0]];
  };
  assert.deepEqual([first(1), first(0.75), first(0.5), first(0.25)], [[0, 1, 0.5], [0, 0.75, 0.5], [1, 0.5, 0], [1, 0.25, 0]]);
  assert.throws(() => kernel.noised(fresh, 7, 0), /a noise level is above 0/);
  assert.throws(() => kernel.noised(kernel.noised(fresh, 7, 0.5), 8, 0.5), /chunk 0 has begun/);
  assert.throws(() => kernel.noised(kernel.seeded(fresh, 7), 8, 0.5), /chunk 0 has begun/);
});

test('bytes of another size, or for an input of another type, fail their unit and name the input', async () => {
  const ctx = contextOf({ seed: 0 });
  const kernel = plain.kernels.vae_tile_encode;
  const plan = kernel.planStep(kernel.initState({ image: gradient(0) }, ctx), ctx)!;
  const other = plain.kernels.start_bank.planStep(plain.kernels.start_bank.initState({ index: 0 }, ctx), ctx)!;
  const cases = [
    { kernel: 'vae_tile_encode', plan: { ...plan, inputs: { rgb: { kind: 'bytes' as const, bytes: new SharedArrayBuffer(6), shape: [1, 2, 3] } } }, message: /input rgb: expected 86016 elements, got 6/ },
    { kernel: 'start_bank', plan: { ...other, inputs: { index: { kind: 'bytes' as const, bytes: new SharedArrayBuffer(1), shape: [1] } } }, message: /input index: expected int64, got bytes/ },
  ];
  for (const { kernel: kind, plan: wrong, message } of cases) {
    const [{ result }] = (await plain.runUnits([plain.unitOf(kind, 'a', wrong)])) as [RanUnit];
    assert.ok(!result.ok);
    assert.match(result.message, message);
  }
});

/** A smooth picture of the model's size. */
function gradient(variant: number): SharedArrayBuffer {
  const image = new SharedArrayBuffer(224 * 128 * 3);
  const rgb = new Uint8Array(image);
  for (let pixel = 0; pixel < 224 * 128; pixel++) rgb.set([pixel % 224, Math.floor(pixel / 224) * 2 - 1, 60 + 70 * variant], pixel * 3);
  return image;
}
