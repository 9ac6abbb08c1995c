/**
 * What the executor adds to a bare `session.run`: message hop, gather, scatter, and the kernel's `planStep`.
 *
 *     node bench/executor_overhead.ts [runs]
 *
 * Bare runs happen on this thread with tensors made beforehand; executor runs go to its thread and back. The two alternate, so that
 * whatever else the machine does hits both; the first decile of each is what the least disturbed runs took. `device` is the executor's own
 * measure of a unit (gather, run, scatter), the rest of the round trip is the hop. `pipelined` keeps two batches in flight, which hides the hop.
 */
import { InferenceSession, type Tensor } from 'onnxruntime-node';
import { newTensor } from '../src/engine/workers/BatchGather.ts';
import { graphPath } from '../src/engine/model/spec/load_model_spec.ts';
import { unitShape } from '../src/engine/model/spec/tensor_signature.ts';
import type { LoopContext, LoopKernel, LoopState } from '../src/engine/model/loop_kernel.ts';
import { contextOf, ExecutorBench } from '../test/engine/model/ExecutorBench.ts';
import type { WorkPlan } from '../src/engine/model/work.ts';

const RUNS = Number(process.argv[2] ?? 150);
const bench = await ExecutorBench.open();
const prompt = await bench.encodePrompt('a', [1, 23, 67, 65, 30, 8, 19, 74, 15, 55, 0, 0]);
const ctx = contextOf({ seed: 1, prompt });
const video = bench.kernels.video_continuation;

// A full window, as in the middle of a session.
let state = video.initState({ firstChunk: 0 }, ctx);
while (state.plan.chunk < 8) state = (await bench.step(video, 'a', state, ctx))!.state;
const denoise = { kernel: video, state };
while (!video.isChunkReady(state)) state = (await bench.step(video, 'a', state, ctx, { keep: true }))!.state;
const write = { kernel: video, state };
const latents = video.latentsOf(state);
const decode = { kernel: bench.kernels.vae_tile_decode, state: bench.kernels.vae_tile_decode.initState({ latents, frames: [0], start90k: 0 }, ctx) };
const sound = { kernel: bench.kernels.audio, state: bench.kernels.audio.withChunk(bench.kernels.audio.initState({ firstChunk: 8 }, ctx), { latents, chunk: 8, frames: [0], start90k: 0 }) };

for (const { kernel, state: at } of [denoise, write, decode, sound] as { kernel: LoopKernel<never, LoopState, unknown>; state: LoopState }[]) {
  const plan = kernel.planStep(at, ctx)!;
  const session = await InferenceSession.create(graphPath(bench.spec, plan.component), { intraOpNumThreads: 1, interOpNumThreads: 1, extra: { session: { intra_op: { allow_spinning: '0' }, set_denormal_as_zero: '1' } } });
  const feeds = bareFeeds(plan);
  const bare: number[] = [];
  const hop: number[] = [];
  const device: number[] = [];
  for (let run = 0; run < RUNS + 10; run++) {
    const bareMs = await timed(() => session.run(feeds));
    let deviceMs = 0;
    const hopMs = await timed(async () => (deviceMs = await once(kernel, plan)));
    if (run < 10) continue;
    bare.push(bareMs);
    device.push(deviceMs);
    hop.push(hopMs);
  }
  const planUs = planMicroseconds(kernel, at, ctx);
  const pipelined = await pipelinedMs(kernel, plan);
  for (const [label, q] of [['p10', 0.1], ['p50', 0.5]] as const) {
    const [b, d, h] = [bare, device, hop].map((samples) => quantile(samples, q)) as [number, number, number];
    const percent = (ms: number) => `${(((ms - b) / b) * 100).toFixed(1)} %`;
    console.log(`${plan.component.padEnd(13)} ${label}: bare ${b.toFixed(2)} ms, device ${d.toFixed(2)} ms (+${percent(d)}), round trip ${h.toFixed(2)} ms (+${percent(h)})`);
  }
  console.log(`${''.padEnd(13)} pipelined ${pipelined.toFixed(2)} ms a unit, planStep ${planUs.toFixed(0)} µs`);
  await session.release();
}
await bench.close();

async function once(kernel: LoopKernel<never, LoopState, unknown>, plan: WorkPlan): Promise<number> {
  const unit = bench.unitOf(kernel.kind, 'a', plan);
  const [ran] = await bench.runUnits([unit]);
  if (ran?.result.ok !== true) throw new Error('a unit failed');
  bench.discard(unit);
  return ran.result.deviceMs;
}

async function pipelinedMs(kernel: LoopKernel<never, LoopState, unknown>, plan: WorkPlan): Promise<number> {
  const started = performance.now();
  const lane = async () => {
    for (let run = 0; run < RUNS / 2; run++) await once(kernel, plan);
  };
  await Promise.all([lane(), lane()]);
  return (performance.now() - started) / RUNS;
}

function planMicroseconds(kernel: LoopKernel<never, LoopState, unknown>, at: LoopState, context: LoopContext): number {
  const samples = Array.from({ length: 300 }, () => {
    const started = performance.now();
    kernel.planStep(at, context);
    return performance.now() - started;
  });
  return quantile(samples, 0.5) * 1000;
}

function bareFeeds(plan: WorkPlan): Record<string, Tensor> {
  return Object.fromEntries(
    Object.entries(bench.spec.components[plan.component]!.inputs).map(([name, signature]) => {
      const tensor = newTensor(signature.dtype, [1, ...unitShape(signature)]);
      if (signature.dtype === 'float32') (tensor.data as Float32Array).forEach((_, index, data) => (data[index] = ((index % 13) - 6) / 6));
      if (name === 't') (tensor.data as Float32Array)[0] = 1;
      return [name, tensor];
    }),
  );
}

async function timed(run: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await run();
  return performance.now() - started;
}

function quantile(values: readonly number[], q: number): number {
  return [...values].sort((a, b) => a - b)[Math.floor(q * values.length)]!;
}
