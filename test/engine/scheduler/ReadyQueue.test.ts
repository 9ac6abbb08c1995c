import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ReadyQueue, type QueuedTurn } from '../../../src/engine/scheduler/ReadyQueue.ts';
import { turnOf } from './turn_of.ts';

function queued(deadlineMs: number, { releaseMs = -Infinity, component = 'denoise' } = {}): QueuedTurn<string> {
  return { session: `due ${deadlineMs}`, turn: turnOf({ component }), releaseMs, deadlineMs, void: false };
}

test('earliest deadline first, over all components', () => {
  const queue = new ReadyQueue<string>();
  for (const turn of [queued(30), queued(10, { component: 'picture' }), queued(20)]) queue.push(turn, 0);
  assert.deepEqual([1, 2, 3, 4].map(() => queue.take(0)?.deadlineMs ?? null), [10, 20, 30, null]);
});

test('a turn is not taken before its release', () => {
  const queue = new ReadyQueue<string>();
  queue.push(queued(10, { releaseMs: 50 }), 0);
  queue.push(queued(90), 0);
  assert.equal(queue.nextReleaseMs(), 50);
  assert.equal(queue.take(0)?.deadlineMs, 90);
  assert.equal(queue.take(49), null);
  assert.equal(queue.take(50)?.deadlineMs, 10);
  assert.equal(queue.nextReleaseMs(), null);
});

test('void turns are dropped wherever they wait', () => {
  const queue = new ReadyQueue<string>();
  const turns = [queued(1), queued(2), queued(3, { releaseMs: 5 })];
  for (const turn of turns) queue.push(turn, 0);
  for (const turn of turns) queue.withdraw(turn);
  assert.equal(queue.take(10), null);
  assert.equal(queue.nextReleaseMs(), null);
  assert.equal(queue.size, 0);
});

test('peers and others are told apart by component', () => {
  const queue = new ReadyQueue<string>();
  for (const turn of [queued(5), queued(1), queued(3, { component: 'picture' })]) queue.push(turn, 0);
  assert.deepEqual(queue.others('denoise').map(({ deadlineMs }) => deadlineMs), [3]);
  assert.equal(queue.takePeer('denoise')?.deadlineMs, 1);
  assert.equal(queue.takePeer('sound'), null);
});

test('the order is that of a sort, equal deadlines in the order they came', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(20), { maxLength: 100 }), (deadlines) => {
      const queue = new ReadyQueue<string>();
      deadlines.forEach((deadlineMs, index) => queue.push({ ...queued(deadlineMs), session: String(index) }, 0));
      const taken = deadlines.map(() => queue.take(0)!);
      const expected = deadlines.map((deadlineMs, index) => ({ deadlineMs, index })).sort((a, b) => a.deadlineMs - b.deadlineMs || a.index - b.index);
      assert.deepEqual(taken.map(({ session }) => Number(session)), expected.map(({ index }) => index));
    }),
  );
});
