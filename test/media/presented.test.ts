import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { PresentedTracker } from '../../src/media/PresentedTracker.ts';
import { FRAME, FRAME_MS, SessionRig } from './session_rig.ts';

/** Frames 0 … count−1 of epoch 0, one each 83 ms, RTP time = media time + 1,000,000; chunks of two. */
function sent(count: number): PresentedTracker {
  const tracker = new PresentedTracker(0, FRAME);
  for (let index = 0; index < count; index++) frame(tracker, index);
  return tracker;
}
function frame(tracker: PresentedTracker, index: number, epoch = 0, rtp = rtpOf(index)): void {
  tracker.frameSent({ rtp, epoch, start90k: index * FRAME, end90k: (index + 1) * FRAME, chunk: index >> 1, atMs: index * FRAME_MS });
}
const rtpOf = (index: number): number => (1_000_000 + index * FRAME) >>> 0;

describe('presented position', () => {
  it('is the end of the frame that the client names', () => {
    const tracker = sent(4);
    assert.ok(tracker.report({ videoRtp: rtpOf(2) }, 400));
    assert.equal(tracker.presented90k, 3 * FRAME);
  });

  it('follows the earlier of picture and sound, but sound by at most a frame', () => {
    const tracker = sent(6);
    for (let packet = 0; packet < 25; packet++) tracker.soundSent({ rtp: packet * 960, epoch: 0, start90k: packet * 1800 });
    tracker.report({ videoRtp: rtpOf(4), audioRtp: 17 * 960 }, 500); // 30,600: frame 4 as well
    assert.equal(tracker.presented90k, 5 * FRAME);
    const behind = sent(6);
    for (let packet = 0; packet < 25; packet++) behind.soundSent({ rtp: packet * 960, epoch: 0, start90k: packet * 1800 });
    behind.report({ videoRtp: rtpOf(5), audioRtp: 16 * 960 }, 500); // 28,800: frame 3, two behind
    assert.equal(behind.presented90k, 5 * FRAME);
    const alone = sent(6);
    alone.soundSent({ rtp: 960, epoch: 0, start90k: 3 * FRAME + 100 });
    alone.report({ audioRtp: 960 }, 500);
    assert.equal(alone.presented90k, 4 * FRAME);
  });

  it('never goes back, and takes no position that was not sent', () => {
    const tracker = sent(5);
    tracker.report({ videoRtp: rtpOf(3) }, 400);
    assert.equal(tracker.report({ videoRtp: rtpOf(1) }, 500), false);
    assert.equal(tracker.report({ videoRtp: rtpOf(40) }, 600), false);
    assert.equal(tracker.report({ videoRtp: 5 }, 700), false);
    assert.equal(tracker.report({}, 800), false);
    assert.equal(tracker.presented90k, 4 * FRAME);
  });

  it('is at least two chunks behind what was sent, for a client that says nothing', () => {
    const tracker = sent(20);
    assert.equal(tracker.presented90k, 20 * FRAME - 4 * FRAME);
  });

  it('takes about twenty reports a second', () => {
    const tracker = sent(6);
    assert.ok(tracker.report({ videoRtp: rtpOf(3) }, 1000));
    assert.equal(tracker.report({ videoRtp: rtpOf(4) }, 1010), false);
    assert.ok(tracker.report({ videoRtp: rtpOf(4) }, 1050));
  });

  it('of a story that goes on from a moment, begins there: nothing before it is unseen', () => {
    const tracker = new PresentedTracker(3, FRAME, 12 * FRAME);
    assert.equal(tracker.fence(4, {}, 0).media90k, 12 * FRAME, 'interrupted before its first frame');
    for (let index = 12; index < 16; index++) {
      frame(tracker, index, 4);
      assert.ok(tracker.presented90k >= 12 * FRAME, `${tracker.presented90k}`);
    }
    tracker.fence(5, {}, 0);
    for (const index of [40, 41]) frame(tracker, index, 5);
    assert.equal(tracker.presented90k, 40 * FRAME, 'a replay that goes on from later');
  });

  it('counts RTP time modulo 2³²', () => {
    const tracker = new PresentedTracker(0, FRAME);
    for (let index = 0; index < 4; index++) frame(tracker, index, 0, (2 ** 32 - FRAME + index * FRAME) >>> 0);
    tracker.report({ videoRtp: 0 }, 400);
    assert.equal(tracker.presented90k, 2 * FRAME);
  });
});

describe('held position', () => {
  it('is the client’s word where it is plausible', () => {
    const tracker = sent(6);
    assert.deepEqual(tracker.fence(1, { videoRtp: rtpOf(3) }, 500), { media90k: 4 * FRAME, source: 'client' });
    assert.deepEqual([tracker.epoch, tracker.sent90k, tracker.presented90k], [1, 4 * FRAME, 4 * FRAME]);
  });

  it('is its last report where that is fresh', () => {
    const tracker = sent(6);
    tracker.report({ videoRtp: rtpOf(4) }, 480);
    assert.deepEqual(tracker.fence(1, {}, 560), { media90k: 5 * FRAME, source: 'client' });
  });

  it('is estimated by the measured delay else, also for an implausible word', () => {
    const tracker = sent(12);
    for (const index of [6, 8, 10]) tracker.report({ videoRtp: rtpOf(index) }, index * FRAME_MS + 60);
    assert.ok(Math.abs(tracker.playoutDelayMs - 60) < 0.001);
    const now = 11 * FRAME_MS + 500;
    assert.deepEqual(tracker.fence(1, { videoRtp: 12345 }, now), { media90k: 12 * FRAME, source: 'estimate' });
    const early = sent(12);
    assert.deepEqual(early.fence(1, {}, 11 * FRAME_MS + 30), { media90k: 11 * FRAME, source: 'estimate' }, 'sent − 100 ms, before any report');
  });

  it('stays where it was when a second fence comes before the new epoch was seen', () => {
    const tracker = sent(6);
    const first = tracker.fence(1, { videoRtp: rtpOf(3) }, 500);
    assert.deepEqual(tracker.fence(2, { videoRtp: rtpOf(3) }, 520), first);
    assert.equal(tracker.report({ videoRtp: rtpOf(5) }, 700), false, 'a late report of the old epoch moves nothing');
  });

  it('begins anew with the epoch: its frames count from where it was rewound to', () => {
    const tracker = sent(10);
    tracker.fence(1, { videoRtp: rtpOf(7) }, 900);
    frame(tracker, 8, 1, rtpOf(20));
    frame(tracker, 9, 1, rtpOf(21));
    tracker.report({ videoRtp: rtpOf(20) }, 2000);
    assert.deepEqual([tracker.presented90k, tracker.sent90k], [9 * FRAME, 10 * FRAME]);
  });

  it('is never outside [sent − horizon, sent] nor behind what was presented, whatever a client says', () => {
    fc.assert(
      fc.property(
        fc.array(fc.oneof(fc.record({ kind: fc.constant('frame' as const) }), fc.record({ kind: fc.constant('report' as const), videoRtp: fc.oneof(fc.nat(2 ** 31), fc.integer({ min: 0, max: 60 }).map(rtpOf)) }), fc.record({ kind: fc.constant('fence' as const), videoRtp: fc.option(fc.integer({ min: 0, max: 60 }).map(rtpOf), { nil: undefined }) })), { maxLength: 80 }),
        (steps) => {
          const tracker = new PresentedTracker(0, FRAME);
          let now = 0;
          let media = 0;
          let rtp = 0;
          for (const step of steps) {
            now += 50;
            const [before, epoch] = [tracker.presented90k, tracker.epoch];
            if (step.kind === 'frame') tracker.frameSent({ rtp: rtpOf(rtp++), epoch, start90k: media, end90k: (media += FRAME), chunk: media / FRAME >> 1, atMs: now });
            else if (step.kind === 'report') tracker.report({ videoRtp: step.videoRtp }, now);
            else media = tracker.fence(epoch + 1, { videoRtp: step.videoRtp }, now).media90k;
            assert.ok(tracker.presented90k >= before);
            assert.ok(tracker.presented90k <= tracker.sent90k);
            assert.ok(tracker.presented90k >= tracker.sent90k - 4 * FRAME);
            assert.equal(tracker.presented90k % FRAME, 0);
          }
        },
      ),
      { numRuns: 300 },
    );
  });
});

describe('positions in a session', () => {
  it('go to the engine as they move, and with a fence to the control thread', async () => {
    const rig = new SessionRig();
    const peer = rig.connect();
    for (let index = 0; index < 10; index++) rig.frame(index);
    await rig.clock.advanceTo(300);
    rig.send({ type: 'position', videoRtp: peer.pictures[2]!.rtp }, 'input');
    const presented = rig.toEngine.filter((message) => message.type === 'media.presented');
    assert.deepEqual(presented.map(({ epoch, media90k }) => [epoch, media90k]), [[0, 3 * FRAME]]);
    rig.send({ type: 'interrupt', id: 'i', heldVideoRtp: peer.pictures[3]!.rtp });
    assert.deepEqual(rig.forwarded().at(-1)!.held, { media90k: 4 * FRAME, source: 'client' });
    assert.ok(!rig.forwarded().some(({ text }) => text.includes('position')), 'positions end here');
    assert.ok(rig.toControl.some((message) => message.type === 'media.position'));
  });

  it('are told to their end when the picture stands', async () => {
    const rig = new SessionRig();
    const peer = rig.connect();
    for (let index = 0; index < 10; index++) rig.frame(index);
    await rig.clock.advanceTo(9 * FRAME_MS + 150);
    rig.send({ type: 'position', videoRtp: peer.pictures.at(-1)!.rtp }, 'input');
    await rig.clock.advanceTo(3_000);
    const told = rig.toControl.flatMap((message) => (message.type === 'media.position' ? [[message.sent90k, message.presented90k]] : []));
    assert.deepEqual(told.at(-1), [10 * FRAME, 10 * FRAME]);
    assert.deepEqual(told.filter(([sent90k]) => sent90k === 10 * FRAME).length <= 2, true, 'and no more often than they change');
    rig.send({ type: 'interrupt', id: 'i', heldVideoRtp: peer.pictures[4]!.rtp });
    const before = rig.toControl.length;
    await rig.clock.advanceTo(6_000);
    assert.ok(!rig.toControl.slice(before).some(({ type }) => type === 'media.position'), 'nothing has come of the epoch that was begun');
  });

  it('of a watcher don’t count', async () => {
    const rig = new SessionRig();
    rig.connect('driver');
    const peer = rig.connect('watcher', false);
    for (let index = 0; index < 4; index++) rig.frame(index);
    await rig.clock.advanceTo(300);
    rig.send({ type: 'position', videoRtp: peer.pictures[3]!.rtp }, 'input', 'watcher');
    assert.equal(rig.session.presented90k, 0);
  });
});
