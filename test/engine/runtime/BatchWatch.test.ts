import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BatchWatch } from '../../../src/engine/runtime/BatchWatch.ts';
import { VirtualClock } from '../../../src/observe/virtual_clock.ts';

test('a batch that does not end in time is reported once, however many ended before it', async () => {
  const clock = new VirtualClock();
  const expired: [string, number][] = [];
  const watch = new BatchWatch<string>(clock, 100, (batch) => expired.push([batch, clock.now()]));
  for (let n = 0; n < 50; n++) {
    watch.begin(`quick ${n}`);
    await clock.advanceTo(clock.now() + 7);
    watch.end();
    assert.ok(clock.pending <= 1, 'one timer, not one per batch');
  }
  watch.begin('hanging');
  const begunMs = clock.now();
  await clock.advanceTo(begunMs + 1000);
  assert.deepEqual(expired, [['hanging', begunMs + 100]]);
});

test('nothing is left after close', async () => {
  const clock = new VirtualClock();
  const watch = new BatchWatch<string>(clock, 100, () => assert.fail('closed'));
  watch.begin('a');
  watch.close();
  watch.close();
  assert.equal(clock.pending, 0);
  await clock.advanceTo(500);
});
