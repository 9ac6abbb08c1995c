import assert from 'node:assert/strict';
import { test } from 'node:test';
import { logProbability } from '../../../src/engine/model/kernels/log_probability.ts';

test('probabilities of all tokens sum to one, also where logits are large', () => {
  for (const logits of [Float32Array.of(0, 0, 0, 0), Float32Array.of(1, -2, 3, 0.5), Float32Array.of(1000, 999, -1000)]) {
    const sum = [...logits].reduce((total, _, token) => total + Math.exp(logProbability(logits, token)), 0);
    assert.ok(Math.abs(sum - 1) < 1e-12, `${sum}`);
  }
  assert.equal(logProbability(Float32Array.of(5), 0), 0);
  assert.ok(Math.abs(logProbability(Float32Array.of(0, 0), 1) + Math.log(2)) < 1e-15);
  assert.throws(() => logProbability(Float32Array.of(1), 1), RangeError);
});
