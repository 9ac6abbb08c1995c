import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { LoopContext, LoopState } from '../../../src/engine/model/loop_kernel.ts';
import type { WorkPlan } from '../../../src/engine/model/work.ts';
import type { LoopTurn } from '../../../src/engine/scheduler/LoopTurn.ts';
import { LoopScheduler, type ScheduledKernel } from '../../../src/engine/scheduler/LoopScheduler.ts';
import { turnOf } from './turn_of.ts';

const IDENTITY = { modelId: 'm', weightsVersion: 'w', adapterVersions: {}, precision: 'fp32', parallelPlanHash: 'p' };
const ACTION = { sequence: 4, steer: -1, speed: 2 };

function schedulerOf(plan: Partial<WorkPlan> | null) {
  const contexts: LoopContext[] = [];
  const kernel: ScheduledKernel = {
    kind: 'video_continuation',
    planStep: (_state: LoopState, ctx: LoopContext) => {
      contexts.push(ctx);
      return plan === null ? null : { kind: 'diffusion_step', component: 'denoise', step: 0, shapeKey: 's', maxBatch: 1, inputs: {}, outputs: {}, state: {}, boundary: true, leadsTo: null, cache: null, ...plan };
    },
    advance: (state: LoopState) => state,
    runStep: () => Promise.resolve([]),
  };
  return { contexts, loops: new LoopScheduler(new Map([[kernel.kind, kernel]]), IDENTITY) };
}

test('plans under the action held now', () => {
  const { contexts, loops } = schedulerOf({});
  const planned = loops.plan(turnOf({ lineage: 3 }), 7, ACTION);
  assert.deepEqual(contexts, [{ seed: 7, lineage: 3, conditioning: { version: 1, actionSequence: 4, steer: -1, speed: 2, prompt: { tk: 9 } } }]);
  assert.equal(planned?.conditioning, contexts[0]!.conditioning);
});

test('a step that completes an earlier one runs under what that ran under', () => {
  const { contexts, loops } = schedulerOf({});
  const conditioning = { version: 0, actionSequence: 1, steer: 1, speed: 0, prompt: null };
  loops.plan(turnOf({ conditioning: { kind: 'fixed', conditioning } }), 7, ACTION);
  assert.equal(contexts[0]!.conditioning, conditioning);
});

test('a loop that waits gives no step', () => {
  assert.equal(schedulerOf(null).loops.plan(turnOf(), 0, ACTION), null);
});

test('a cacheable step has a key over all that it depends on', () => {
  const { loops } = schedulerOf({ cache: { cacheClass: 'text_encoder_output', inputHashes: { ids: 'h' }, publish: true } });
  const key = loops.plan(turnOf(), 0, ACTION)!.cacheKey!;
  assert.deepEqual({ component: key.componentId, weights: key.weightsVersion, shape: key.shapeSignature, hashes: key.inputHashes }, { component: 'denoise', weights: 'w', shape: 's', hashes: { ids: 'h' } });
  assert.equal(schedulerOf({}).loops.plan(turnOf(), 0, ACTION)!.cacheKey, null);
});

test('the key names the adapter that the step runs under, however it came by it', () => {
  const { loops } = schedulerOf({ cache: { cacheClass: 'text_encoder_output', inputHashes: { ids: 'h' }, publish: true } });
  const adapter = { id: 'noir', scale: 0.5, version: 'sha' };
  const keyOf = (conditioning: LoopTurn['conditioning']) => loops.plan(turnOf({ conditioning }), 0, ACTION)!.cacheKey!.adapterVersions;
  assert.deepEqual(keyOf({ kind: 'live', version: 1, prompt: null, adapter }), { noir: 'sha@0.5' });
  assert.deepEqual(keyOf({ kind: 'fixed', conditioning: { version: 1, actionSequence: 0, steer: 0, speed: 0, prompt: null, adapter } }), { noir: 'sha@0.5' });
  assert.deepEqual(keyOf({ kind: 'live', version: 1, prompt: null, adapter: null }), {});
});

test('what is not there is an error', () => {
  const { loops } = schedulerOf({ cache: { cacheClass: 'unheard', inputHashes: {}, publish: true } });
  assert.throws(() => loops.plan(turnOf(), 0, ACTION), /unknown cache class unheard/);
  assert.throws(() => loops.plan(turnOf({ kernel: 'none' }), 0, ACTION), /no kernel of kind none/);
});
