import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { PREROLL_MS } from '../../src/media/PicturePump.ts';
import { HOLD_LIMIT_MS } from '../../src/streams/ProvisionalHold.ts';
import { content, FRAME_MS, SessionRig, type KeepingPeer } from './session_rig.ts';

/** Sound that counts its samples: what is lost, repeated or faded shows. */
function playing(rig: SessionRig, frames: number): KeepingPeer {
  const peer = rig.connect();
  for (let index = 0; index < frames; index++) rig.frame(index, { level: 10 + index * 100 });
  return peer;
}

const contents = (peer: KeepingPeer): number[] => peer.pictures.map((picture) => picture.content).filter((value, i, all) => value !== all[i - 1]);
const heard = (peer: KeepingPeer, fromMs: number, toMs = Infinity): Int16Array[] => peer.sounds.filter(({ atMs }) => atMs >= fromMs && atMs < toMs).map(({ samples }) => samples);
const samplesOf = (peer: KeepingPeer): number[] => peer.sounds.flatMap(({ samples }) => [...samples]);
const PACKET = 480;
/** 5 ms of a fade, and a little. */
const FADE = 125;

/** Up to a packet's end `held` is `straight`; then it fades, is silent, and goes on with the very next sample. Only the edges are faded. */
function assertSoundGoesOn(held: readonly number[], straight: readonly number[]): void {
  const differs = held.findIndex((sample, at) => sample !== straight[at]);
  const stopped = differs - (differs % PACKET);
  assert.ok(held.slice(stopped + FADE, stopped + 3 * PACKET).every((sample) => sample === 0), 'silence');
  const end = straight.findIndex((sample, at) => at > 0 && sample !== 0) + 8 * 2000 - FADE;
  const rest = straight.slice(stopped + FADE, end);
  const on = held.findIndex((sample, at) => at > stopped + FADE && sample !== 0);
  const goesOn = [-2, -1, 0, 1, 2].some((shift) => rest.every((sample, at) => held[on + shift + FADE + at] === sample));
  assert.ok(rest.length > 4 * 2000 && goesOn, `sound goes on at sample ${stopped}, and all ${rest.length} that were left are heard`);
}

const silent = (samples: Int16Array): boolean => samples.every((sample) => sample === 0);

describe('hold', () => {
  it('stops sound within a packet and picture within a frame, without a fence, and keeps what waits', async () => {
    const rig = new SessionRig();
    const peer = playing(rig, 8);
    await rig.clock.advanceTo(230);
    const queued = rig.session.pictures.queued;
    rig.send({ type: 'hold', id: 'h' });
    const before = peer.pictures.length;
    await rig.clock.advanceTo(1_200);
    assert.deepEqual(new Set(peer.pictures.slice(before).map((picture) => picture.content)), new Set([content(2)]), 'the picture stands, and is repeated');
    assert.ok(heard(peer, 260).length > 40, 'sound goes on as silence');
    assert.ok(heard(peer, 260).every(silent), 'one packet to fade in');
    assert.equal(rig.session.pictures.queued, queued);
    assert.equal(rig.words.epoch, 0);
    assert.deepEqual(rig.forwarded().map(({ text, fencedEpoch }) => [JSON.parse(text).type, fencedEpoch]), [['hold', null]]);
  });

  for (const heldAtMs of [200, 213, 230.5, 251, 266]) {
    it(`release goes on exactly where it stopped, sound and picture, nothing lost (held at ${heldAtMs} ms)`, async () => {
      const straight = new SessionRig();
      const undisturbed = playing(straight, 8);
      await straight.clock.advanceTo(2_000);
      const rig = new SessionRig();
      const peer = playing(rig, 8);
      await rig.clock.advanceTo(heldAtMs);
      rig.send({ type: 'hold', id: 'h' });
      await rig.clock.advanceTo(900);
      rig.send({ type: 'release', id: 'r' });
      await rig.clock.advanceTo(2_000);
      assert.deepEqual(contents(peer), [0, 1, 2, 3, 4, 5, 6, 7].map((index) => content(index)), 'every picture, once');
      assertSoundGoesOn(samplesOf(peer), samplesOf(undisturbed));
      // Picture and sound are in step: both are later by the same.
      const shift = (one: KeepingPeer, index: number): number => one.pictures.find((picture) => picture.content === content(index))!.atMs;
      const late = shift(peer, 6) - shift(undisturbed, 6);
      assert.ok(Math.abs(late - (900 + PREROLL_MS - heldAtMs)) <= 20, `later by ${late}`);
      assert.ok(Math.abs(shift(peer, 7) - shift(peer, 6) - FRAME_MS) < 1);
    });
  }

  it('an interrupt that follows commits to the position held, and drops what was kept', async () => {
    const rig = new SessionRig();
    const peer = playing(rig, 8);
    await rig.clock.advanceTo(230);
    rig.send({ type: 'hold', id: 'h' });
    await rig.clock.advanceTo(700);
    const held = peer.pictures.at(-1)!;
    rig.send({ type: 'interrupt', id: 'i', heldVideoRtp: held.rtp });
    const interrupt = rig.forwarded().at(-1)!;
    assert.deepEqual(interrupt.held, { media90k: 3 * 7500, source: 'client' }, 'the end of the picture that stands');
    assert.equal(rig.session.pictures.queued, 0);
    rig.send({ type: 'release', id: 'late' });
    await rig.clock.advanceTo(3_500);
    assert.equal(peer.pictures.at(-1)!.content, held.content, 'and its limit sets nothing free later');
    rig.frame(3);
    await rig.clock.advanceTo(3_700);
    assert.equal(peer.pictures.at(-1)!.content, content(3, 1), 'the next turn flows');
  });

  it(`nobody says anything: released after ${HOLD_LIMIT_MS} ms, and a second hold makes it no longer`, async () => {
    const rig = new SessionRig();
    const peer = playing(rig, 8);
    await rig.clock.advanceTo(230);
    rig.send({ type: 'hold', id: 'h' });
    await rig.clock.advanceTo(1_500);
    rig.send({ type: 'hold', id: 'again' });
    await rig.clock.advanceTo(230 + HOLD_LIMIT_MS - 5);
    assert.equal(peer.pictures.at(-1)!.content, content(2));
    await rig.clock.advanceTo(230 + HOLD_LIMIT_MS + PREROLL_MS + 2 * FRAME_MS);
    assert.deepEqual(contents(peer), [0, 1, 2, 3, 4].map((index) => content(index)));
  });

  it('a repeat of its id after the release, and a watcher’s, hold nothing', async () => {
    const rig = new SessionRig();
    const peer = playing(rig, 8);
    rig.connect('w', false);
    await rig.clock.advanceTo(200);
    rig.send({ type: 'hold', id: 'h' });
    rig.send({ type: 'release', id: 'r' });
    rig.send({ type: 'hold', id: 'h' });
    rig.send({ type: 'hold', id: 'x' }, 'control', 'w');
    await rig.clock.advanceTo(1_000);
    assert.equal(peer.pictures.at(-1)!.content, content(7));
  });

  it('in a pause it changes nothing, and its end does not end the pause; a pause in a hold takes its place', async () => {
    const rig = new SessionRig();
    const peer = playing(rig, 8);
    await rig.clock.advanceTo(200);
    rig.send({ type: 'pause', id: 'p' });
    rig.send({ type: 'hold', id: 'h' });
    rig.send({ type: 'release', id: 'r' });
    await rig.clock.advanceTo(600);
    const shown = peer.pictures.at(-1)!.content;
    assert.ok([content(2), content(1)].includes(shown));
    rig.send({ type: 'resume', id: 'g' });
    await rig.clock.advanceTo(720);
    rig.send({ type: 'hold', id: 'h2' });
    rig.send({ type: 'pause', id: 'p2' });
    const stands = rig.session.pictures.queued;
    await rig.clock.advanceTo(3_500);
    assert.equal(rig.session.pictures.queued, stands, 'paused, beyond the limit of a hold');
    rig.send({ type: 'blend', id: 'b', prompt: 'x' });
    await rig.clock.advanceTo(4_500);
    assert.equal(peer.pictures.at(-1)!.content, content(7), 'what flows without a fence ends a pause, too');
  });

  it('closing in a hold leaves no timer', async () => {
    const rig = new SessionRig();
    playing(rig, 4);
    await rig.clock.advanceTo(150);
    rig.send({ type: 'hold', id: 'h' });
    await rig.session.close();
    await rig.clock.advanceTo(400);
    assert.equal(rig.clock.pending, 0);
  });
});
