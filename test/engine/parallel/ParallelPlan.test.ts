import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hashParallelPlan, parallelPlan } from '../../../src/engine/parallel/ParallelPlan.ts';

test('axes that are not named have degree 1, and the product is the world size', () => {
  assert.equal(parallelPlan({ tp: 2, sp: 2 }, 4).axes.cfgp, 1);
  assert.throws(() => parallelPlan({ tp: 2 }, 4), /cover 2 devices, the instance has 4/);
  assert.throws(() => parallelPlan({ tp: 0 }, 1), /tp must be a whole number/);
  assert.doesNotThrow(() => parallelPlan({ replica: 3 }, 1));
});

test('plans that lay tensors out differently have different hashes', () => {
  assert.notEqual(hashParallelPlan(parallelPlan({ tp: 2 }, 2)), hashParallelPlan(parallelPlan({ sp: 2 }, 2)));
  assert.equal(hashParallelPlan(parallelPlan({ tp: 2 }, 2)), hashParallelPlan(parallelPlan({ tp: 2, sp: 1 }, 2)));
});
