import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ActionLatch } from '../../../src/engine/scheduler/ActionLatch.ts';

const action = (changes = {}) => ({ sequence: 1, steer: 0, speed: 2, leftPresses: 0, rightPresses: 0, ...changes });

test('a tap shorter than a step is felt for one step', () => {
  const latch = new ActionLatch(action());
  const tapped = action({ sequence: 3, leftPresses: 1 });
  assert.equal(latch.read(tapped).steer, -1);
  assert.equal(latch.read(tapped).steer, -1, 'a step that was thrown away does not count');
  latch.felt(tapped);
  assert.equal(latch.read(tapped).steer, 0);
});

test('a held key wins, and taps to both sides cancel out', () => {
  const latch = new ActionLatch(action());
  assert.equal(latch.read(action({ steer: 1, leftPresses: 5 })).steer, 1);
  assert.equal(latch.read(action({ leftPresses: 1, rightPresses: 2 })).steer, 0);
});

test('presses of before the session are not felt', () => {
  assert.equal(new ActionLatch(action({ rightPresses: 9 })).read(action({ rightPresses: 9 })).steer, 0);
});
