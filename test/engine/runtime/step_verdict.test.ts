import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StepResult } from '../../../src/engine/model/work.ts';
import { stepVerdict, type CommitContext } from '../../../src/engine/runtime/step_verdict.ts';
import type { WorkUnit } from '../../../src/engine/scheduler/WorkUnit.ts';
import { turnOf } from '../scheduler/turn_of.ts';

function unitOf(outputs: WorkUnit['planned']['outputs'] = {}): WorkUnit {
  const plan = { kind: 'ar_token', component: 'c', step: 0, shapeKey: 's', maxBatch: 1, inputs: {}, outputs: {}, state: {}, boundary: true, leadsTo: null, cache: null } as const;
  return {
    turn: turnOf(),
    plan,
    conditioning: { version: 0, actionSequence: 0, steer: 0, speed: 0, prompt: null },
    cacheKey: null,
    planned: { unitId: 7, sessionId: 's', loopId: 'video', kernel: 'k', modelId: 'm', plan, outputs, epoch: 2 },
    programId: 'p',
    workerId: 'w',
    action: { sequence: 0, steer: 0, speed: 0, leftPresses: 0, rightPresses: 0 },
    deadlineMs: 0,
    predictedMs: 0,
    dispatchedAtMs: 0,
  };
}

const UNIT = unitOf();
const ok = (changes: Partial<Extract<StepResult, { ok: true }>> = {}): StepResult => ({ ok: true, unitId: 7, epoch: 2, next: {}, values: {}, deviceMs: 1, ...changes });
const context = (changes: Partial<CommitContext> = {}): CommitContext => ({ inFlight: UNIT, closed: false, epoch: 2, epochWord: 2, current: true, ...changes });

test('the planned unit\'s result commits', () => {
  assert.equal(stepVerdict(UNIT, [ok()], context()).verdict, 'commit');
});

test('duplicates and strangers change nothing', () => {
  const results = [ok({ unitId: 99 }), ok(), ok({ next: { other: true } })];
  const verdict = stepVerdict(UNIT, results, context());
  assert.ok(verdict.verdict === 'commit' && verdict.result === results[1]);
});

for (const [name, changes, reason] of [
  ['the word was raised, though the engine was not told yet', { epochWord: 3 }, 'fenced'],
  ['the session has entered another epoch', { epoch: 3, epochWord: 3 }, 'fenced'],
  ['the session was closed', { closed: true }, 'closed'],
  ['the session waits for another unit, or for none', { inFlight: null }, 'not_expected'],
  ['the loop has moved on without a fence', { current: false }, 'moved_on'],
] as const) {
  test(`discarded: ${name}`, () => {
    assert.deepEqual(stepVerdict(UNIT, [ok()], context(changes)), { verdict: 'discard', reason });
  });
}

test('a failure of a fenced unit is no failure of the session', () => {
  const failure: StepResult = { ok: false, unitId: 7, epoch: 2, code: 'kernel_exception', message: 'x' };
  assert.equal(stepVerdict(UNIT, [failure], context({ epochWord: 3 })).verdict, 'discard');
  assert.deepEqual(stepVerdict(UNIT, [failure], context()), { verdict: 'fail', failure });
});

test('fails: no result, another epoch, or no declared value', () => {
  assert.equal(stepVerdict(UNIT, [], context()).verdict, 'fail');
  assert.equal(stepVerdict(UNIT, [ok({ epoch: 1 })], context()).verdict, 'fail');
  const valued = unitOf({ logits: { kind: 'value' } });
  assert.equal(stepVerdict(valued, [ok()], context({ inFlight: valued })).verdict, 'fail');
  assert.equal(stepVerdict(valued, [ok({ values: { token: [3] } })], context({ inFlight: valued })).verdict, 'commit');
});
