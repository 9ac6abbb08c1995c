import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TraceBuffer } from '../../../src/engine/runtime/TraceBuffer.ts';

const event = (atMs: number) => ({ type: 'trace.step', name: 'n', atMs }) as const;

test('what is not fetched in time is dropped, oldest first, and said', () => {
  const buffer = new TraceBuffer(8);
  for (let n = 0; n < 10; n++) buffer.add(event(n));
  const taken = buffer.take(99);
  assert.deepEqual(taken.slice(0, -1).map(({ atMs }) => atMs), [2, 3, 4, 5, 6, 7, 8, 9]);
  assert.deepEqual(taken.at(-1), { type: 'trace.scheduler', name: 'trace.dropped', atMs: 99, args: { events: 2 } });
  assert.deepEqual(buffer.take(100), []);
});

test('bad capacity', () => {
  assert.throws(() => new TraceBuffer(0), TypeError);
});
