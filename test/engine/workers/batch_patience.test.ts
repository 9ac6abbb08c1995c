import { test } from 'node:test';
import assert from 'node:assert/strict';
import type { WorkUnitBatch } from '../../../src/engine/model/work.ts';
import { batchPatienceMs, SparedPatience } from '../../../src/engine/workers/batch_patience.ts';
import { Predictions } from '../../../src/engine/workers/Predictions.ts';

const cost = [{ component: 'denoise', shapeKey: 'denoise', batch: 1, p50Ms: 10, p95Ms: 30 }];
const batchOf = (size: number): WorkUnitBatch => ({ batchId: 1, modelId: 'm', component: 'denoise', kernel: 'k', units: Array.from({ length: size }) });
const took = (deviceMs: number) => [{ ok: true, unitId: 1, epoch: 0, next: {}, values: {}, deviceMs }] as const;

test('with a spare, silence counts after less than a chunk; without one, after two seconds', () => {
  const predictions = new Predictions(cost);
  assert.equal(batchPatienceMs(predictions, [batchOf(1)], { sparedMs: 180, minMs: undefined }), 180);
  assert.equal(batchPatienceMs(predictions, [batchOf(1)], { sparedMs: null, minMs: undefined }), 2000);
});

test('long units and those that wait in front are given their time', () => {
  const predictions = new Predictions(cost);
  assert.equal(batchPatienceMs(predictions, [batchOf(2), batchOf(4)], { sparedMs: 180, minMs: undefined }), 8 * 60);
  assert.equal(batchPatienceMs(predictions, [batchOf(4)], { sparedMs: null, minMs: undefined }), 20 * 120);
});

test('a machine that has become busy raises the patience, and lowers it when it is idle again', () => {
  const predictions = new Predictions(cost);
  const patience = () => batchPatienceMs(predictions, [batchOf(1)], { sparedMs: 180, minMs: undefined });
  for (let n = 0; n < 100; n++) predictions.observe(batchOf(1), took(60));
  assert.ok(patience() > 450 && patience() <= 480, `${patience()}`);
  for (let n = 0; n < 100; n++) predictions.observe(batchOf(1), took(10));
  assert.equal(patience(), 180);
  predictions.observe(batchOf(1), [{ ok: false, unitId: 1, epoch: 0, code: 'cancelled', message: '' }]);
  assert.equal(patience(), 180, 'a unit that failed says nothing of how long one takes');
});

test('an executor that was only slow is given twice the time, up to a bound, and for a minute', () => {
  const patience = new SparedPatience();
  assert.equal(patience.ms(0), 180);
  patience.falseAlarm(0);
  assert.equal(patience.ms(1), 360);
  for (let at = 2; at < 6; at++) patience.falseAlarm(at);
  assert.equal(patience.ms(10), 720);
  assert.equal(patience.ms(60_000), 720);
  assert.equal(patience.ms(60_006), 180);
});
