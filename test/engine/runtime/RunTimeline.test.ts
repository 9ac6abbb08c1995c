import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RunTimeline } from '../../../src/engine/runtime/RunTimeline.ts';

test('units are due in step with the work that is done, the last at the end', () => {
  const timeline = new RunTimeline({ startMs: 1000, withinMs: 500, totalMs: 100, longestMs: 10 });
  assert.equal(timeline.deadlineMs(), 1050, 'the first: a tenth of the work in a tenth of the time');
  timeline.advance(40);
  assert.equal(timeline.deadlineMs(), 1250);
  timeline.advance(60);
  assert.equal(timeline.deadlineMs(), timeline.endMs, 'never later than the end, whatever was predicted wrong');
  timeline.advance(500);
  assert.equal(timeline.deadlineMs(), 1500);
  assert.equal(timeline.releaseMs(), -Infinity, 'nothing waits for its time');
});
