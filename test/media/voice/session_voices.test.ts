/** What voices do to a session's media: on a virtual clock, with a judge that says what a test wants. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { CALM_MS, VOICE_FRAME_MS } from '../../../src/media/voice/VoicePolicy.ts';
import type { SessionVoice } from '../../../src/protocol/session_voice.ts';
import { content, SessionRig, type KeepingPeer } from '../session_rig.ts';

interface Request {
  readonly type: string;
  readonly id: string;
  readonly by: string | null;
  readonly fencedEpoch: number | null;
}

class VoiceRig extends SessionRig {
  readonly peer: KeepingPeer;

  constructor(voice: SessionVoice = {}) {
    super({ voice });
    this.peer = this.connect();
    this.session.hear('c', 'opus', Uint8Array.of(1));
  }

  /** Frames that are heard while time passes. */
  async hear(probability: number, ms: number): Promise<void> {
    for (let heard = 0; heard < ms; heard += VOICE_FRAME_MS) {
      this.session.hear('c', 'opus', Uint8Array.of(1));
      for (const listener of this.judge.listeners) listener.judged([probability]);
      await this.clock.advanceTo(this.clock.now() + VOICE_FRAME_MS);
    }
  }

  get requests(): Request[] {
    return this.forwarded().map(({ text, connectionId, fencedEpoch }) => ({ ...(JSON.parse(text) as { type: string; id: string }), by: connectionId, fencedEpoch }));
  }

  get speaking(): boolean[] {
    return this.toControl.flatMap((message) => (message.type === 'voice.speaking' ? [message.speaking] : []));
  }
}

const contents = (peer: KeepingPeer): number[] => peer.pictures.map((picture) => picture.content).filter((value, at, all) => value !== all[at - 1]);

describe('voices of a session', () => {
  it('a cough stops picture and sound and loses nothing of either', async () => {
    const straight = new SessionRig();
    const undisturbed = straight.connect();
    const rig = new VoiceRig();
    for (let index = 0; index < 8; index++) {
      rig.frame(index, { level: 10 + index * 100 });
      straight.frame(index, { level: 10 + index * 100 });
    }
    await straight.clock.advanceTo(3_000);
    await rig.clock.advanceTo(200);
    await rig.hear(0.98, 224);
    const held = rig.peer.pictures.at(-1)!.content;
    await rig.hear(0.02, 128);
    assert.equal(rig.peer.pictures.at(-1)!.content, held, 'the picture stands');
    await rig.hear(0.02, 2_000);
    assert.deepEqual(contents(rig.peer), contents(undisturbed), 'every picture, once, in order');
    const heard = (peer: KeepingPeer): Set<number> => new Set(peer.sounds.flatMap(({ samples }) => [...samples]));
    const after = heard(rig.peer);
    const missing = [...heard(undisturbed)].filter((sample) => !after.has(sample));
    assert.ok(missing.length <= 8, 'of the sound only edges are faded');
    assert.equal(rig.words.epoch, 0, 'no fence');
    assert.deepEqual(rig.requests.map(({ type, by, fencedEpoch }) => [type, by, fencedEpoch]), [['hold', null, null], ['release', null, null]]);
    assert.deepEqual(rig.speaking, [true, false]);
  });

  it('speech fences at the position held, and the next redirect flows', async () => {
    const rig = new VoiceRig({ resumeMs: null });
    for (let index = 0; index < 8; index++) rig.frame(index);
    await rig.clock.advanceTo(200);
    await rig.hear(0.98, 800);
    const held = rig.peer.pictures.at(-1)!.content;
    assert.equal(rig.words.epoch, 1);
    assert.deepEqual(rig.requests.map(({ type, fencedEpoch }) => [type, fencedEpoch]), [['hold', null], ['interrupt', 1]]);
    const interrupt = rig.forwarded().at(-1)!;
    assert.equal(content(interrupt.held!.media90k / 7500 - 1), held, 'what was seen last is where it stands');
    assert.equal(new Set(rig.requests.map(({ id }) => id)).size, 2);
    rig.send({ type: 'redirect', id: 'r', prompt: 'forest' });
    rig.frame(3);
    await rig.clock.advanceTo(rig.clock.now() + 300);
    assert.equal(rig.peer.pictures.at(-1)!.content, content(3, 2));
    await rig.hear(0.98, 1_000);
    assert.equal(rig.words.epoch, 2, 'the speech that goes on has had its effect');
    await rig.hear(0.02, 640);
    await rig.hear(0.98, 640);
    assert.equal(rig.words.epoch, 3, 'the next one interrupts');
  });

  it('an interruption that nobody follows is resumed', async () => {
    const rig = new VoiceRig({ resumeMs: 1_000 });
    for (let index = 0; index < 8; index++) rig.frame(index);
    await rig.clock.advanceTo(200);
    await rig.hear(0.98, 640);
    await rig.hear(0.02, 2_000);
    assert.deepEqual(rig.requests.map(({ type }) => type), ['hold', 'interrupt', 'resume']);
  });

  it('paused, interrupted or unwatched nothing is asked for; resumed, it is again', async () => {
    const rig = new VoiceRig();
    for (let index = 0; index < 8; index++) rig.frame(index);
    await rig.clock.advanceTo(200);
    const byVoice = (): number => rig.requests.filter(({ by }) => by === null).length;
    for (const stop of ['pause', 'interrupt']) {
      rig.send({ type: stop, id: `stop-${stop}` });
      await rig.hear(0.98, 800);
      await rig.hear(0.02, 640);
      assert.equal(byVoice(), 0, stop);
      rig.send({ type: 'resume', id: `resume-${stop}` });
    }
    await rig.hear(0.98, 160);
    assert.equal(byVoice(), 1);
  });

  it('whoever leaves in the midst of a word holds nobody up', async () => {
    const rig = new VoiceRig();
    for (let index = 0; index < 8; index++) rig.frame(index);
    const watcher = rig.connect('w', false);
    await rig.clock.advanceTo(200);
    await rig.hear(0.98, 160);
    await rig.peer.close();
    assert.deepEqual(rig.requests.map(({ type }) => type), ['hold', 'release']);
    assert.equal(rig.judge.listeners.length, 0, 'and is forgotten');
    await rig.clock.advanceTo(1_500);
    assert.equal(watcher.pictures.at(-1)!.content, content(7));
  });

  it('a watcher is not heard, a speaker who may not drive is; without voices nobody is', async () => {
    const rig = new SessionRig();
    rig.connect('w', false);
    rig.session.hear('w', 'opus', Uint8Array.of(1));
    rig.session.hear('nobody', 'opus', Uint8Array.of(1));
    assert.equal(rig.judge.packets.length, 0);
    rig.connect('s', false, true);
    rig.session.hear('s', 'opus', Uint8Array.of(1));
    assert.equal(rig.judge.packets.length, 1);
    const deaf = new SessionRig({ voice: { enabled: false } });
    deaf.connect();
    deaf.session.hear('c', 'opus', Uint8Array.of(1));
    assert.deepEqual([deaf.session.takesVoice, deaf.judge.packets.length], [false, 0]);
  });

  it('packets that the judge has no room for are counted; a judge that is lost ends the speech', async () => {
    const rig = new VoiceRig();
    for (let index = 0; index < 8; index++) rig.frame(index);
    await rig.clock.advanceTo(200);
    rig.judge.full = true;
    rig.session.hear('c', 'opus', Uint8Array.of(1));
    assert.equal(rig.session.voiceDropped, 1);
    await rig.hear(0.98, 160);
    for (const listener of [...rig.judge.listeners]) listener.lost();
    assert.deepEqual(rig.requests.map(({ type }) => type), ['hold', 'release']);
    const troubles = (): unknown[] => rig.toControl.flatMap((message) => (message.type === 'connection.trouble' ? [message.error.code] : []));
    assert.deepEqual(troubles(), ['engine_unavailable']);
    rig.session.hear('c', 'opus', Uint8Array.of(1));
    await rig.clock.advanceTo(rig.clock.now() + CALM_MS);
    assert.deepEqual(troubles(), ['engine_unavailable'], 'said once');
  });

  it('close forgets the voices and leaves no timer of theirs', async () => {
    const rig = new VoiceRig();
    await rig.hear(0.98, 160);
    const asked = rig.requests.length;
    await rig.session.close();
    rig.session.hear('c', 'opus', Uint8Array.of(1));
    await rig.clock.advanceTo(20_000);
    assert.equal(rig.requests.length, asked);
    assert.equal(rig.judge.listeners.length, 0);
  });
});
