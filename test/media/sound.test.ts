import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { PREROLL_MS } from '../../src/media/PicturePump.ts';
import { SoundTrack } from '../../src/media/SoundTrack.ts';
import { FRAME, FRAME_MS, SAMPLES, SessionRig } from './session_rig.ts';

const PACKET = 480;
const FADE = 120;
/** Ramp that tells the sample's number: frame `index` begins at `index × 2000`. */
const ramp = (first: number, count = SAMPLES): Int16Array => Int16Array.from({ length: count }, (_, i) => (first + i) % 30_000);

describe('sound on the timeline', () => {
  it('cuts packets to the sample, across pieces', () => {
    const track = new SoundTrack(24_000);
    track.add(0, 0, ramp(0));
    track.add(FRAME, 0, ramp(SAMPLES));
    const out = new Int16Array(PACKET);
    const heard: number[] = [];
    for (let packet = 0; packet < 8; packet++) {
      track.read(out, packet * 1800);
      heard.push(...out);
    }
    for (let i = FADE; i < heard.length; i++) assert.equal(heard[i], i, `sample ${i}`);
  });

  it('fades in at an onset and ramps down at an end, within 5 ms', () => {
    const track = new SoundTrack(24_000);
    track.add(0, 0, new Int16Array(PACKET + 100).fill(10_000));
    const out = new Int16Array(PACKET);
    assert.deepEqual(track.read(out, 0), { epoch: 0, start90k: 0, end90k: 1800 });
    assert.ok(out[0]! === 0 && out[FADE - 1]! < 10_000 && out[FADE] === 10_000);
    assert.deepEqual(track.read(out, 1800), { epoch: 0, start90k: 1800, end90k: 2175 });
    assert.ok(out[99] === 10_000 && out[100]! < 10_000 && out[100 + FADE - 1] === 0 && out.subarray(100 + FADE).every((x) => x === 0));
    assert.deepEqual(track.read(out, 3600), { epoch: null, start90k: null, end90k: null });
    assert.ok(out.every((x) => x === 0));
  });

  it('after a fence holds nothing of the old sound but the way to zero from its last sample', () => {
    const track = new SoundTrack(24_000);
    track.add(0, 0, ramp(0).map((x) => (x % 2 === 0 ? 9000 : -9000)));
    const out = new Int16Array(PACKET);
    track.read(out, 0);
    const last = out.at(-1)!;
    track.fence(1);
    assert.equal(track.bufferedSamples, 0);
    track.read(out, null);
    for (let i = 0; i < FADE; i++) assert.ok(Math.abs(out[i]! - last * (1 - (i + 1) / FADE)) <= 0.5);
    assert.ok(out.subarray(FADE).every((x) => x === 0), 'silence within one packet');
  });

  it('begins within a packet where the timeline does', () => {
    const track = new SoundTrack(24_000);
    track.add(0, 0, new Int16Array(SAMPLES).fill(7000));
    const out = new Int16Array(PACKET);
    assert.deepEqual(track.read(out, 0, 200), { epoch: 0, start90k: 0, end90k: 1050 });
    assert.ok(out.subarray(0, 200).every((x) => x === 0));
    track.read(out, 1050);
    assert.equal(out[0], 7000, 'and goes on without a seam');
  });

  it('keeps at most eight seconds', () => {
    const track = new SoundTrack(24_000);
    for (let index = 0; index < 200; index++) track.add(index * FRAME, 0, ramp(0));
    assert.ok(track.bufferedSamples <= 8 * 24_000);
  });
});

describe('sound packets', () => {
  it('leave every 20 ms with RTP steps of 960, silent before there is sound', async () => {
    const rig = new SessionRig();
    const peer = rig.connect();
    await rig.clock.advanceTo(1000);
    assert.equal(peer.sounds.length, 51);
    for (let i = 1; i < peer.sounds.length; i++) assert.equal((peer.sounds[i]!.rtp - peer.sounds[i - 1]!.rtp) >>> 0, 960);
    assert.ok(peer.sounds.every(({ samples }) => samples.length === PACKET && samples.every((x) => x === 0)));
  });

  it('are heard when their picture is seen: to the sample by RTP time', async () => {
    const rig = new SessionRig();
    const peer = rig.connect();
    await rig.clock.advanceTo(33);
    rig.frame(0, { level: 5000 });
    rig.frame(1, { level: 9000 });
    await rig.clock.advanceTo(400);
    const begin = 33 + PREROLL_MS;
    // The first sample of the second frame's sound, by its level, and the wall time that its packet's RTP time says it is heard at.
    let heardMs = NaN;
    for (const { rtp, samples } of peer.sounds) {
      const at = samples.findIndex((x) => x >= 9000);
      if (at >= 0 && Number.isNaN(heardMs)) heardMs = ((rtp - rig.rtp.audio(0)) >>> 0) / 48 + at / 24;
    }
    const seenMs = ((peer.pictures[1]!.rtp - rig.rtp.video(0)) >>> 0) / 90;
    assert.ok(Math.abs(seenMs - (begin + FRAME_MS)) < 0.1);
    assert.ok(Math.abs(heardMs - seenMs) < 0.1, `heard at ${heardMs}, seen at ${seenMs}`);
    assert.ok(rig.session.counters.takeMaxima().lipSyncMs <= 40);
  });

  it('go silent within one packet of a fence and carry the epoch in force', async () => {
    const rig = new SessionRig();
    const peer = rig.connect();
    for (let index = 0; index < 6; index++) rig.frame(index, { level: 8000 });
    await rig.clock.advanceTo(211);
    rig.send({ type: 'interrupt', id: 'i' });
    await rig.clock.advanceTo(600);
    const after = peer.sounds.filter((sound) => sound.atMs > 211);
    assert.ok(after.every((sound) => sound.epoch === 1 && sound.wordEpoch === 1));
    assert.ok(after[0]!.samples.subarray(FADE).every((x) => x === 0));
    assert.ok(after.slice(1).every(({ samples }) => samples.every((x) => x === 0)));
    assert.equal(rig.session.counters.stalePackets, 0);
    rig.frame(3, { level: 2000 });
    await rig.clock.advanceTo(660);
    const heard = peer.sounds.at(-1)!;
    assert.ok(heard.samples.some((x) => x >= 2000) && heard.epoch === 1);
  });

  it('are silent while paused and go on with the picture', async () => {
    const rig = new SessionRig();
    const peer = rig.connect();
    for (let index = 0; index < 10; index++) rig.frame(index, { level: 3000 });
    await rig.clock.advanceTo(150);
    rig.send({ type: 'pause', id: 'p' });
    await rig.clock.advanceTo(1000);
    assert.ok(peer.sounds.filter(({ atMs }) => atMs > 180).every(({ samples }) => samples.every((x) => x === 0)));
    rig.send({ type: 'resume', id: 'r' });
    await rig.clock.advanceTo(1100);
    assert.ok(peer.sounds.at(-1)!.samples.some((x) => x >= 3000));
  });

  it('leave packets out after a stall instead of sending a burst', async () => {
    const rig = new SessionRig();
    const peer = rig.connect();
    await rig.clock.advanceTo(100);
    const before = peer.sounds.length;
    // The thread was busy: the clock has moved by a second when its timers run again.
    const stalled = rig.clock.now() + 1000;
    rig.clock.now = () => Math.max(stalled, 0);
    await rig.clock.advanceTo(130);
    assert.ok(peer.sounds.length - before <= 7, `${peer.sounds.length - before} packets at once`);
    assert.ok(rig.session.sounds.ticksSkipped >= 40);
    const [last, first] = [peer.sounds.at(-1)!, peer.sounds[0]!];
    assert.equal(((last.rtp - first.rtp) >>> 0) % 960, 0);
  });
});
