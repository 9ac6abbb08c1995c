import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { PREROLL_MS, REPEAT_INTERVAL_MS } from '../../src/media/PicturePump.ts';
import { FRAME, FRAME_MS, SessionRig, content } from './session_rig.ts';

describe('pacing', () => {
  it('anchors on the first frame and lets every frame go when it is due', async () => {
    const rig = new SessionRig();
    const peer = rig.connect();
    await rig.clock.advanceTo(100);
    for (let index = 0; index < 6; index++) rig.frame(index);
    assert.deepEqual(rig.words.anchor, { mediaTime90k: 0, atMs: 100 + PREROLL_MS });
    assert.deepEqual(rig.toEngine.map(({ type, atMs }) => [type, atMs]), [['media.anchored', 100]]);
    await rig.clock.advanceTo(100 + 6 * FRAME_MS);
    assert.deepEqual(peer.pictures.map((picture) => picture.content), [0, 1, 2, 3, 4, 5].map((index) => content(index)));
    peer.pictures.forEach((picture, index) => {
      const due = 105 + index * FRAME_MS;
      assert.ok(Math.abs(picture.atMs - due - rig.encoder.latencyMs) < 1, `frame ${index} left at ${picture.atMs}, due ${due}`);
    });
  });

  it('advances RTP time by elapsed time, the same step for every frame on the timeline', async () => {
    const rig = new SessionRig();
    const peer = rig.connect();
    for (let index = 0; index < 12; index++) rig.frame(index, { silent: true });
    await rig.clock.advanceTo(1100);
    const steps = peer.pictures.slice(1).map((picture, i) => (picture.rtp - peer.pictures[i]!.rtp) >>> 0);
    assert.ok(steps.slice(0, 11).every((step) => Math.abs(step - FRAME) <= 1), steps.join(' '));
  });

  it('waits for somebody to see it: no frame is spent before a connection, and none while it is away', async () => {
    const rig = new SessionRig();
    for (let index = 0; index < 8; index++) rig.frame(index, { silent: true });
    await rig.clock.advanceTo(1000);
    assert.equal(rig.words.anchor, null);
    assert.equal(rig.video.used, 8);
    const peer = rig.connect();
    await rig.clock.advanceTo(1000 + PREROLL_MS + 2 * FRAME_MS + 10);
    assert.equal(peer.pictures.length, 3);
    await peer.close();
    await rig.clock.advanceTo(5000);
    assert.equal(rig.video.used, 5, 'what was not sent is still there');
    const again = rig.connect('d');
    await rig.clock.advanceTo(5000 + PREROLL_MS + 10);
    assert.equal(again.pictures.at(-1)!.content, content(3));
    assert.ok(again.pictures[0]!.keyframe);
  });

  it('holds when a frame is missing and goes on, from when it comes, on a new anchor', async () => {
    const rig = new SessionRig();
    const peer = rig.connect();
    rig.frame(0);
    rig.frame(1);
    await rig.clock.advanceTo(400);
    assert.equal(peer.pictures.length, 2);
    rig.frame(2);
    rig.frame(3);
    assert.deepEqual(rig.words.anchor, { mediaTime90k: 2 * FRAME, atMs: 400 + PREROLL_MS });
    assert.equal(rig.toEngine.filter((message) => message.type === 'media.anchored').length, 2);
    await rig.clock.advanceTo(400 + PREROLL_MS + FRAME_MS + 10);
    assert.deepEqual(peer.pictures.map((picture) => picture.content), [0, 1, 2, 3].map((index) => content(index)));
    assert.equal(rig.session.pictures.counters.underruns, 1);
    const gap = (peer.pictures[2]!.rtp - peer.pictures[1]!.rtp) >>> 0;
    assert.ok(Math.abs(gap - (405 - PREROLL_MS - FRAME_MS) * 90) <= 1, 'RTP time ran on while it was held');
  });

  it('repeats the held picture at least once a second, under its own RTP times', async () => {
    const rig = new SessionRig();
    const peer = rig.connect();
    rig.frame(0);
    await rig.clock.advanceTo(5000);
    assert.ok(peer.pictures.length >= 6, `${peer.pictures.length} pictures in 5 s`);
    for (let i = 1; i < peer.pictures.length; i++) {
      assert.ok(peer.pictures[i]!.atMs - peer.pictures[i - 1]!.atMs <= 1000);
      assert.ok(((peer.pictures[i]!.rtp - peer.pictures[i - 1]!.rtp) | 0) > 0);
      assert.equal(peer.pictures[i]!.content, content(0));
    }
    assert.ok(REPEAT_INTERVAL_MS < 1000);
    assert.equal(rig.session.counters.framesRepeated, peer.pictures.length - 1);
  });

  it('skips frames whose successor is due as well: late frames never pile up', async () => {
    const rig = new SessionRig();
    const peer = rig.connect();
    rig.encoder.latencyMs = 200;
    for (let index = 0; index < 12; index++) rig.frame(index, { silent: true });
    await rig.clock.advanceTo(1300);
    assert.ok(rig.session.pictures.counters.framesSkipped >= 5);
    const shown = peer.pictures.map((picture) => picture.content / 16);
    for (let i = 1; i < shown.length; i++) assert.ok(shown[i]! > shown[i - 1]!);
    for (const picture of peer.pictures) {
      const due = PREROLL_MS + (picture.content / 16) * FRAME_MS;
      assert.ok(picture.atMs - due <= 200 + FRAME_MS + 1, `${picture.content / 16} left ${picture.atMs - due} ms late`);
    }
    assert.equal(rig.video.used, 0);
  });

  it('pauses and goes on where it was', async () => {
    const rig = new SessionRig();
    const peer = rig.connect();
    for (let index = 0; index < 10; index++) rig.frame(index);
    await rig.clock.advanceTo(PREROLL_MS + 2 * FRAME_MS + 10);
    rig.send({ type: 'pause', id: 'p' });
    await rig.clock.advanceTo(3000);
    assert.ok(peer.pictures.every((picture) => picture.content <= content(2)));
    assert.equal(rig.words.epoch, 0);
    rig.send({ type: 'resume', id: 'r' });
    await rig.clock.advanceTo(3000 + PREROLL_MS + 10);
    assert.equal(peer.pictures.at(-1)!.content, content(3));
    assert.deepEqual(rig.forwarded().map(({ text, fencedEpoch }) => [(JSON.parse(text) as { type: string }).type, fencedEpoch]), [['pause', null], ['resume', null]]);
  });

  it('shows a final in place of its preview, and drops ranges that have left', async () => {
    const rig = new SessionRig();
    const peer = rig.connect();
    rig.frame(0, { silent: true });
    rig.frame(1, { silent: true, stage: 'preview' });
    const final = rig.frame(1, { silent: true })!;
    rig.video.bytes(final.picture).fill(250);
    rig.frame(1, { silent: true }); // a duplicate
    assert.equal(rig.video.used, 2);
    await rig.clock.advanceTo(200);
    rig.frame(0, { silent: true });
    assert.deepEqual(peer.pictures.map((picture) => picture.content), [content(0), 250]);
    assert.equal(rig.video.used, 0);
  });

  it('tells what is shown just before it is shown, at every change and every twelfth frame', async () => {
    const rig = new SessionRig({ slots: 40 });
    const peer = rig.connect();
    for (let index = 0; index < 30; index++) rig.frame(index, { silent: true, actionSequence: index < 5 ? 0 : 9 });
    await rig.clock.advanceTo(30 * FRAME_MS + 20);
    const notices = peer.texts.filter(({ channel }) => channel === 'state');
    assert.deepEqual(notices.map(({ message }) => (message['media90k'] as number) / FRAME), [0, 5, 17, 29]);
    for (const { message, pictures } of notices) assert.equal(peer.pictures[pictures]!.rtp, message['rtp'], 'comes before its frame');
  });

  it('goes on after an encoder failure with a keyframe, and gives up after ten', async () => {
    const rig = new SessionRig({ slots: 40 });
    const peer = rig.connect();
    for (let index = 0; index < 36; index++) rig.frame(index, { silent: true });
    await rig.clock.advanceTo(200);
    rig.encoder.fails = true;
    await rig.clock.advanceTo(400);
    rig.encoder.fails = false;
    const before = peer.pictures.length;
    await rig.clock.advanceTo(800);
    assert.ok(peer.pictures[before]!.keyframe);
    rig.encoder.fails = true;
    await rig.clock.advanceTo(3000);
    assert.equal(peer.state, 'closed');
    assert.ok(rig.toControl.some((message) => message.type === 'connection.failed' && message.error.code === 'internal'));
  });

  it('closes once: nothing leaves afterwards and late chunks give their slots back', async () => {
    const rig = new SessionRig();
    const peer = rig.connect();
    for (let index = 0; index < 4; index++) rig.frame(index);
    await rig.clock.advanceTo(100);
    const sent = peer.pictures.length;
    await Promise.all([rig.session.close(), rig.session.close()]);
    rig.frame(4);
    await rig.clock.advanceTo(3000);
    assert.equal(peer.pictures.length, sent);
    assert.equal(rig.video.used + rig.audio.used, 0);
    assert.equal(rig.clock.pending, 0, 'no timer is left');
  });
});
