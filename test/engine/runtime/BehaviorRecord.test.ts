import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { WorkPlan } from '../../../src/engine/model/work.ts';
import type { CommittedStep } from '../../../src/engine/programs/RealtimeProgram.ts';
import { BehaviorRecorder, MAX_RECORDED_LATENTS, MAX_RECORDED_STEPS, MAX_RECORDED_TOKENS } from '../../../src/engine/runtime/BehaviorRecord.ts';

const IDENTITY = { runId: 'r', programId: 'p', modelId: 'm', weightsVersion: 'w', adapterVersions: {}, fingerprint: 'f', precision: 'fp32', parallelPlanHash: 'h', seed: 1 };
const PLAN = { kind: 'diffusion_step', step: 0, state: { chunk: 0 }, inputs: { t: { kind: 'floats', values: [1], shape: [1] } } } as unknown as WorkPlan;

function denoised(block: number): CommittedStep {
  return { turn: { loopId: 'video' }, stepped: { plan: {} }, outputs: { blocks: { x: block }, slots: {}, values: {}, next: {} } } as unknown as CommittedStep;
}

function sampled(tokens: number[]): CommittedStep {
  return { turn: { loopId: 'director' }, stepped: { plan: { prompt: [1], tokens } }, outputs: { blocks: {}, slots: {}, values: { token: [tokens.at(-1)], logprob: [-0.5] }, next: {} } } as unknown as CommittedStep;
}
const TOKEN = { kind: 'ar_token' } as WorkPlan;

test('steps, latents and tokens are kept up to their bounds, and the record says that it stopped', async () => {
  let reads = 0;
  const recorder = new BehaviorRecorder({ latents: true }, { read: (block) => (reads++, Promise.resolve(Float32Array.of(block))) });
  for (let step = 0; step < MAX_RECORDED_STEPS + 5; step++) recorder.committed(denoised(step), PLAN);
  const spoken: number[] = [];
  for (let token = 0; token < MAX_RECORDED_TOKENS + 5; token++) recorder.committed(sampled((spoken.push(token), spoken)), TOKEN);
  const record = await recorder.finish(IDENTITY);
  assert.equal(record.trajectory.length, MAX_RECORDED_STEPS);
  assert.equal(reads, MAX_RECORDED_LATENTS);
  assert.deepEqual([record.trajectory[3]!.latents, record.trajectory.at(-1)!.latents], [Float32Array.of(3), null]);
  assert.equal(record.texts[0]!.tokens.length, MAX_RECORDED_TOKENS);
  assert.equal(record.incomplete, true);
});

test('texts of one loop are kept apart, and latents that can not be read leave the record incomplete, not wrong', async () => {
  const recorder = new BehaviorRecorder({ latents: true }, { read: () => Promise.reject(new Error('gone')) });
  for (const tokens of [[4], [4, 5], [6]]) recorder.committed(sampled(tokens), TOKEN);
  assert.equal((await recorder.finish(IDENTITY)).incomplete, false);
  recorder.committed(denoised(1), PLAN);
  const { texts, trajectory, incomplete } = await recorder.finish(IDENTITY);
  assert.deepEqual(texts.map(({ tokens }) => tokens), [[4, 5], [6]]);
  assert.deepEqual([trajectory[0]!.latents, incomplete], [null, true]);
});
