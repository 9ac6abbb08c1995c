import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RunStream } from '../../src/engine/RunStream.ts';
import { VirtualClock } from '../../src/observe/virtual_clock.ts';

test('what is pushed is taken in its order, also by who waits; after the end comes null', async () => {
  const stream = new RunStream<number>(new VirtualClock(), 1000, () => assert.fail('nobody stalls'));
  stream.push(1);
  stream.push(2);
  assert.deepEqual([await stream.take(), await stream.take()], [1, 2]);
  const waiting = stream.take();
  stream.push(3);
  assert.equal(await waiting, 3);
  stream.push(4);
  stream.end();
  assert.deepEqual([await stream.take(), await stream.take(), await stream.take()], [4, null, null]);
});

test('something that waits for too long is told of once; an empty stream may wait for ever', async () => {
  const clock = new VirtualClock();
  let stalls = 0;
  const stream = new RunStream<number>(clock, 1000, () => stalls++);
  await clock.advanceTo(5000);
  assert.equal(stalls, 0);
  stream.push(1);
  await clock.advanceTo(5900);
  assert.equal(await stream.take(), 1);
  await clock.advanceTo(9000);
  assert.equal(stalls, 0);
  stream.push(2);
  stream.push(3);
  await clock.advanceTo(20_000);
  assert.equal(stalls, 1);
  stream.close();
  assert.equal(await stream.take(), null);
  assert.equal(clock.pending, 0);
});
