import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FramePlayout, type PlayoutStep } from '../../src/engine/FramePlayout.ts';
import { VirtualClock } from '../../src/observe/virtual_clock.ts';
import type { MediaChunk } from '../../src/streams/media_events.ts';
import { SessionWords } from '../../src/streams/session_words.ts';
import { SharedPool } from '../../src/streams/shared_pool.ts';

const FRAME = 7500;

function rig() {
  const clock = new VirtualClock();
  const words = new SessionWords();
  const pools = { video: SharedPool.create(8, 8), audio: SharedPool.create(8, 8) };
  const anchors: number[] = [];
  const playout = new FramePlayout({ clock, words, pools, anchored: () => anchors.push(clock.now()) });
  const push = (index: number, { revision = 0, epoch = words.epoch } = {}): void => {
    for (const kind of ['video', 'audio'] as const) playout.push({ kind, slot: pools[kind].acquire()!, start90k: index * FRAME, end90k: (index + 1) * FRAME, revision, epoch, samples: 4 } as unknown as MediaChunk);
  };
  const take = (): number | string => {
    const step: PlayoutStep = playout.next();
    if (step === null) return 'nothing';
    if ('atMs' in step) return `at ${Math.round(step.atMs)}`;
    pools.video.release(step.frame.video.slot);
    pools.audio.release(step.frame.audio.slot);
    return step.frame.video.start90k / FRAME;
  };
  return { clock, words, pools, anchors, playout, push, take };
}

test('the first frame goes out at once and anchors the timeline; those after it go out when they are due', async () => {
  const { clock, anchors, push, take } = rig();
  assert.equal(take(), 'nothing');
  for (const index of [0, 1, 2]) push(index);
  assert.deepEqual([take(), take(), anchors], [0, 'at 83', [0]]);
  await clock.advanceTo(84);
  assert.deepEqual([take(), take(), anchors], [1, 'at 167', [0]]);
});

test('a frame that is taken late moves the timeline, and nothing is dropped', async () => {
  const { clock, anchors, push, take } = rig();
  for (const index of [0, 1, 2]) push(index);
  take();
  await clock.advanceTo(1000);
  assert.deepEqual([take(), take()], [1, 'at 1083']);
  assert.deepEqual(anchors, [0, 1000]);
});

test('a fence drops all that waits, gives its slots back, and what comes late of the old epoch as well', () => {
  const { words, pools, playout, push, take } = rig();
  push(0);
  push(1);
  take();
  const old = words.epoch;
  words.raiseEpoch();
  playout.fence();
  push(2, { epoch: old });
  assert.deepEqual([take(), pools.video.used, pools.audio.used, words.outgoing.claimed90k], ['nothing', 0, 0, 0]);
  push(1);
  assert.equal(take(), 1);
});

test('what was recalled is not given; what was given can not be recalled any more', () => {
  const { words, pools, push, take, playout } = rig();
  push(0);
  push(1);
  assert.equal(take(), 0);
  assert.equal(words.outgoing.recall(0), null, 'it was claimed');
  assert.equal(words.outgoing.recall(FRAME), 1);
  playout.recall();
  assert.deepEqual([pools.video.used, take()], [0, 'nothing']);
  push(1, { revision: 1 });
  assert.equal(take(), 'at 83');
});

test('paused, nothing goes out; resumed, the timeline begins anew; closed, no slot is left', async () => {
  const { clock, pools, playout, push, take } = rig();
  push(0);
  push(1);
  take();
  playout.pause(true);
  await clock.advanceTo(500);
  assert.equal(take(), 'nothing');
  playout.pause(false);
  assert.equal(take(), 1);
  push(2);
  playout.close();
  assert.deepEqual([pools.video.used, pools.audio.used], [0, 0]);
});
