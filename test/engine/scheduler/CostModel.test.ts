import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CostModel, UNMEASURED_MS } from '../../../src/engine/scheduler/CostModel.ts';

const model = () =>
  new CostModel('m', [
    { component: 'denoise', shapeKey: 's', batch: 1, p50Ms: 5, p95Ms: 7 },
    { component: 'denoise', shapeKey: 's', batch: 4, p50Ms: 16, p95Ms: 18 },
    { component: 'denoise', shapeKey: 'large', batch: 1, p50Ms: 9, p95Ms: 9 },
  ]);

test('measured sizes as measured, others in proportion to the nearest', () => {
  const costs = model();
  assert.equal(costs.predict('denoise', 's', 1), 5);
  assert.equal(costs.predict('denoise', 's', 4), 16);
  assert.equal(costs.predict('denoise', 's', 3), 12);
  assert.equal(costs.predict('denoise', 's', 8), 32);
  assert.equal(costs.component('denoise'), 9, 'the costliest shape');
  assert.equal(costs.predict('unheard', 's', 2), 2 * UNMEASURED_MS);
});

test('the estimate follows what units take, and stops at its floor', () => {
  const costs = model();
  for (let n = 0; n < 200; n++) costs.observe('denoise', 's', 1, 10);
  assert.ok(Math.abs(costs.predict('denoise', 's', 1) - 10) < 0.1);
  for (let n = 0; n < 500; n++) costs.observe('denoise', 's', 1, 0.01);
  assert.equal(costs.predict('denoise', 's', 1), 2.5);
  for (const nonsense of [NaN, -1, 0, Infinity]) costs.observe('denoise', 's', 1, nonsense);
  assert.equal(costs.predict('denoise', 's', 1), 2.5);
});

test('the longest unit is that of the costliest component', () => {
  assert.equal(model().longest(['denoise']), 9);
  assert.equal(model().longest(['denoise', 'unheard']), UNMEASURED_MS);
  assert.equal(model().longest([]), 0);
});

test('a size that was never measured is learnt', () => {
  const costs = model();
  costs.observe('denoise', 's', 2, 9);
  assert.equal(costs.predict('denoise', 's', 2), 9);
  assert.equal(costs.entries().length, 4);
});

test('units that something else delayed now and then leave the undisturbed cost where it is; a lasting change moves it', () => {
  const costs = model();
  for (let n = 0; n < 400; n++) costs.observe('denoise', 'large', 1, n % 3 === 0 ? 9 : 25);
  assert.ok(costs.component('denoise') > 14, 'the mean follows');
  assert.ok(Math.abs(costs.undisturbed('denoise') - 9) < 1.5, `undisturbed is ${costs.undisturbed('denoise')}`);
  for (let n = 0; n < 400; n++) costs.observe('denoise', 'large', 1, 25);
  assert.ok(costs.undisturbed('denoise') > 20);
  assert.equal(costs.undisturbed('unheard'), UNMEASURED_MS);
});
