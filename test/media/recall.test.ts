/** Unsent media that the engine takes back, on the media thread. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { content, FRAME, FRAME_MS, SAMPLES, SessionRig } from './session_rig.ts';

test('a recalled picture never leaves; the one that was made in its place does, in the same time', async () => {
  const rig = new SessionRig();
  const peer = rig.connect();
  for (let index = 0; index < 4; index++) rig.frame(index);
  await rig.clock.advanceTo(rig.clock.now() + 20);
  assert.equal(rig.words.outgoing.claimed90k, FRAME, 'the first frame has left');
  const revision = rig.words.outgoing.recall(2 * FRAME);
  assert.equal(revision, 1);
  rig.session.media({ type: 'media.recall', sessionId: 's', streamId: 'picture', sequence: 0, revision: 1, from90k: 2 * FRAME });
  assert.equal(rig.session.pictures.queued, 1, 'only the frame before the recall is left');
  assert.equal(rig.video.used, 1, 'its slots are back');
  for (let index = 2; index < 4; index++) rig.frame(index, { level: 5000, epoch: 0, sequence: 100 + index });
  await rig.clock.advanceTo(rig.clock.now() + 5 * FRAME_MS);
  const left = peer.pictures;
  assert.deepEqual(left.map(({ content: shown }) => shown), [0, 1, 2, 3].map((index) => content(index)));
  assert.equal(rig.session.pictures.counters.framesRecalled, 2);
  const gaps = left.slice(1).map(({ atMs }, at) => atMs - left[at]!.atMs);
  for (const gap of gaps) assert.ok(Math.abs(gap - FRAME_MS) < 2, `a gap of ${gap} ms`);
});

test('sound goes over from the recalled to the new at the sample, and takes its frame out with the first packet that holds any of it', async () => {
  const rig = new SessionRig();
  const peer = rig.connect();
  for (let index = 0; index < 3; index++) rig.frame(index, { level: 1000 });
  await rig.clock.advanceTo(rig.clock.now() + 30);
  const from90k = 2 * FRAME;
  assert.equal(rig.words.outgoing.recall(from90k), 1);
  rig.session.media({ type: 'media.recall', sessionId: 's', streamId: 'picture', sequence: 0, revision: 1, from90k });
  rig.frame(2, { level: 6000, epoch: 0 });
  let claimedBeforePicture = false;
  for (let ms = 0; ms < 3 * FRAME_MS; ms++) {
    await rig.clock.advanceTo(rig.clock.now() + 1);
    if (peer.pictures.length === 2 && rig.words.outgoing.claimed90k === 3 * FRAME) claimedBeforePicture = true;
  }
  assert.ok(claimedBeforePicture, 'the sound of the third frame was claimed while its picture was still to come');
  const heard = peer.sounds.flatMap(({ samples }) => [...samples]);
  const first = heard.findIndex((sample) => sample >= 6000);
  const begin = heard.findIndex((sample) => sample !== 0);
  assert.equal(first - begin, 2 * SAMPLES - 1, 'two whole frames of the old (their first sample is faded to nothing), then the new');
  const third = heard.slice(first, first + SAMPLES);
  assert.ok(third.every((sample) => sample >= 6000), 'nothing of the old after it');
});

test('input that changes is told to the engine, input that repeats is not', async () => {
  const rig = new SessionRig();
  rig.connect();
  const action = { type: 'action', steer: 1, speed: 2, leftPresses: 0, rightPresses: 1 };
  rig.send({ ...action, sequence: 1 }, 'input');
  rig.send({ ...action, sequence: 2 }, 'input');
  const told = () => rig.toEngine.filter(({ type }) => type === 'media.action').length;
  assert.equal(told(), 1);
  await rig.clock.advanceTo(rig.clock.now() + 400);
  assert.equal(told(), 2, 'silence lets go of the wheel');
});
