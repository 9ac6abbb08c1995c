/** The whole engine on a virtual clock: real scheduler, program and kernels, a device that takes time and computes nothing. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EngineToControl } from '../../../src/streams/messages.ts';
import type { PlannedUnit, WorkUnitBatch } from '../../../src/engine/model/work.ts';
import { HORIZON_CHUNKS } from '../../../src/engine/runtime/Story.ts';
import { Simulation } from '../../interruption/virtual/Simulation.ts';
import type { SimulatedSession } from '../../interruption/virtual/SimulatedSession.ts';

const FRAME = 7500;
const CHUNK = 2 * FRAME;

function applied(session: SimulatedSession, requestId: string) {
  const [answer] = session.answers.get(requestId)!;
  assert.equal(answer?.type, 'request.applied', JSON.stringify(answer));
  return answer as Extract<EngineToControl, { type: 'request.applied' }>;
}

function steerOf({ inputs }: PlannedUnit['plan']): number {
  const steer = inputs['steer'];
  assert.ok(steer?.kind === 'ints');
  return steer.values[0]! - 1;
}

/** Runs until the session has seen exactly this many frames of the epoch in force; then nobody sees more. */
async function seen(simulation: Simulation, session: SimulatedSession, frames: number): Promise<void> {
  for (let waited = 0; session.held90k < frames * FRAME; waited++) {
    assert.ok(waited < 5000);
    await simulation.run(1);
  }
  assert.equal(session.held90k, frames * FRAME);
}

test('a session opens with start frames, then generates in step with the clock, a look-ahead early', async () => {
  const simulation = new Simulation();
  const session = simulation.open();
  await simulation.run(3000);
  const frames = session.videoFrames;
  assert.ok(frames.length >= 35 && frames.length <= 39, `${frames.length} frames in 3 s`);
  assert.deepEqual(frames.slice(0, 3).map(({ origin }) => origin), ['seed', 'seed', 'generated']);
  const anchor = session.words.anchor!;
  for (const { start90k, atMs } of frames.slice(4)) {
    const dueMs = anchor.atMs + (start90k - anchor.mediaTime90k) / 90;
    assert.ok(atMs < dueMs, 'in time');
    assert.ok(dueMs - atMs <= 120 + 1000 / 12, 'not sooner than a look-ahead and a frame');
  }
  assert.equal(simulation.core.stats().deadlinesMissed, 0);
  assert.deepEqual(session.texts.filter(({ stream }) => stream === 'plan').map(({ text }) => text), ['scene 1']);
  assert.equal(session.texts.filter(({ stream }) => stream === 'narration').map(({ text }) => text).join(''), '11 12', 'narration comes in slack time');
  await simulation.finish();
});

test('what was seen is what is remembered: at the end of a chunk the story simply goes on', async () => {
  const simulation = new Simulation();
  const session = simulation.open();
  await seen(simulation, session, 8);
  simulation.request(session, 'i', { request: 'interrupt' });
  assert.deepEqual(((({ how, media90k, chunk }) => ({ how, media90k, chunk }))(applied(session, 'i'))), { how: 'interrupted', media90k: 8 * FRAME, chunk: 4 });
  const count = session.frames.length;
  await simulation.run(1000);
  assert.equal(session.frames.length, count, 'no units while interrupted');
  simulation.request(session, 'r', { request: 'resume' });
  await simulation.run(300);
  const next = session.videoFrames.find(({ epoch }) => epoch === 1)!;
  assert.deepEqual([next.start90k, next.chunk, next.frameInChunk], [8 * FRAME, 4, 0]);
  await simulation.finish();
});

test('a rewind into a chunk pins the frame that was seen and sends only the other', async () => {
  const units: PlannedUnit[] = [];
  const simulation = new Simulation({ outcome: (batch, deviceMs) => (units.push(...batch.units), { deviceMs, answer: 'ok' }) });
  const session = simulation.open();
  await seen(simulation, session, 9);
  units.length = 0;
  simulation.request(session, 'r', { request: 'redirect', prompt: 'scene 3', seamless: false });
  await simulation.run(300);
  const { how, media90k, chunk, step } = applied(session, 'r');
  assert.deepEqual({ how, media90k, chunk, step }, { how: 'restart', media90k: 9 * FRAME, chunk: 4, step: 0 });
  const frames = session.videoFrames.filter(({ epoch }) => epoch === 1);
  assert.deepEqual(frames.slice(0, 3).map(({ start90k, chunk: of, frameInChunk }) => [start90k, of, frameInChunk]), [
    [9 * FRAME, 4, 1],
    [10 * FRAME, 5, 0],
    [11 * FRAME, 5, 1],
  ]);
  const denoise = units.filter(({ plan }) => plan.kind === 'diffusion_step' && plan.state['chunk'] === 4);
  assert.equal(denoise.length, 2);
  for (const { plan } of denoise) {
    assert.deepEqual(plan.inputs['pin_frames'], { kind: 'floats', values: [1, 0], shape: [2] });
    assert.equal(plan.inputs['pin']!.kind, 'block');
  }
  assert.equal(units.filter(({ plan }) => plan.kind === 'vae_tile')[0]!.plan.step, 1, 'the seen frame is not decoded again');
  await simulation.finish();
});

test('the keys and values of a chunk are written under what the chunk was made under', async () => {
  const units: PlannedUnit[] = [];
  const simulation = new Simulation({ outcome: (batch, deviceMs) => (units.push(...batch.units), { deviceMs, answer: 'ok' }) });
  const session = simulation.open();
  await simulation.run(600);
  session.words.writeAction({ sequence: 1, steer: 1, speed: 3, leftPresses: 0, rightPresses: 1 });
  simulation.request(session, 'r', { request: 'redirect', prompt: 'scene 3', seamless: true });
  await simulation.run(1000);
  const video = units.filter(({ plan }) => plan.kind === 'diffusion_step' || plan.kind === 'kv_write');
  video.forEach(({ plan }, index) => {
    const before = video[index - 1];
    if (plan.kind !== 'kv_write' || before?.plan.kind !== 'diffusion_step') return;
    for (const input of ['steer', 'speed', 'tk', 'text_k', ...Object.keys(plan.inputs).filter((name) => /^(t|text)_?(k|v|mask)$/.test(name))]) assert.deepEqual(plan.inputs[input], before.plan.inputs[input], input);
  });
  await simulation.finish();
});

test('a press and a tap land at the next step', async () => {
  const units: PlannedUnit[] = [];
  const simulation = new Simulation({ outcome: (batch, deviceMs) => (units.push(...batch.units), { deviceMs, answer: 'ok' }) });
  const session = simulation.open();
  await simulation.run(1000);
  units.length = 0;
  const pressedMs = simulation.clock.now();
  session.words.writeAction({ sequence: 9, steer: 0, speed: 2, leftPresses: 1, rightPresses: 0 });
  await simulation.run(500);
  const steers = units.filter(({ plan }) => plan.kind === 'diffusion_step').map(({ plan }) => steerOf(plan));
  assert.deepEqual(steers.slice(0, 3), [-1, 0, 0], 'felt for one step');
  const first = session.videoFrames.find(({ actionSequence }) => actionSequence === 9)!;
  const shownMs = session.words.anchor!.atMs + (first.start90k - session.words.anchor!.mediaTime90k) / 90;
  assert.ok(shownMs - pressedMs <= 250 + 1000 / 6, `felt after ${shownMs - pressedMs} ms: look-ahead and what was generated`);
  await simulation.finish();
});

/** A simulation with four denoise steps, and a way to wait until the first step of a chunk is with the worker. */
function steerable() {
  const units: PlannedUnit[] = [];
  const simulation = new Simulation({ steps: 4, engine: { lookAheadMs: 60 }, outcome: (batch, deviceMs) => (units.push(...batch.units), { deviceMs, answer: 'ok' }) });
  const session = simulation.open();
  session.reportDelayMs = 0;
  const chunkBegun = async (): Promise<void> => {
    units.length = 0;
    for (let waited = 0; !units.some(({ plan }) => plan.kind === 'diffusion_step' && plan.step === 0); waited++) {
      assert.ok(waited < 2000);
      await simulation.run(0.5);
    }
  };
  return { simulation, session, chunkBegun };
}

test('a chunk in flight that follows what was seen is steered while it is noisy enough', async () => {
  const { simulation, session, chunkBegun } = steerable();
  await simulation.run(1000);
  await chunkBegun();
  await simulation.run(6); // one of four steps is done: noise 0.75
  assert.equal(session.held90k, session.videoFrames.at(-1)!.end90k, 'all that was made was seen');
  simulation.request(session, 'r', { request: 'redirect', prompt: 'scene 3', seamless: false });
  await simulation.run(300);
  const { how, step, media90k } = applied(session, 'r');
  const first = session.videoFrames.find(({ epoch }) => epoch === 1)!;
  assert.deepEqual({ how, media90k }, { how: 'steer', media90k: first.start90k });
  assert.ok(step >= 1 && step <= 2);
  assert.equal(first.step, step);
  await simulation.finish();
});

test('a story that begins without words says what it shows all the same', async () => {
  const simulation = new Simulation();
  const session = simulation.open('s', null, 3);
  await simulation.run(500);
  const plans = session.texts.filter(({ stream }) => stream === 'plan');
  assert.deepEqual(plans.map(({ text, requestId, complete }) => [text, requestId, complete]), [['scene 3', null, true]]);
  await simulation.finish();
});

test('without a fence nothing is rewound: old frames flow until the new scene shows', async () => {
  const { simulation, session, chunkBegun } = steerable();
  await simulation.run(1000);
  const hows = new Set<string>();
  for (let n = 0; n < 10; n++) {
    if (n % 2 === 0) await chunkBegun();
    simulation.request(session, `r${n}`, { request: 'redirect', prompt: `scene ${n}`, seamless: true });
    await simulation.run(400 + n * 13);
    const answer = applied(session, `r${n}`);
    hows.add(answer.how);
    assert.equal(answer.epoch, 0);
    assert.equal(answer.step > 0, answer.how === 'steer');
    const shown = session.videoFrames.find(({ events }) => events.started.includes(`r${n}`))!;
    assert.deepEqual([shown.start90k, shown.chunk, shown.events.completed], [answer.media90k, answer.chunk, n === 0 ? [] : [`r${n - 1}`]]);
  }
  assert.deepEqual([...hows].sort(), ['continue', 'restart', 'steer']);
  await simulation.finish();
});

test('a redirect is predicted to within a unit on an idle device', async () => {
  const simulation = new Simulation();
  const session = simulation.open();
  await seen(simulation, session, 8);
  simulation.request(session, 'r', { request: 'redirect', prompt: 'scene 3', seamless: false });
  await simulation.run(300);
  const { predictedMs, elapsedMs } = applied(session, 'r');
  assert.ok(Math.abs(predictedMs! - elapsedMs) <= 10, `predicted ${predictedMs}, took ${elapsedMs}`);
  await simulation.finish();
});

test('a fence counts before the engine is told: nothing is planned until its request comes', async () => {
  const simulation = new Simulation();
  const session = simulation.open();
  await simulation.run(1000);
  simulation.request(session, 'r', { request: 'redirect', prompt: 'scene 3', seamless: false }, 250);
  await simulation.run(20);
  const units = simulation.worker.unitsRun;
  await simulation.run(200);
  assert.equal(simulation.worker.unitsRun, units);
  await simulation.run(400);
  assert.equal(applied(session, 'r').how, 'restart');
  await simulation.finish();
});

test('a fence whose request never comes is reported, and the session still obeys a late one', async () => {
  const simulation = new Simulation();
  const session = simulation.open();
  await simulation.run(500);
  simulation.request(session, 'late', { request: 'redirect', prompt: 'scene 3', seamless: false }, 7000);
  await simulation.run(6000);
  assert.deepEqual(session.faults, [{ fatal: false, code: 'timed_out' }]);
  await simulation.run(1500);
  assert.equal(applied(session, 'late').how, 'restart');
  await simulation.finish();
});

test('a client that never reports keeps memory bounded: state commits past the horizon', async () => {
  const simulation = new Simulation();
  const session = simulation.open();
  session.reportDelayMs = Infinity;
  // Until as much of the past is kept as ever will be.
  await simulation.run(14_000);
  const blocks = simulation.core.stats().blocksLive;
  await simulation.run(10_000);
  assert.ok(simulation.core.stats().blocksLive <= blocks + 4, 'flat');
  const newest = session.videoFrames.at(-1)!.end90k;
  assert.equal(session.committed90k, newest - HORIZON_CHUNKS * CHUNK);
  await simulation.finish();
});

test('sessions are admitted up to the bound, and one that leaves makes room', async () => {
  const simulation = new Simulation();
  const sessions = Array.from({ length: 5 }, (_, index) => simulation.open(`s${index}`));
  const ready = simulation.messages.find((message) => message.type === 'engine.ready')!;
  const admitted = sessions.filter(({ refused }) => !refused);
  assert.equal(admitted.length, ready.card.maxSessions);
  const refusal = simulation.messages.find((message) => message.type === 'session.refused')!;
  assert.deepEqual([refusal.error.code, refusal.error.retryAfterMs], ['at_capacity', 2000]);
  await simulation.run(2000);
  for (const { videoFrames } of admitted) assert.ok(videoFrames.length >= 23, 'who was admitted plays');
  simulation.close(admitted[0]!);
  await simulation.run(100);
  assert.equal(simulation.open('next').refused, false);
  await simulation.finish();
});

test('sessions that share a device join their units where it gains and keeps deadlines', async () => {
  const simulation = new Simulation();
  const sessions = ['a', 'b', 'c'].map((id) => simulation.open(id));
  await simulation.run(5000);
  assert.ok(simulation.batches.some((units) => units > 1), 'some batches were joined');
  assert.equal(simulation.core.stats().deadlinesMissed, 0);
  for (const { videoFrames } of sessions) assert.ok(videoFrames.length >= 58);
  await simulation.finish();
});

test('pressing Interrupt and Redirect without end delays nobody else', async () => {
  const simulation = new Simulation();
  const [calm, restless] = [simulation.open('calm'), simulation.open('restless')];
  await simulation.run(500);
  for (let n = 0; n < 200; n++) {
    simulation.request(restless, `r${n}`, n % 2 === 0 ? { request: 'interrupt' } : { request: 'redirect', prompt: `scene ${n % 10}`, seamless: false });
    await simulation.run(23);
  }
  const dues = calm.videoFrames.filter(({ start90k }) => start90k > CHUNK);
  const anchor = calm.words.anchor!;
  const late = dues.filter(({ start90k, atMs }) => atMs > anchor.atMs + (start90k - anchor.mediaTime90k) / 90);
  assert.equal(late.length, 0);
  assert.ok(calm.videoFrames.length >= 58, `${calm.videoFrames.length} frames in 5 s`);
  await simulation.finish();
});

test('the same words again are answered from the cache, in another session too', async () => {
  const units: PlannedUnit[] = [];
  const simulation = new Simulation({ outcome: (batch, deviceMs) => (units.push(...batch.units), { deviceMs, answer: 'ok' }) });
  const a = simulation.open('a', 'scene 4');
  await simulation.run(500);
  const b = simulation.open('b', 'scene 4');
  await simulation.run(1000);
  assert.equal(units.filter(({ plan }) => plan.component === 'text_encoder').length, 1);
  assert.ok(a.videoFrames.length > 8 && b.videoFrames.length > 8);
  simulation.close(a);
  await simulation.run(1000);
  assert.deepEqual(simulation.worker.violations, [], 'blocks of the cache outlive the session that made them');
  await simulation.finish();
});

test('exhausted output slots hold the session back until media lets go, and lose nothing', async () => {
  const simulation = new Simulation({ slots: 3 });
  const session = simulation.open();
  await simulation.run(3000);
  assert.ok(session.videoFrames.length >= 30, `${session.videoFrames.length}`);
  assert.deepEqual(session.faults, []);
  await simulation.finish();
});

for (const failures of [1, 2, 3]) {
  test(`${failures} failures in a row: ${['', 'the step is tried again', 'the chunk is made anew after the last frame', 'the session ends and says why'][failures]}`, async () => {
    let left = 0;
    const simulation = new Simulation({ outcome: (_, deviceMs) => (left > 0 ? (left--, { deviceMs, answer: 'kernel_exception' }) : { deviceMs, answer: 'ok' }) });
    const [session, neighbour] = [simulation.open('s'), simulation.open('n')];
    await simulation.run(1000);
    simulation.request(neighbour, 'p', { request: 'pause' });
    await simulation.run(200);
    left = failures;
    const before = session.videoFrames.length;
    await simulation.run(1000);
    assert.deepEqual(session.faults, [[], [{ fatal: false, code: 'unit_failed' }], [{ fatal: false, code: 'unit_failed' }, { fatal: true, code: 'unit_failed' }]][failures - 1]);
    if (failures < 3) assert.ok(session.videoFrames.length - before >= 10, 'goes on');
    simulation.request(neighbour, 'q', { request: 'resume' });
    await simulation.run(1000);
    assert.deepEqual(neighbour.faults, []);
    assert.ok(neighbour.videoFrames.length >= 20, 'the neighbour is unharmed');
    await simulation.finish();
  });
}

test('a lost executor fails its unit, is left alone until it is back, and its session says why and goes on', async () => {
  let lose = false;
  const simulation = new Simulation({ outcome: (_, deviceMs) => (lose ? ((lose = false), { deviceMs, answer: 'lost', recoveryMs: 700 }) : { deviceMs, answer: 'ok' }) });
  const session = simulation.open();
  await simulation.run(1000);
  lose = true;
  await simulation.run(600);
  assert.deepEqual(session.faults, [{ fatal: false, code: 'engine_unavailable' }]);
  const before = session.videoFrames.length;
  await simulation.run(2000);
  assert.ok(session.videoFrames.length - before >= 12);
  await simulation.finish();
});

/** Fails the denoise step that would finish a chunk of one session, and nothing else, while it is told to. */
function faultySecondStep(faulty: () => boolean, failed: (batch: WorkUnitBatch) => void, answer: 'taken_over' | 'kernel_exception') {
  return (batch: WorkUnitBatch, deviceMs: number) => {
    const bad = batch.units.some(({ sessionId, plan }) => sessionId === 'bad' && plan.kind === 'diffusion_step' && plan.step === 1);
    if (!bad || !faulty()) return { deviceMs, answer: 'ok' } as const;
    failed(batch);
    return { deviceMs, answer } as const;
  };
}

for (const answer of ['taken_over', 'kernel_exception'] as const) {
  test(`${answer}: a step that fails whenever the one before it succeeds ends its session the third time, and whoever joined it is unharmed`, async () => {
    let armed = false;
    const failed: WorkUnitBatch[] = [];
    const simulation = new Simulation({ outcome: faultySecondStep(() => armed, (batch) => failed.push(batch), answer) });
    const [bad, neighbour] = [simulation.open('bad'), simulation.open('n')];
    await simulation.run(1000);
    armed = true;
    await simulation.run(2500);
    assert.deepEqual(bad.faults.at(-1), { fatal: true, code: 'unit_failed' });
    assert.equal(failed.length, 3);
    for (const { units } of failed.slice(1)) assert.equal(units.length, 1, 'a step that has failed runs alone');
    assert.ok(neighbour.videoFrames.length >= 24, `the neighbour goes on (${neighbour.videoFrames.length} frames)`);
    assert.ok(neighbour.faults.every(({ fatal }) => !fatal));
    await simulation.finish();
  });
}

test('a unit that is lost to a take-over is tried again, and nobody notices', async () => {
  let lose = 0;
  const simulation = new Simulation({ outcome: (_, deviceMs) => (lose > 0 ? (lose--, { deviceMs, answer: 'taken_over' }) : { deviceMs, answer: 'ok' }) });
  const session = simulation.open();
  await simulation.run(1000);
  lose = 1;
  const before = session.videoFrames.length;
  await simulation.run(2000);
  assert.deepEqual(session.faults, []);
  assert.ok(session.videoFrames.length - before >= 22, `${session.videoFrames.length - before} frames in two seconds`);
  await simulation.finish();
});

test('drain refuses new sessions and answers when the last has gone', async () => {
  const simulation = new Simulation();
  const session = simulation.open();
  await simulation.run(500);
  simulation.core.receive({ type: 'engine.drain' });
  assert.equal(simulation.open('late').refused, true);
  const drained = () => simulation.messages.some(({ type }) => type === 'engine.drained');
  assert.equal(drained(), false);
  simulation.close(session);
  await simulation.run(100);
  assert.equal(drained(), true);
  await simulation.finish();
});

test('unknown sessions, models and programs, and a prompt that is not understood', async () => {
  const simulation = new Simulation();
  simulation.core.receive({ type: 'session.request', sessionId: 'nobody', requestId: 'x', epoch: 0, conditioningVersion: 0, request: 'pause' });
  assert.equal(simulation.messages.at(-1)!.type, 'request.failed');
  assert.equal(simulation.open('mumbler', 'mumble').refused, true);
  const session = simulation.open();
  await simulation.run(800);
  simulation.request(session, 'm', { request: 'redirect', prompt: 'mumble', seamless: false });
  const [answer] = session.answers.get('m')!;
  assert.ok(answer?.type === 'request.failed' && answer.error.code === 'prompt_not_understood');
  await simulation.run(500);
  assert.ok(session.videoFrames.some(({ epoch }) => epoch === 1), 'the epoch was raised, so the story goes on in it, as it was');
  await simulation.finish();
});

test('after 2,000 interrupts and redirects: the same memory, and the next turn works', async () => {
  const simulation = new Simulation();
  const session = simulation.open();
  await simulation.run(1000);
  let high = 0;
  for (let n = 0; n < 2000; n++) {
    simulation.request(session, `r${n}`, n % 2 === 0 ? { request: 'interrupt' } : { request: 'redirect', prompt: `scene ${n % 10}`, seamless: false });
    await simulation.run(n % 90);
    if (n === 200) high = simulation.core.stats().blockBytes;
  }
  assert.ok(simulation.core.stats().blockBytes <= high * 1.5);
  await simulation.run(1000);
  assert.ok(session.videoFrames.filter(({ epoch }) => epoch === session.words.epoch).length >= 10);
  assert.deepEqual(session.faults, []);
  await simulation.finish();
});
