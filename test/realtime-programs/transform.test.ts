/** A live session that makes an incoming video anew: real scheduler, program and kernels on a virtual clock, a device that computes nothing. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PlannedUnit } from '../../src/engine/model/work.ts';
import { IMAGE, SHOWN_PLACE } from '../interruption/virtual/scripted_model.ts';
import { Simulation } from '../interruption/virtual/Simulation.ts';
import type { SimulatedSession } from '../interruption/virtual/SimulatedSession.ts';

const FRAME = 7500;
const CHUNK_MS = 1000 / 6;

function rig(transform = 0.75): { readonly simulation: Simulation; readonly units: PlannedUnit[]; readonly pushed: SharedArrayBuffer[] } {
  const units: PlannedUnit[] = [];
  const simulation = new Simulation({ transform, outcome: (batch, deviceMs) => (units.push(...batch.units), { deviceMs, answer: 'ok' }) });
  simulation.keepTraces = true;
  return { units, simulation, pushed: [] };
}

function push({ simulation, pushed }: Pick<ReturnType<typeof rig>, 'simulation' | 'pushed'>, session: SimulatedSession): void {
  const frames = [new SharedArrayBuffer(IMAGE.byteLength), new SharedArrayBuffer(IMAGE.byteLength)];
  pushed.push(...frames);
  simulation.core.receiveMedia({ type: 'media.frames', sessionId: session.sessionId, frames });
}

/** Chunks come in at the rate of the model's own. */
async function play(all: ReturnType<typeof rig>, session: SimulatedSession, chunks: number, everyMs = CHUNK_MS): Promise<void> {
  for (let chunk = 0; chunk < chunks; chunk++) {
    push(all, session);
    await all.simulation.run(everyMs);
  }
}

const componentsOf = (units: readonly PlannedUnit[]): string[] => units.map(({ plan }) => plan.component);
const media = (units: readonly PlannedUnit[]) => units.filter(({ kernel }) => kernel !== 'ar_decode');

test('nothing is made before a frame is there; the first is read, and each chunk is encoded, denoised from its level and written', async () => {
  const all = rig();
  const session = all.simulation.open('s', null);
  await all.simulation.run(1000);
  assert.equal(all.units.length, 0);
  await play(all, session, 12);
  assert.deepEqual(componentsOf(media(all.units)).slice(0, 12), ['vae_encode', 'text_encoder', 'start_bank', 'video_encode', 'video_encode', 'denoise_step', 'denoise_step', 'vae_decode', 'audio_synth', 'vae_decode', 'audio_synth', 'clean_write']);
  const first = all.units.find(({ plan }) => plan.component === 'denoise_step')!;
  assert.deepEqual((first.plan.inputs['t'] as { values: readonly number[] }).values, [0.75]);
  assert.ok(all.units.filter(({ plan }) => plan.component === 'video_encode').every(({ plan }) => (plan.inputs['level'] as { values: readonly number[] }).values[0] === 0.75));
  assert.equal(session.texts.find(({ stream }) => stream === 'plan')!.text, `scene ${SHOWN_PLACE}`);
  assert.ok(session.videoFrames.length >= 16 && session.videoFrames.every(({ origin }) => origin === 'generated'));
  const made = session.videoFrames.length;
  await all.simulation.run(3000);
  assert.ok(session.videoFrames.length <= made + 4, 'no more than what came in');
  await all.simulation.finish();
});

test('what comes in faster than it can be made is let go of, the oldest first, and the trace says so', async () => {
  const all = rig();
  const session = all.simulation.open('s', 'scene 2');
  await play(all, session, 60, 20);
  await all.simulation.run(500);
  const used = new Set(all.units.filter(({ plan }) => plan.component === 'video_encode').map(({ plan }) => (plan.inputs['rgb'] as { bytes: SharedArrayBuffer }).bytes));
  const order = all.pushed.flatMap((frame, at) => (used.has(frame) ? [at] : []));
  assert.ok(used.size < all.pushed.length / 2 && order.length === used.size);
  assert.ok(order.includes(all.pushed.length - 1), 'the newest is made');
  const traced = all.simulation.messages.flatMap((message) => (message.type === 'trace' ? message.events : [])).filter(({ name }) => name === 'incoming.dropped');
  assert.ok(traced.length > 0);
  await all.simulation.finish();
});

for (const seamless of [false, true]) {
  test(`a redirect lands with the next chunk that comes in, ${seamless ? 'seamless' : 'fenced'}: never steered, made of new frames and like the new scene`, async () => {
    for (let offset = 0; offset < CHUNK_MS; offset += 37) {
      const all = rig();
      const session = all.simulation.open('s', 'scene 1');
      await play(all, session, 8);
      push(all, session);
      await all.simulation.run(offset);
      const before = all.units.length;
      all.simulation.request(session, 'r', { request: 'redirect', prompt: 'scene 3', seamless });
      await all.simulation.run(CHUNK_MS - offset);
      await play(all, session, 8);
      const [answer] = session.answers.get('r')!;
      assert.equal(answer?.type, 'request.applied', JSON.stringify(answer));
      if (answer?.type === 'request.applied') assert.ok(['restart', 'continue'].includes(answer.how), answer.how);
      const after = all.units.slice(before);
      const bank = after.findIndex(({ plan }) => plan.component === 'start_bank');
      assert.ok(bank >= 0);
      assert.deepEqual((after[bank]!.plan.state as { index: number }).index, 3);
      const last = after.filter(({ plan }) => plan.component === 'video_encode').at(-1)!;
      assert.notEqual((last.plan.inputs['like'] as { block: number }).block, (all.units[before - 1]?.plan.inputs['like'] as { block?: number } | undefined)?.block ?? -1);
      if (!seamless) assert.ok(session.videoFrames.some(({ epoch }) => epoch === 1));
      await all.simulation.finish();
    }
  });
}

test('interrupted, it takes nothing in; resumed, it goes on from what was seen with the newest chunk', async () => {
  const all = rig(0.5);
  const session = all.simulation.open('s', 'scene 1');
  await play(all, session, 8);
  all.simulation.request(session, 'i', { request: 'interrupt' });
  await all.simulation.run(200);
  const before = all.units.length;
  await play(all, session, 4);
  assert.equal(all.units.length, before);
  all.simulation.request(session, 'r', { request: 'resume' });
  await play(all, session, 8);
  const rgb = all.units.slice(before).flatMap(({ plan }) => (plan.component === 'video_encode' ? [(plan.inputs['rgb'] as { bytes: SharedArrayBuffer }).bytes] : []));
  assert.ok(all.pushed.indexOf(rgb[0]!) >= 2 * (8 + 3), 'the newest of what came meanwhile');
  assert.ok(session.videoFrames.filter(({ epoch }) => epoch === 1).length >= 8);
  const denoise = all.units.find(({ plan }) => plan.component === 'denoise_step')!;
  assert.equal(denoise.plan.step, 1, 'at half strength only the second step is taken');
  assert.equal(session.videoFrames.find(({ epoch }) => epoch === 1)!.start90k % FRAME, 0);
  await all.simulation.finish();
});

test('a fork is made of what comes in for it, from the level of the one that it left; that one goes on with what comes in for it', async () => {
  const all = rig(0.75);
  const session = all.simulation.open('s', 'scene 1');
  await play(all, session, 12);
  const at90k = session.held90k - FRAME;
  push(all, session);
  const fork = all.simulation.fork(session, 'fork', at90k);
  assert.equal(fork.opened?.at90k, at90k);
  const made = all.units.length;
  await play(all, session, 6);
  assert.equal(fork.videoFrames.length, 0, 'nothing has come in for it');
  assert.ok(all.units.slice(made).every(({ sessionId }) => sessionId === 's'));
  const from = all.pushed.length;
  for (let chunk = 0; chunk < 6; chunk++) {
    push(all, fork);
    await all.simulation.run(CHUNK_MS);
  }
  assert.equal(fork.videoFrames[0]?.start90k, at90k);
  const mine = all.units.slice(made).filter(({ sessionId, plan }) => sessionId === 'fork' && plan.component === 'video_encode');
  assert.ok(mine.length >= 4 && mine.every(({ plan }) => all.pushed.indexOf((plan.inputs['rgb'] as { bytes: SharedArrayBuffer }).bytes) >= from));
  assert.ok(mine.every(({ plan }) => (plan.inputs['level'] as { values: readonly number[] }).values[0] === 0.75));
  assert.equal(session.words.epoch, 0);
  await all.simulation.finish();
});

test('pictures of another size, a picture to start from, and frames for a program that takes none are refused', async () => {
  const all = rig();
  const session = all.simulation.open('s', null);
  all.simulation.core.receiveMedia({ type: 'media.frames', sessionId: 's', frames: [new SharedArrayBuffer(3)] });
  assert.deepEqual(session.faults, [{ fatal: false, code: 'bad_request' }]);
  await play(all, session, 4);
  assert.ok(session.videoFrames.length > 0, 'and the session goes on');
  all.simulation.open('t', null, 1, IMAGE);
  assert.ok(all.simulation.sessions.get('t')!.refused);
  await all.simulation.finish();
  const plain = new Simulation();
  const other = plain.open('u', 'scene 1');
  plain.core.receiveMedia({ type: 'media.frames', sessionId: 'u', frames: [IMAGE, IMAGE] });
  assert.deepEqual(other.faults.map(({ fatal }) => fatal), [false]);
  await plain.finish();
});

test('a cut lands with the next chunk that comes in and sees nothing of what was made before; a blend is refused', async () => {
  const all = rig();
  const session = all.simulation.open('s', 'scene 1');
  await play(all, session, 8);
  const before = all.units.length;
  all.simulation.request(session, 'c', { request: 'cut', prompt: 'scene 3' });
  await play(all, session, 8);
  const [answer] = session.answers.get('c')!;
  assert.ok(answer?.type === 'request.applied' && answer.how === 'cut', JSON.stringify(answer));
  const after = all.units.slice(before);
  assert.deepEqual((after.find(({ plan }) => plan.component === 'start_bank')!.plan.state as { index: number }).index, 3);
  const first = after.find(({ plan, epoch }) => plan.component === 'denoise_step' && epoch === 1)!;
  assert.ok(Object.entries(first.plan.inputs).every(([name, input]) => !/^k\d$/.test(name) || input.kind === 'zeros'), 'an empty window');
  assert.ok(session.videoFrames.some(({ epoch }) => epoch === 1));
  all.simulation.request(session, 'b', { request: 'blend', prompt: 'scene 4', chunks: 4 });
  await play(all, session, 4);
  const [refused] = session.answers.get('b')!;
  assert.ok(refused?.type === 'request.failed' && refused.error.code === 'bad_request', JSON.stringify(refused));
  await all.simulation.finish();
});
