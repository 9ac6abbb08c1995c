import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PresentationTimeline } from '../../../src/engine/scheduler/PresentationTimeline.ts';
import { SessionWords } from '../../../src/streams/session_words.ts';

const CHUNK = 15_000;

function timelineOf(lookAheadMs = 120) {
  const words = new SessionWords();
  return { words, timeline: new PresentationTimeline({ words, lookAheadMs, chunk90k: CHUNK, nowMs: 0 }) };
}

test('before the first frame is anchored one chunk is wanted at once, and no more', () => {
  const { timeline } = timelineOf();
  assert.equal(timeline.releaseMs(0), -Infinity);
  assert.equal(timeline.releaseMs(CHUNK - 7500), -Infinity);
  assert.equal(timeline.releaseMs(CHUNK), Infinity);
  assert.equal(timeline.presentationMs(0), null);
  assert.equal(timeline.deadlineMs(0), 120);
});

test('anchored, a chunk is begun a look-ahead before it is due', () => {
  const { words, timeline } = timelineOf();
  timeline.flowing();
  words.writeAnchor({ mediaTime90k: 0, atMs: 1000 });
  assert.equal(timeline.presentationMs(CHUNK), 1000 + CHUNK / 90);
  assert.equal(timeline.releaseMs(CHUNK), 1000 + CHUNK / 90 - 120);
  assert.equal(timeline.deadlineMs(9000), 1100);
});

test('after a fence the old anchor is void until media sets a new one', () => {
  const { words, timeline } = timelineOf();
  timeline.flowing();
  words.writeAnchor({ mediaTime90k: 0, atMs: 1000 });
  timeline.detach(2000, 45_000);
  assert.equal(timeline.releaseMs(45_000), -Infinity);
  assert.equal(timeline.releaseMs(45_000 + CHUNK), Infinity);
  timeline.flowing();
  assert.equal(timeline.presentationMs(45_000), null, 'still the anchor of before the fence');
  words.writeAnchor({ mediaTime90k: 45_000, atMs: 2100 });
  assert.equal(timeline.presentationMs(45_000), 2100);
});

test('an anchor that moves before a frame of the new epoch was handed out does not count', () => {
  const { words, timeline } = timelineOf();
  timeline.flowing();
  timeline.detach(0, 0);
  words.writeAnchor({ mediaTime90k: 0, atMs: 9_000_000 });
  assert.equal(timeline.releaseMs(0), -Infinity, 'or nothing would be made until then');
});

test('the look-ahead is at most a chunk and 250 ms', () => {
  assert.ok(Math.abs(timelineOf(10_000).timeline.lookAheadMs - CHUNK / 90) < 1e-9);
  const long = new PresentationTimeline({ words: new SessionWords(), lookAheadMs: 10_000, chunk90k: 90_000, nowMs: 0 });
  assert.equal(long.lookAheadMs, 250);
  assert.throws(() => timelineOf(0), TypeError);
});

test('frames that come late make the look-ahead longer, up to a chunk; calm makes it as short again as it was', () => {
  const { timeline } = timelineOf();
  timeline.ready(30);
  assert.equal(timeline.lookAheadMs, 120);
  timeline.ready(-10);
  assert.equal(timeline.lookAheadMs, 140, 'by as much as it was late, and a little to spare');
  timeline.ready(-200);
  assert.ok(Math.abs(timeline.lookAheadMs - CHUNK / 90) < 1e-9);
  for (let frame = 0; frame < 60; frame++) timeline.ready(60);
  assert.ok(timeline.lookAheadMs > 130, 'not at the first calm seconds');
  for (let frame = 0; frame < 60; frame++) timeline.ready(60);
  assert.equal(timeline.lookAheadMs, 120);
});
