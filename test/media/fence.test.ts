import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { DEFAULT_MEDIA_OPTIONS, type MediaOptions } from '../../src/media/options.ts';
import { PREROLL_MS } from '../../src/media/PicturePump.ts';
import { FRAME, FRAME_MS, SessionRig, content } from './session_rig.ts';

/** Frames 0 … 5 queued, driven to `atMs`, then an interrupt. */
async function interrupted(atMs: number, latencyMs = 2) {
  const rig = new SessionRig();
  rig.encoder.latencyMs = latencyMs;
  const peer = rig.connect();
  for (let index = 0; index < 6; index++) rig.frame(index);
  await rig.clock.advanceTo(atMs);
  const sentBefore = peer.pictures.length;
  rig.send({ type: 'interrupt', id: 'i' });
  return { rig, peer, sentBefore };
}

describe('fence', () => {
  it('names the request that fenced with the first frame of its epoch, and with no other', async () => {
    const { rig, peer } = await interrupted(200);
    for (let index = 3; index < 6; index++) rig.frame(index, { conditioningVersion: index });
    await rig.clock.advanceTo(200 + 5 * FRAME_MS);
    const notices = peer.texts.map(({ message }) => message).filter(({ type }) => type === 'frame');
    assert.deepEqual(notices.filter(({ epoch }) => epoch === 1).map(({ re }) => re), ['i', undefined, undefined]);
    assert.ok(notices.filter(({ epoch }) => epoch === 0).every(({ re }) => re === undefined));
  });

  it('raises the word itself, before anyone is told, exactly once for an id', async () => {
    const { rig } = await interrupted(200);
    assert.equal(rig.words.epoch, 1);
    const [told] = rig.forwarded();
    assert.equal(told!.fencedEpoch, 1);
    assert.equal(told!.wordEpoch, 1, 'the word was up when the message left');
    for (let copy = 0; copy < 3; copy++) rig.send({ type: 'interrupt', id: 'i' }, 'input');
    assert.equal(rig.forwarded().length, 1, 'copies on the input channel end here');
    rig.send({ type: 'interrupt', id: 'i' });
    assert.equal(rig.forwarded().length, 2);
    assert.deepEqual([rig.forwarded()[1]!.fencedEpoch, rig.forwarded()[1]!.held], [null, null], 'the same request again, for its answer');
    assert.equal(rig.words.epoch, 1);
  });

  it('fences by whichever copy comes first, also by input and by REST', async () => {
    const rig = new SessionRig();
    rig.connect();
    rig.send({ type: 'redirect', id: 'a', prompt: 'snow' }, 'input');
    rig.send({ type: 'redirect', id: 'a', prompt: 'snow' });
    rig.send({ type: 'interrupt', id: 'b' }, 'control', null);
    assert.equal(rig.words.epoch, 2);
    assert.deepEqual(rig.forwarded().map(({ channel, connectionId, fencedEpoch }) => [channel, connectionId, fencedEpoch]), [
      ['input', 'c', 1],
      ['control', 'c', null],
      ['control', null, 2],
    ]);
  });

  it('remembers 1,024 ids', async () => {
    const rig = new SessionRig({ options: unlimited() });
    rig.connect();
    for (let n = 0; n < 1025; n++) rig.send({ type: 'interrupt', id: `n${n}` });
    assert.equal(rig.words.epoch, 1025);
    rig.send({ type: 'interrupt', id: 'n1' }, 'input');
    assert.equal(rig.words.epoch, 1025);
    rig.send({ type: 'interrupt', id: 'n0' }, 'input');
    assert.equal(rig.words.epoch, 1026, 'older than that may fence again');
  });

  it('does not fence for a seamless redirect, a watcher or a malformed request', async () => {
    const rig = new SessionRig();
    rig.connect();
    rig.connect('watcher', false);
    rig.send({ type: 'redirect', id: 'a', prompt: 'snow', seamless: true });
    rig.send({ type: 'interrupt', id: 'b' }, 'control', 'watcher');
    rig.send({ type: 'interrupt', id: 'c' }, 'input', 'watcher');
    rig.send({ type: 'interrupt', id: 'not an id' });
    rig.send({ type: 'redirect', id: 'd' });
    rig.send({ type: 'interrupt', id: 'e', heldVideoRtp: -1 });
    assert.equal(rig.words.epoch, 0);
    assert.ok(rig.forwarded().every(({ fencedEpoch }) => fencedEpoch === null));
  });

  it('drops what is queued, whatever the moment, and hands on no picture of the old epoch', async () => {
    for (let atMs = 0; atMs < 260; atMs += 1) {
      const { rig, peer, sentBefore } = await interrupted(atMs, 7);
      assert.equal(rig.session.pictures.queued, 0);
      const last = peer.pictures.at(-1)?.content;
      await rig.clock.advanceTo(atMs + 2500);
      for (const picture of peer.pictures.slice(sentBefore)) {
        assert.equal(picture.epoch, picture.wordEpoch, `fenced at ${atMs}: a packet of epoch ${picture.epoch}`);
        assert.equal(picture.content, last, `fenced at ${atMs}: only the held picture may come again`);
      }
      assert.equal(rig.session.counters.stalePackets, 0);
      assert.equal(rig.video.used + rig.audio.used, 0);
      if (last !== undefined) assert.ok(peer.pictures.length >= sentBefore + 2, 'held at ≥ 1 frame a second');
    }
  });

  it('does not send an encode that the fence overtook; the next picture is a keyframe', async () => {
    const rig = new SessionRig();
    rig.encoder.latencyMs = 20;
    const peer = rig.connect();
    for (let index = 0; index < 6; index++) rig.frame(index);
    await rig.clock.advanceTo(PREROLL_MS + 2 * FRAME_MS + 5);
    assert.equal(rig.encoder.running, 1);
    const before = peer.pictures.length;
    rig.send({ type: 'interrupt', id: 'i' });
    for (let index = 2; index < 6; index++) rig.frame(index);
    await rig.clock.advanceTo(600);
    const after = peer.pictures.slice(before);
    assert.ok(after[0]!.keyframe);
    assert.ok(after.every((picture) => picture.content !== content(2, 0)), 'the overtaken picture is never shown, not even as the held one');
    assert.ok(rig.session.pictures.counters.framesFenced >= 4);
  });

  it('limits keyframes under a hail of interrupts', async () => {
    const rig = new SessionRig({ options: unlimited() });
    rig.encoder.latencyMs = 30;
    const peer = rig.connect();
    let index = 0;
    for (let n = 0; n < 100; n++) {
      rig.frame(index++, { silent: true });
      await rig.clock.advanceTo(n * 40 + 20);
      rig.send({ type: 'interrupt', id: `n${n}` });
    }
    const keyframes = peer.pictures.filter((picture) => picture.keyframe);
    for (let i = 1; i < keyframes.length; i++) assert.ok(keyframes[i]!.atMs - keyframes[i - 1]!.atMs >= 100);
    const last = rig.clock.now();
    rig.frame(index, { silent: true });
    await rig.clock.advanceTo(last + 200);
    assert.equal(peer.pictures.at(-1)!.content, content(index, rig.words.epoch), 'the next turn works');
  });

  it('lets the new epoch flow when it comes, from the position that is held, and says so', async () => {
    const { rig, peer } = await interrupted(200);
    await rig.clock.advanceTo(500);
    for (let index = 2; index < 6; index++) rig.frame(index);
    await rig.clock.advanceTo(500 + PREROLL_MS + 10);
    const first = peer.pictures.at(-1)!;
    assert.equal(first.content, content(2, 1));
    assert.deepEqual(rig.words.anchor, { mediaTime90k: 2 * FRAME, atMs: 500 + PREROLL_MS });
    const flowing = rig.toControl.filter((message) => message.type === 'media.flowing');
    assert.deepEqual(flowing.map(({ epoch, media90k }) => [epoch, media90k]), [[0, 0], [1, 2 * FRAME]]);
    rig.frame(0, { epoch: 0 });
    await rig.clock.advanceTo(1500);
    assert.ok(peer.pictures.every((picture) => picture.atMs < 200 || picture.wordEpoch === 1));
    assert.ok(!peer.pictures.some((picture) => picture.atMs > 510 && picture.content === content(0, 0)), 'a late frame of an old epoch changes nothing');
  });

  it('stops for a word that somebody else raised', async () => {
    const rig = new SessionRig();
    const peer = rig.connect();
    for (let index = 0; index < 6; index++) rig.frame(index);
    await rig.clock.advanceTo(100);
    const sent = peer.pictures.length;
    rig.words.raiseEpoch();
    await rig.clock.advanceTo(1500);
    assert.ok(peer.pictures.slice(sent).every((picture) => picture.content === peer.pictures[sent - 1]!.content));
    assert.ok(peer.sounds.filter((sound) => sound.atMs > 100).every((sound) => sound.epoch === 1));
    assert.equal(rig.session.counters.stalePackets, 0);
  });

  it('ends a pause: what follows is shown', async () => {
    const rig = new SessionRig();
    const peer = rig.connect();
    rig.frame(0);
    await rig.clock.advanceTo(50);
    rig.send({ type: 'pause', id: 'p' });
    rig.send({ type: 'redirect', id: 'r', prompt: 'desert' });
    rig.frame(1);
    await rig.clock.advanceTo(80);
    assert.equal(peer.pictures.at(-1)!.content, content(1, 1));
  });
});

function unlimited(): MediaOptions {
  return { ...DEFAULT_MEDIA_OPTIONS, limits: { ...DEFAULT_MEDIA_OPTIONS.limits, controlRate: 1e9, inputRate: 1e9 } };
}
