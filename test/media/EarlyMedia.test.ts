import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EarlyMedia } from '../../src/media/EarlyMedia.ts';
import { VirtualClock } from '../../src/observe/virtual_clock.ts';
import type { MediaComplete } from '../../src/streams/media_events.ts';

const event = (sessionId: string, sequence: number): MediaComplete => ({ type: 'media.complete', sessionId, streamId: 'video', sequence, reason: 'closed' });

test('media that overtakes the opening of its session is handed over in order when it opens, once', () => {
  const early = new EarlyMedia(new VirtualClock());
  for (let sequence = 0; sequence < 3; sequence++) assert.ok(early.keep(event('a', sequence)));
  assert.ok(early.keep(event('b', 0)));
  assert.deepEqual(early.take('a').map(({ sequence }) => sequence), [0, 1, 2]);
  assert.deepEqual(early.take('a'), []);
  assert.equal(early.sessions, 1);
});

test('what waits is bounded per session, in sessions and in time', async () => {
  const clock = new VirtualClock();
  const early = new EarlyMedia(clock);
  let kept = 0;
  for (let sequence = 0; sequence < 1000; sequence++) kept += Number(early.keep(event('a', sequence)));
  assert.equal(kept, 64);
  for (let session = 0; session < 1000; session++) early.keep(event(`s${session}`, 0));
  assert.equal(early.sessions, 64);
  await clock.advanceTo(5000);
  assert.equal(early.sessions, 0);
  assert.deepEqual(early.take('a'), []);
  early.keep(event('c', 0));
  early.close();
  assert.equal(clock.pending, 0);
});
