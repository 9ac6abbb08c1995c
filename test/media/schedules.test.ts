/** Random schedules of everything that can happen to a session; what must hold at every moment of each. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import { FRAME, SessionRig, type KeepingPeer } from './session_rig.ts';

type Step =
  | { readonly do: 'frames'; readonly count: number }
  | { readonly do: 'late' | 'duplicate' | 'fence' | 'repeat' | 'pause' | 'resume' | 'hold' | 'release' | 'blend' | 'cut' | 'raise' | 'keyframe' | 'leave' | 'join' | 'silent' }
  | { readonly do: 'position'; readonly back: number }
  | { readonly do: 'wait'; readonly ms: number }
  | { readonly do: 'latency'; readonly ms: number };

const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.integer({ min: 0, max: 300 }) }) },
  { weight: 5, arbitrary: fc.record({ do: fc.constant('frames' as const), count: fc.integer({ min: 1, max: 5 }) }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('fence' as const) }) },
  fc.record({ do: fc.constantFrom('late' as const, 'duplicate' as const, 'repeat' as const, 'pause' as const, 'resume' as const, 'hold' as const, 'release' as const, 'blend' as const, 'cut' as const, 'raise' as const, 'keyframe' as const, 'leave' as const, 'join' as const, 'silent' as const) }),
  fc.record({ do: fc.constant('position' as const), back: fc.integer({ min: -3, max: 20 }) }),
  fc.record({ do: fc.constant('latency' as const), ms: fc.integer({ min: 0, max: 120 }) }),
);

async function run(steps: readonly Step[]): Promise<void> {
  const rig = new SessionRig({ slots: 6 });
  const peers: KeepingPeer[] = [rig.connect('p0')];
  /** Slots handed to the session and not seen free since: each must come back once. */
  let requests = 0;
  let next = 0;
  let epoch = 0;
  for (const action of steps) {
    if (rig.words.epoch !== epoch) {
      epoch = rig.words.epoch;
      next = rig.session.presented90k / FRAME;
    }
    switch (action.do) {
      case 'frames':
        for (let n = 0; n < action.count; n++) if (rig.frame(next) !== null) next++;
        break;
      case 'silent':
        if (rig.frame(next, { silent: true }) !== null) next++;
        break;
      case 'late':
        if (epoch > 0) rig.frame(next, { epoch: epoch - 1 });
        break;
      case 'duplicate':
        if (next > 0) rig.frame(next - 1);
        break;
      case 'fence':
        rig.send({ type: 'interrupt', id: `i${++requests}`, heldVideoRtp: peers[0]!.pictures.at(-1)?.rtp ?? 0 }, 'control', null);
        break;
      case 'repeat':
        if (requests > 0) rig.send({ type: 'interrupt', id: `i${requests}` }, 'input', null);
        break;
      case 'raise':
        rig.words.raiseEpoch();
        break;
      case 'blend':
      case 'cut':
        rig.send({ type: action.do, id: `s${++requests}`, prompt: 'x' }, 'control', null);
        break;
      case 'pause':
      case 'resume':
      case 'hold':
      case 'release':
        rig.send({ type: action.do, id: `p${++requests}` }, 'control', null);
        break;
      case 'keyframe':
        rig.session.keyframeNeeded();
        break;
      case 'leave':
        await peers.find((peer) => peer.state === 'connected')?.close();
        break;
      case 'join':
        if (peers.length < 8) peers.push(rig.connect(`p${peers.length}`));
        break;
      case 'position': {
        const sent = peers[0]!.pictures.at(-1 - Math.max(0, action.back));
        rig.send({ type: 'position', videoRtp: ((sent?.rtp ?? 0) + (action.back < 0 ? 90_000 : 0)) >>> 0 }, 'input', null);
        break;
      }
      case 'latency':
        rig.encoder.latencyMs = action.ms;
        break;
      case 'wait':
        await rig.clock.advanceTo(rig.clock.now() + action.ms);
    }
    assert.ok(rig.video.used === rig.session.pictures.queued || rig.words.epoch !== epoch, 'a slot is in the queue or free');
    assert.equal(rig.audio.used, 0);
  }
  for (const peer of peers) {
    let held: number | undefined;
    for (const [i, picture] of peer.pictures.entries()) {
      assert.equal(picture.epoch, picture.wordEpoch);
      const before = peer.pictures[i - 1];
      if (before !== undefined) assert.ok(((picture.rtp - before.rtp) | 0) > 0, 'RTP time of the picture never goes back');
      // Content carries the epoch that it was made under: of an older one only the held picture may come, again.
      if (((picture.content - picture.wordEpoch) & 15) !== 0) assert.ok(held === undefined || picture.content === held, 'nothing of an old epoch is shown for the first time');
      held = picture.content;
    }
    for (const [i, sound] of peer.sounds.entries()) {
      assert.equal(sound.epoch, sound.wordEpoch);
      const before = peer.sounds[i - 1];
      if (before !== undefined) assert.equal(((sound.rtp - before.rtp) >>> 0) % 960, 0);
    }
  }
  const keyframes = peers.flatMap((peer) => peer.pictures.filter((picture) => picture.keyframe).map((picture) => picture.atMs));
  const times = [...new Set(keyframes)].sort((a, b) => a - b);
  for (let i = 1; i < times.length; i++) assert.ok(times[i]! - times[i - 1]! >= 100, 'keyframes are rate-limited');
  assert.equal(rig.session.counters.stalePackets, 0);
  const presented = rig.toEngine.filter((message) => message.type === 'media.presented');
  for (let i = 1; i < presented.length; i++) if (presented[i]!.epoch === presented[i - 1]!.epoch) assert.ok(presented[i]!.media90k >= presented[i - 1]!.media90k);
  // Whatever happened, the next turn works.
  rig.encoder.latencyMs = 2;
  await rig.clock.advanceTo(rig.clock.now() + 500);
  const last = rig.connect('last');
  rig.send({ type: 'interrupt', id: 'last' }, 'control', null);
  const at = rig.session.presented90k / FRAME;
  rig.frame(at);
  await rig.clock.advanceTo(rig.clock.now() + 400);
  assert.equal(last.pictures.at(-1)?.content, (at * 16 + rig.words.epoch) & 0xff);
  const closing = rig.session.close();
  await rig.clock.advanceTo(rig.clock.now() + 10);
  await closing;
  assert.equal(rig.video.used + rig.audio.used, 0, 'every slot is back');
  await rig.clock.advanceTo(rig.clock.now() + 3000);
  assert.equal(rig.clock.pending, 0, 'no timer is left');
}

it('holds the fence, gives every slot back once and keeps its clocks, for any schedule', async () => {
  await fc.assert(fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 60 }), run), { numRuns: Number(process.env['SEGUE_SCHEDULES'] ?? 400) });
});
