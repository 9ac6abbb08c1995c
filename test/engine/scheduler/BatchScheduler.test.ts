import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BatchScheduler } from '../../../src/engine/scheduler/BatchScheduler.ts';

const batches = new BatchScheduler();
const due = (...deadlines: number[]) => deadlines.map((deadlineMs) => ({ deadlineMs }));
const gaining = (batch: number) => [0, 5, 9, 13, 16][batch]!;
const base = { nowMs: 0, first: { deadlineMs: 100 }, waiting: [], maxBatch: 4, costMs: gaining };

test('joins what gains and keeps every deadline, up to the loop\'s largest batch', () => {
  assert.equal(batches.join({ ...base, peers: due(100, 100, 100, 100) }), 3);
  assert.equal(batches.join({ ...base, peers: due(100, 100, 100), maxBatch: 2 }), 1);
  assert.equal(batches.join({ ...base, peers: [] }), 0);
});

test('does not join where joining costs as much as running one by one', () => {
  assert.equal(batches.join({ ...base, peers: due(100), costMs: (batch) => 5 * batch }), 0);
});

test('does not make the first late', () => {
  assert.equal(batches.join({ ...base, first: { deadlineMs: 8 }, peers: due(100, 100) }), 0);
  assert.equal(batches.join({ ...base, first: { deadlineMs: 10 }, peers: due(100, 100) }), 1);
});

test('does not make somebody late who would wait for the batch', () => {
  assert.equal(batches.join({ ...base, peers: due(100, 100), waiting: [{ deadlineMs: 12, costMs: 6 }] }), 0);
  assert.equal(batches.join({ ...base, peers: due(100, 100), waiting: [{ deadlineMs: 16, costMs: 6 }] }), 1);
});

test('who is late already holds nobody back', () => {
  assert.equal(batches.join({ ...base, first: { deadlineMs: -5 }, peers: due(-4, -3), waiting: [{ deadlineMs: 1, costMs: 6 }] }), 2);
});
