/** Steps with adapters on the real graphs, one by one and through a whole engine. The adapters are seeded numbers: what counts is which row they reach. */
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { after, before, test } from 'node:test';
import type { AppliedAdapter } from '../../../../src/engine/model/loop_kernel.ts';
import type { VideoContinuationState } from '../../../../src/engine/model/kernels/video_continuation.ts';
import { PromptProcessor } from '../../../../src/engine/model/processors/PromptProcessor.ts';
import { shapeKeyOf } from '../../../../src/engine/model/spec/component_spec.ts';
import type { StepResult, WorkUnitBatch } from '../../../../src/engine/model/work.ts';
import { EngineCore } from '../../../../src/engine/runtime/EngineCore.ts';
import type { Worker } from '../../../../src/engine/workers/Worker.ts';
import { monotonicClock, monotonicMs } from '../../../../src/observe/clock.ts';
import { continuationModel, driveLanguage } from '../../../../src/realtime-programs/drive_model.ts';
import { VideoContinuation } from '../../../../src/realtime-programs/VideoContinuation.ts';
import { LiveSession } from './LiveSession.ts';
import { contextOf, ExecutorBench } from '../ExecutorBench.ts';
import { metadataOf, modelWith, safetensorsFile, seededTensors } from './adapter_files.ts';

const PROMPT = [1, 23, 67, 65, 30, 8, 19, 74, 15, 55, 0, 0];

let bench: ExecutorBench;
let modelDir: string;
before(async () => {
  modelDir = modelWith({ noir: safetensorsFile(seededTensors(1, 8), metadataOf('noir', 8)), glow: safetensorsFile(seededTensors(2, 3, [0, 2, 5]), metadataOf('glow', 3)) });
  bench = await ExecutorBench.open({ modelDir, sessions: ['a', 'b', 'plain', 'styled'] });
});
after(async () => {
  await bench.close();
  rmSync(modelDir, { recursive: true });
});

const adapter = (id: 'noir' | 'glow', scale: number): AppliedAdapter => ({ id, scale, version: bench.spec.adapters[id]!.version });

/** A loop that has seen its start frames and is about to begin a chunk. */
async function begun(sessionId: string): Promise<{ readonly state: VideoContinuationState; readonly prompt: Readonly<Record<string, number>> }> {
  const kernel = bench.kernels.video_continuation;
  const prompt = await bench.encodePrompt(sessionId, PROMPT);
  const seeded = kernel.seeded(kernel.initState({ firstChunk: 0 }, contextOf({ seed: 1 })), await bench.startLatents(sessionId, 3));
  const written = await bench.step(kernel, sessionId, seeded, contextOf({ seed: 1, prompt }), { keep: true });
  return { state: written!.state, prompt };
}

/** Everything that one more step of a loop gives under an adapter. */
async function stepped(sessionId: string, { state, prompt }: Awaited<ReturnType<typeof begun>>, under: AppliedAdapter | null) {
  const next = await bench.step(bench.kernels.video_continuation, sessionId, state, contextOf({ seed: 1, prompt, adapter: under }), { keep: true });
  return { state: next!.state, component: next!.ran.unit.plan.component, outputs: await bench.readOutputs(next!.ran) };
}

function difference(a: Readonly<Record<string, readonly number[]>>, b: Readonly<Record<string, readonly number[]>>): number {
  assert.deepEqual(Object.keys(a), Object.keys(b));
  return Math.max(...Object.keys(a).flatMap((name) => a[name]!.map((value, index) => Math.abs(value - b[name]![index]!))));
}

test('denoising and writing: scale 0 is the plain model, scale 1 is not, and without the adapter the plain bits are back', async () => {
  let at = await begun('a');
  for (const component of ['denoise_step', 'denoise_step', 'clean_write']) {
    const plain = await stepped('a', at, null);
    const [none, full, back] = [await stepped('a', at, adapter('noir', 0)), await stepped('a', at, adapter('noir', 1)), await stepped('a', at, null)];
    assert.deepEqual([plain.component, none.component, full.component], [component, `${component}_adapted`, `${component}_adapted`]);
    assert.ok(difference(plain.outputs, none.outputs) <= 1e-5, `scale 0 differs by ${difference(plain.outputs, none.outputs)}`);
    assert.ok(difference(plain.outputs, full.outputs) > 1e-2, `scale 1 differs by ${difference(plain.outputs, full.outputs)}`);
    assert.equal(difference(plain.outputs, back.outputs), 0);
    at = { ...at, state: plain.state };
  }
});

test('rows with different adapters share a batch, and each gives what it gives alone', async () => {
  const kernel = bench.kernels.video_continuation;
  const [a, b] = [await begun('a'), await begun('b')];
  const rows = [
    { sessionId: 'a', from: a, under: adapter('noir', 1) },
    { sessionId: 'b', from: b, under: adapter('glow', 0.5) },
    { sessionId: 'b', from: b, under: adapter('noir', 0.25) },
  ];
  const units = rows.map(({ sessionId, from, under }) => bench.unitOf(kernel.kind, sessionId, kernel.planStep(from.state, contextOf({ seed: 1, prompt: from.prompt, adapter: under }))!));
  const together = await bench.runUnits(units);
  const { batchTolerance } = bench.spec.loops['video_continuation']!.step;
  const alone: Awaited<ReturnType<typeof stepped>>[] = [];
  for (const [index, { sessionId, from, under }] of rows.entries()) {
    alone.push(await stepped(sessionId, from, under));
    const gap = difference(await bench.readOutputs(together[index]!), alone[index]!.outputs);
    assert.ok(gap <= batchTolerance, `row ${index} differs by ${gap}`);
  }
  assert.ok(difference(alone[0]!.outputs, alone[1]!.outputs) > 1e-2, 'the adapters are not the same');
});

test('an adapter that is not loaded fails its unit and no other', async () => {
  const kernel = bench.kernels.video_continuation;
  const from = await begun('a');
  const unit = (under: AppliedAdapter) => bench.unitOf(kernel.kind, 'a', kernel.planStep(from.state, contextOf({ seed: 1, prompt: from.prompt, adapter: under }))!);
  const [good, bad] = await bench.runUnits([unit(adapter('noir', 1)), unit({ id: 'sepia', scale: 1, version: 'v' })]);
  assert.equal(good!.result.ok, true);
  assert.ok(!bad!.result.ok && /adapter sepia is not loaded/.test(bad!.result.message));
});

/** Clean latents of the generated chunks of each session, as an engine makes them that serves `sessions` one after the other has shown a frame. */
async function latentsOf(sessions: readonly { readonly id: string; readonly adapter: { readonly id: string; readonly scale: number } | null }[], chunks: number): Promise<ReadonlyMap<string, readonly Float32Array[]>> {
  // An executor of its own: the engine names blocks as the bench does.
  const { spec, kernels, worker } = await ExecutorBench.open({ modelDir, sessions: [] });
  const made = new Map<string, Float32Array[]>(sessions.map(({ id }) => [id, []]));
  const recording: Worker = Object.assign(Object.create(worker) as Worker, {
    attach: worker.attach.bind(worker),
    detach: worker.detach.bind(worker),
    release: worker.release.bind(worker),
    health: worker.health.bind(worker),
    onTakeover: worker.onTakeover.bind(worker),
    async executeWork(batch: WorkUnitBatch): Promise<readonly StepResult[]> {
      const results = await worker.executeWork(batch);
      for (const { plan, outputs, sessionId } of batch.units) {
        const x = outputs['x_next'];
        if (plan.kind === 'diffusion_step' && plan.step === spec.loops['video_continuation']!.denoise!.steps - 1 && x?.kind === 'block') made.get(sessionId)?.push(...(await worker.read([x.block])));
      }
      return results;
    },
  });
  // What units cost is not the question: everybody is let in.
  const cost = Object.entries(spec.components).map(([component, of]) => ({ component, shapeKey: shapeKeyOf(component, of), batch: 1, p50Ms: 1, p95Ms: 1 }));
  const live = new Map<string, LiveSession>();
  const core = new EngineCore({
    clock: monotonicClock,
    workers: [{ worker: recording, loaded: { modelId: spec.modelId, weightsVersion: spec.checkpoint.weightsVersion, fingerprint: 'test', cost } }],
    kernels: Object.values(kernels),
    programs: { drive: new VideoContinuation(continuationModel(spec, kernels, driveLanguage(PromptProcessor.load(spec)))) },
    components: Object.keys(spec.components),
    identity: { precision: 'fp32', parallelPlanHash: 'test' },
    options: { reducedSteps: false },
    toControl: (message) => assert.ok(message.type !== 'session.refused' && message.type !== 'session.fault', JSON.stringify(message)),
    toMedia: (event) => live.get(event.sessionId)?.play(event),
  });
  const until = async (what: string, done: () => boolean): Promise<void> => {
    for (const end = monotonicMs() + 60_000; !done(); ) {
      assert.ok(monotonicMs() < end, what);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  };
  for (const { id, adapter: asked } of sessions) {
    live.set(id, new LiveSession(core, id, 'city at dusk with rain', asked));
    await until(`a frame of ${id}`, () => live.get(id)!.frames >= 1);
  }
  await until('chunks', () => [...made.values()].every((latents) => latents.length >= chunks));
  for (const session of live.values()) session.close();
  await until('the end', () => core.stats().sessions === 0 && core.stats().blocksLive === core.cachedBlocks);
  core.close();
  await worker.close();
  return made;
}

test('in one engine with a session that has an adapter, the latents of one without are the bits it makes alone', async () => {
  const chunks = 4;
  const alone = await latentsOf([{ id: 'plain', adapter: null }], chunks);
  const both = await latentsOf([{ id: 'plain', adapter: null }, { id: 'styled', adapter: { id: 'noir', scale: 1 } }], chunks);
  const bits = (latents: ReadonlyMap<string, readonly Float32Array[]>, id: string) => latents.get(id)!.slice(0, chunks).map((values) => [...values]);
  assert.deepEqual(bits(both, 'plain'), bits(alone, 'plain'));
  assert.notDeepEqual(bits(both, 'styled'), bits(alone, 'plain'), 'same seed and prompt: only the adapter tells them apart');
});
