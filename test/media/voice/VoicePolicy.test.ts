import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as fc from 'fast-check';
import { VirtualClock } from '../../../src/observe/virtual_clock.ts';
import { voiceInForce, type SessionVoice } from '../../../src/protocol/session_voice.ts';
import { CALM_MS, STALLED_MS, UNDECIDED_MS, VOICE_FRAME_MS, VoicePolicy, type Asked } from '../../../src/media/voice/VoicePolicy.ts';
import { HOLD_LIMIT_MS } from '../../../src/streams/ProvisionalHold.ts';

const SPEECH = 0.98;
const SILENCE = 0.02;

/** A session as the policy sees it, and people who speak in it in real time. */
class Rig {
  readonly clock = new VirtualClock();
  readonly did: { readonly action: string; readonly atMs: number }[] = [];
  readonly policy: VoicePolicy;
  flow: 'flows' | 'held' | 'stopped' = 'flows';

  constructor(wish: SessionVoice = {}) {
    this.policy = new VoicePolicy({
      clock: this.clock,
      options: voiceInForce(wish),
      flow: () => this.flow,
      act: (action) => {
        this.did.push({ action, atMs: this.clock.now() });
        this.flow = ({ hold: 'held', release: 'flows', interrupt: 'stopped', resume: 'flows' } as const)[action];
      },
      speaking: (speaking) => this.did.push({ action: speaking ? 'speaks' : 'is silent', atMs: this.clock.now() }),
    });
  }

  get actions(): readonly string[] {
    return this.did.map(({ action }) => action);
  }

  async hear(probability: number, ms: number, speaker = 'anna'): Promise<void> {
    for (let heard = 0; heard < ms; heard += VOICE_FRAME_MS) {
      this.policy.heard(speaker);
      this.policy.judged(speaker, probability);
      await this.pass(VOICE_FRAME_MS);
    }
  }

  pass(ms: number): Promise<void> {
    return this.clock.advanceTo(this.clock.now() + ms);
  }
}

const at = (rig: Rig, action: string): number => rig.did.find((done) => done.action === action)!.atMs;

describe('voice policy', () => {
  it('speech holds with its second frame, and interrupts once it has lasted', async () => {
    const rig = new Rig();
    await rig.hear(SILENCE, 320);
    await rig.hear(SPEECH, 1000);
    assert.deepEqual(rig.actions, ['speaks', 'hold', 'interrupt']);
    assert.equal(at(rig, 'hold'), 320 + VOICE_FRAME_MS);
    assert.equal(at(rig, 'interrupt'), 320 + 15 * VOICE_FRAME_MS, '16 frames are the first that make 500 ms');
  });

  it('a cough holds and is released, and is no interruption', async () => {
    const rig = new Rig();
    await rig.hear(SPEECH, 250);
    await rig.hear(SILENCE, 3000);
    assert.deepEqual(rig.actions, ['speaks', 'hold', 'is silent', 'release']);
    assert.ok(at(rig, 'release') <= 250 + 300 + 2 * VOICE_FRAME_MS);
  });

  it('a click of one frame does nothing', async () => {
    const rig = new Rig();
    for (let click = 0; click < 20; click++) {
      await rig.hear(SPEECH, VOICE_FRAME_MS);
      await rig.hear(SILENCE, 64);
    }
    assert.deepEqual(rig.actions, []);
  });

  it('pauses within a sentence neither release nor start the count anew', async () => {
    const rig = new Rig();
    for (let word = 0; word < 4; word++) {
      await rig.hear(SPEECH, 192);
      await rig.hear(SILENCE, 160);
    }
    assert.deepEqual(rig.actions, ['speaks', 'hold', 'interrupt']);
  });

  it('between threshold and hysteresis speech goes on, but doesn’t begin', async () => {
    const rig = new Rig();
    await rig.hear(0.4, 640);
    assert.deepEqual(rig.actions, []);
    await rig.hear(SPEECH, 96);
    await rig.hear(0.4, 640);
    assert.deepEqual(rig.actions, ['speaks', 'hold', 'interrupt']);
  });

  it('what stays undecided is released before the hold ends by itself', async () => {
    const rig = new Rig({ minSpeechMs: 1500, releaseMs: 1500 });
    await rig.hear(SPEECH, 96);
    for (let flicker = 0; flicker < 10; flicker++) {
      await rig.hear(SILENCE, 320);
      await rig.hear(SPEECH, 32);
    }
    assert.deepEqual(rig.actions, ['speaks', 'hold', 'release']);
    assert.equal(at(rig, 'release') - at(rig, 'hold'), UNDECIDED_MS);
    assert.ok(UNDECIDED_MS < HOLD_LIMIT_MS);
  });

  it('after a false alarm nothing is held for a while, yet speech that lasts interrupts', async () => {
    const rig = new Rig();
    await rig.hear(SPEECH, 200);
    await rig.hear(SILENCE, 352);
    await rig.hear(SPEECH, 200);
    await rig.hear(SILENCE, 352);
    assert.deepEqual(rig.actions, ['speaks', 'hold', 'is silent', 'release', 'speaks', 'is silent']);
    await rig.hear(SPEECH, 600);
    assert.equal(rig.actions.at(-1), 'interrupt');
    const calm = new Rig();
    await calm.hear(SPEECH, 200);
    await calm.hear(SILENCE, 352 + CALM_MS);
    await calm.hear(SPEECH, 96);
    assert.equal(calm.actions.at(-1), 'hold');
  });

  it('an interruption that no request follows is resumed after the speech, not during it', async () => {
    const rig = new Rig({ resumeMs: 1000 });
    await rig.hear(SPEECH, 3000);
    await rig.hear(SILENCE, 640);
    await rig.hear(SPEECH, 640);
    const silent = rig.clock.now();
    await rig.hear(SILENCE, 2000);
    assert.deepEqual(rig.actions, ['speaks', 'hold', 'interrupt', 'is silent', 'speaks', 'is silent', 'resume']);
    assert.ok(at(rig, 'resume') >= silent + 1000);
  });

  it('with resumeMs null it stays interrupted', async () => {
    const rig = new Rig({ resumeMs: null });
    await rig.hear(SPEECH, 640);
    await rig.hear(SILENCE, 60_000);
    assert.equal(rig.actions.includes('resume'), false);
  });

  it('whoever types after speaking isn’t hurried', async () => {
    const rig = new Rig({ resumeMs: 1000 });
    await rig.hear(SPEECH, 640);
    await rig.hear(SILENCE, 320);
    for (let letters = 0; letters < 5; letters++) {
      await rig.pass(800);
      rig.policy.asked('draft');
    }
    assert.equal(rig.actions.includes('resume'), false);
    await rig.pass(1000);
    assert.equal(rig.actions.at(-1), 'resume');
  });

  it('a request that stops or starts something overrules the voice until somebody begins to speak again', async () => {
    for (const asked of ['stops', 'release'] as const) {
      const rig = new Rig();
      await rig.hear(SPEECH, 160);
      rig.policy.asked(asked);
      rig.flow = 'flows';
      await rig.hear(SPEECH, 2000);
      await rig.hear(SILENCE, 640);
      assert.deepEqual(rig.actions, ['speaks', 'hold', 'is silent'], asked);
      await rig.hear(SPEECH, 640);
      assert.deepEqual(rig.actions.slice(3), ['speaks', 'hold', 'interrupt'], asked);
    }
  });

  it('a request that flows ends the voice’s own hold at once', async () => {
    const rig = new Rig();
    await rig.hear(SPEECH, 160);
    rig.policy.asked('flows');
    assert.deepEqual(rig.actions, ['speaks', 'hold', 'release']);
    await rig.hear(SPEECH, 2000);
    assert.deepEqual(rig.actions, ['speaks', 'hold', 'release'], 'the same speech has had its say');
  });

  it('somebody else’s hold is neither made nor released by a voice, but interrupted by one', async () => {
    const cough = new Rig();
    cough.flow = 'held';
    await cough.hear(SPEECH, 200);
    await cough.hear(SILENCE, 640);
    assert.deepEqual(cough.actions, ['speaks', 'is silent']);
    const speech = new Rig();
    speech.flow = 'held';
    await speech.hear(SPEECH, 640);
    assert.deepEqual(speech.actions, ['speaks', 'interrupt']);
    const taken = new Rig();
    await taken.hear(SPEECH, 200);
    taken.policy.asked('hold');
    await taken.hear(SILENCE, 640);
    assert.deepEqual(taken.actions, ['speaks', 'hold', 'is silent'], 'whoever holds as well keeps it');
  });

  it('paused, interrupted or unwatched there is nothing to stop; who speaks is told all the same', async () => {
    const rig = new Rig();
    rig.flow = 'stopped';
    await rig.hear(SPEECH, 2000);
    await rig.hear(SILENCE, 640);
    assert.deepEqual(rig.actions, ['speaks', 'is silent']);
  });

  it('muting ends a hold within the stall time, leaving at once', async () => {
    const muted = new Rig();
    await muted.hear(SPEECH, 200);
    await muted.pass(STALLED_MS + VOICE_FRAME_MS);
    assert.deepEqual(muted.actions, ['speaks', 'hold', 'is silent', 'release']);
    const gone = new Rig();
    await gone.hear(SPEECH, 200);
    gone.policy.left('anna');
    assert.deepEqual(gone.actions, ['speaks', 'hold', 'is silent', 'release']);
    await gone.pass(5000);
    assert.equal(gone.clock.pending, 0);
  });

  it('a judge that is behind is no silence: speech goes on while packets come', async () => {
    const rig = new Rig();
    await rig.hear(SPEECH, 96);
    for (let packet = 0; packet < 30; packet++) {
      rig.policy.heard('anna');
      await rig.pass(20);
    }
    assert.deepEqual(rig.actions, ['speaks', 'hold']);
    for (let late = 0; late < 14; late++) rig.policy.judged('anna', SPEECH);
    assert.deepEqual(rig.actions, ['speaks', 'hold', 'interrupt']);
  });

  it('of two speakers the last one to fall silent releases, and either interrupts', async () => {
    const rig = new Rig();
    await rig.hear(SPEECH, 96, 'anna');
    await rig.hear(SPEECH, 96, 'ben');
    rig.policy.left('anna');
    assert.deepEqual(rig.actions, ['speaks', 'hold']);
    await rig.hear(SPEECH, 448, 'ben');
    assert.deepEqual(rig.actions, ['speaks', 'hold', 'interrupt']);
  });

  it('minSpeechMs 0 interrupts without a hold', async () => {
    const rig = new Rig({ minSpeechMs: 0 });
    await rig.hear(SPEECH, 96);
    assert.deepEqual(rig.actions, ['speaks', 'interrupt']);
  });

  it('closed it does nothing and leaves no timer', async () => {
    const rig = new Rig();
    await rig.hear(SPEECH, 200);
    rig.policy.close();
    rig.policy.close();
    const done = rig.actions.length;
    rig.policy.judged('anna', SPEECH);
    rig.policy.asked('stops');
    await rig.pass(10_000);
    assert.equal(rig.actions.length, done);
    assert.equal(rig.clock.pending, 0);
  });

  it('whatever is heard and asked: holds and releases alternate, nothing stays held, and no timer is left', async () => {
    const step = fc.oneof(
      fc.record({ hear: fc.constantFrom(0.02, 0.4, 0.98), ms: fc.integer({ min: 32, max: 900 }), speaker: fc.constantFrom('anna', 'ben') }),
      fc.record({ asked: fc.constantFrom<Asked>('hold', 'release', 'stops', 'flows', 'draft', 'other') }),
      fc.record({ left: fc.constantFrom('anna', 'ben') }),
      fc.record({ flow: fc.constantFrom('flows' as const, 'stopped' as const) }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
        const rig = new Rig();
        let held = false;
        for (const one of steps) {
          const from = rig.did.length;
          if ('hear' in one) await rig.hear(one.hear, one.ms, one.speaker);
          else if ('left' in one) rig.policy.left(one.left);
          else if ('flow' in one) rig.flow = one.flow;
          else rig.policy.asked(one.asked);
          for (const { action } of rig.did.slice(from)) {
            if (action === 'hold') assert.equal(held, false);
            if (action === 'release') assert.equal(held, true);
            if (action !== 'speaks' && action !== 'is silent') held = action === 'hold';
          }
          // Whoever else asks has taken the hold over, or ended it.
          if ('asked' in one && ['hold', 'release', 'stops'].includes(one.asked)) held = false;
        }
        rig.policy.left('anna');
        rig.policy.left('ben');
        await rig.pass(10_000);
        assert.equal(rig.clock.pending, 0);
      }),
      { numRuns: 500 },
    );
  });
});
