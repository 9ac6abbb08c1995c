/** Played clips through the voice thread: Opus or samples in, judgements out, and what the policy makes of them. */
import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { createLogger } from '../../../src/observe/log.ts';
import { VirtualClock } from '../../../src/observe/virtual_clock.ts';
import { voiceInForce } from '../../../src/protocol/session_voice.ts';
import { MAX_UNHEARD, MAX_UNJUDGED, VoiceThread } from '../../../src/media/voice/VoiceJudge.ts';
import { VOICE_FRAME_MS, VoicePolicy } from '../../../src/media/voice/VoicePolicy.ts';
import type { VoiceCodec } from '../../../src/media/voice/voice_messages.ts';
import { burst, clip, cough, joined, opusPackets, RATE, room, samplePackets, silence } from './voice_clips.ts';

const log = createLogger({ level: 'silent' });
const thread = new VoiceThread(log);
after(() => thread.close());

/** Probabilities of all frames of a clip. Waits for each packet, so that none is dropped. */
async function judge(samples: Int16Array, codec: VoiceCodec): Promise<number[]> {
  const judged: number[] = [];
  let next = Promise.withResolvers<void>();
  const stream = thread.open({
    judged: (probabilities) => {
      judged.push(...probabilities);
      next.resolve();
    },
    lost: () => next.reject(new Error('lost')),
  });
  for (const packet of codec === 'opus' ? opusPackets(samples) : samplePackets(samples)) {
    next = Promise.withResolvers();
    assert.ok(stream.push(codec, packet));
    await next.promise;
  }
  stream.close();
  return judged;
}

async function until(holds: () => boolean): Promise<void> {
  const deadline = performance.now() + 10_000;
  while (!holds()) {
    assert.ok(performance.now() < deadline, 'not within 10 s');
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** What a session would do, each frame when it is heard. */
async function actions(probabilities: readonly number[]): Promise<string[]> {
  const clock = new VirtualClock();
  const did: string[] = [];
  let flow: 'flows' | 'held' | 'stopped' = 'flows';
  const policy = new VoicePolicy({
    clock,
    options: voiceInForce({ resumeMs: null }),
    flow: () => flow,
    act: (action) => {
      did.push(action);
      flow = ({ hold: 'held', release: 'flows', interrupt: 'stopped', resume: 'flows' } as const)[action];
    },
    speaking: () => undefined,
  });
  for (const probability of probabilities) {
    policy.heard('c');
    policy.judged('c', probability);
    await clock.advanceTo(clock.now() + VOICE_FRAME_MS);
  }
  await clock.advanceTo(clock.now() + 5000);
  return did;
}

const QUIET = room(1000);

/** Nothing that a microphone hears of a loudspeaker begins between two samples. */
function faded(sound: Int16Array): Int16Array {
  const fade = RATE / 5;
  return sound.map((sample, at) => sample * Math.min(1, at / fade));
}

describe('voices that are played', () => {
  for (const codec of ['opus', 'pcm16'] as const) {
    it(`speech interrupts (${codec})`, async () => {
      assert.deepEqual(await actions(await judge(joined(QUIET, clip('speech'), QUIET), codec)), ['hold', 'interrupt']);
    });

    it(`a cough and a short sound hold, and are released (${codec})`, async () => {
      assert.deepEqual(await actions(await judge(joined(QUIET, cough(), QUIET, QUIET), codec)), ['hold', 'release']);
      assert.deepEqual(await actions(await judge(joined(QUIET, clip('huh'), QUIET, QUIET), codec)), ['hold', 'release']);
      assert.equal((await actions(await judge(joined(QUIET, burst(400), QUIET, QUIET), codec))).includes('interrupt'), false, 'air alone');
    });

    it(`the world’s own sound never interrupts; where it begins it may hold, once, and is released (${codec})`, async () => {
      for (const sound of [clip('world_coast'), clip('world_forest')]) {
        const done = await actions(await judge(joined(QUIET, faded(joined(sound, sound, sound)), QUIET), codec));
        assert.ok(done.length === 0 || done.join() === 'hold,release', done.join());
      }
      assert.deepEqual(await actions(await judge(joined(silence(1000), room(2000)), codec)), []);
    });
  }

  it('speech over the world’s own sound, at half its loudness, still interrupts', async () => {
    const speech = joined(QUIET, clip('speech'));
    const world = clip('world_coast');
    const mixed = speech.map((sample, at) => Math.max(-32_768, Math.min(32_767, sample + world[at % world.length]! / 2)));
    assert.deepEqual(await actions(await judge(mixed, 'opus')), ['hold', 'interrupt']);
  });

  it('streams don’t mix: speech in one is none in another, on one model', async () => {
    const [speech, quiet] = await Promise.all([judge(clip('speech'), 'opus'), judge(silence(2000), 'opus')]);
    assert.ok(Math.max(...speech!) > 0.9);
    assert.ok(Math.max(...quiet!) < 0.3);
  });

  it(`more than ${MAX_UNJUDGED} packets that wait are dropped, and it goes on`, async () => {
    let taken = 0;
    const all = Promise.withResolvers<void>();
    const stream = thread.open({ judged: () => (++taken === MAX_UNJUDGED ? all.resolve() : undefined), lost: () => all.reject(new Error('lost')) });
    const packets = samplePackets(clip('speech')).slice(0, 20);
    assert.deepEqual(packets.map((packet) => stream.push('pcm16', packet)), packets.map((_, at) => at < MAX_UNJUDGED));
    await all.promise;
    assert.ok(stream.push('pcm16', packets[0]!));
    stream.close();
    assert.equal(stream.push('pcm16', packets[0]!), false);
  });

  it('garbage counts as a lost packet', async () => {
    const next = Promise.withResolvers<readonly number[]>();
    const stream = thread.open({ judged: next.resolve, lost: () => next.reject(new Error('lost')) });
    assert.ok(stream.push('opus', Uint8Array.of(0xff, 0xff, 0xff, 1, 2, 3)));
    assert.ok((await next.promise).length <= 4);
    stream.close();
  });

  it('the first words are judged, though they come before the model is there; no more of them wait than the bound', async () => {
    const mine = new VoiceThread(log);
    const packets = samplePackets(clip('speech'));
    const judged: number[] = [];
    const stream = mine.open({ judged: (probabilities) => judged.push(...probabilities), lost: () => assert.fail('lost') });
    const taken = Array.from({ length: MAX_UNHEARD + 5 }, (_, at) => stream.push('pcm16', packets[at % packets.length]!));
    assert.deepEqual([taken.filter(Boolean).length, taken.lastIndexOf(true)], [MAX_UNHEARD, MAX_UNHEARD - 1]);
    const samples = Array.from({ length: MAX_UNHEARD }, (_, at) => packets[at % packets.length]!.byteLength / 2).reduce((sum, count) => sum + count, 0);
    await until(() => judged.length >= Math.floor(samples / ((VOICE_FRAME_MS * RATE) / 1000)));
    assert.ok(judged.filter((probability) => probability > 0.5).length >= 10, 'speech');
    // Caught up with, the bound is that of a judge that is there.
    const more = Array.from({ length: MAX_UNJUDGED + 5 }, () => stream.push('pcm16', packets[0]!));
    assert.ok(more.filter(Boolean).length <= MAX_UNJUDGED + 1, `${more.filter(Boolean).length}`);
    await mine.close();
  });

  it('its thread lost, it is started again and voices go on; lost again soon, they are told', async () => {
    const lines: string[] = [];
    const mine = new VoiceThread(Object.assign(Object.create(log) as typeof log, { warn: (_: unknown, line: string) => lines.push(line) }));
    const packets = samplePackets(silence(400));
    let [judged, lost] = [0, 0];
    const stream = mine.open({ judged: ({ length }) => (judged += length), lost: () => (lost += 1) });
    const say = (): void => packets.forEach((packet) => stream.push('pcm16', packet));
    say();
    await until(() => judged > 5);
    stream.push('pcm16', null as never); // what its thread can't survive
    await until(() => mine.restarts === 1);
    const before = judged;
    say();
    await until(() => judged > before + 5);
    assert.equal(lost, 0);
    assert.ok(lines.some((line) => line.includes('started again')), lines.join());
    stream.push('pcm16', null as never);
    await until(() => lost === 1);
    assert.deepEqual([mine.restarts, stream.push('pcm16', packets[0]!)], [1, false]);
    await mine.close();
  });

  it('closes twice, and takes nothing after', async () => {
    const mine = new VoiceThread(log);
    const stream = mine.open({ judged: () => undefined, lost: () => undefined });
    stream.push('pcm16', new Uint8Array(64));
    await Promise.all([mine.close(), mine.close()]);
    assert.equal(stream.push('pcm16', new Uint8Array(64)), false);
  });
});
