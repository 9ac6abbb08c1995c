/** A story that starts from a given picture: real scheduler, program and kernels on a virtual clock, a device that computes nothing. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PlannedUnit } from '../../src/engine/model/work.ts';
import { continuationModel } from '../../src/realtime-programs/drive_model.ts';
import { VideoContinuation } from '../../src/realtime-programs/VideoContinuation.ts';
import { IMAGE, scriptedModel, SHOWN_PLACE } from '../interruption/virtual/scripted_model.ts';
import { Simulation } from '../interruption/virtual/Simulation.ts';
import type { SimulatedSession } from '../interruption/virtual/SimulatedSession.ts';

const FRAME = 7500;

/** A simulation, and the units that its device was given. */
function watched(): { readonly simulation: Simulation; readonly units: PlannedUnit[] } {
  const units: PlannedUnit[] = [];
  return { units, simulation: new Simulation({ outcome: (batch, deviceMs) => (units.push(...batch.units), { deviceMs, answer: 'ok' }) }) };
}

const plans = (session: SimulatedSession): string[] => session.texts.filter(({ stream }) => stream === 'plan').map(({ text }) => text);
const componentsOf = (units: readonly PlannedUnit[]): string[] => units.map(({ plan }) => plan.component);

async function seen(simulation: Simulation, session: SimulatedSession, frames: number): Promise<void> {
  for (let waited = 0; session.held90k < frames * FRAME; waited++) {
    assert.ok(waited < 5000);
    await simulation.run(1);
  }
}

test('without words the story goes on as the picture is: encoded once, shown as seed frames, then generated', async () => {
  const { simulation, units } = watched();
  const session = simulation.open('s', null, 1, IMAGE);
  await simulation.run(2000);
  assert.deepEqual(componentsOf(units).slice(0, 4), ['vae_encode', 'text_encoder', 'vae_decode', 'audio_synth']);
  assert.equal(componentsOf(units).filter((component) => component === 'vae_encode').length, 1);
  assert.ok(!componentsOf(units).includes('start_bank'));
  assert.deepEqual(session.videoFrames.slice(0, 3).map(({ origin, chunk }) => [origin, chunk]), [['seed', 0], ['seed', 0], ['generated', 1]]);
  assert.deepEqual(plans(session), [`scene ${SHOWN_PLACE}`]);
  await simulation.finish();
});

test('words change what the picture shows: the director is asked about that', async () => {
  const { simulation, units } = watched();
  const session = simulation.open('s', 'scene 3', 1, IMAGE);
  await simulation.run(1000);
  assert.equal(units[0]!.plan.component, 'vae_encode');
  const { prompt } = units[1]!.plan.state as { prompt: readonly number[] };
  assert.deepEqual(prompt, [1, 20 + SHOWN_PLACE, 7, 20 + 3], 'the plan in force is what the picture shows');
  assert.deepEqual(plans(session), ['scene 3']);
  assert.equal(session.videoFrames[0]!.origin, 'seed');
  await simulation.finish();
});

test('a redirect before the picture is read waits for it, and the story still starts from the picture', async () => {
  const { simulation, units } = watched();
  const session = simulation.open('s', 'scene 3', 1, IMAGE);
  simulation.request(session, 'r', { request: 'redirect', prompt: 'scene 2', seamless: false });
  await simulation.run(1500);
  assert.equal(session.answers.get('r')![0]?.type, 'request.applied');
  const director = units.find(({ plan }) => plan.component.startsWith('director'))!;
  assert.deepEqual((director.plan.state as { prompt: readonly number[] }).prompt, [1, 20 + SHOWN_PLACE, 7, 20 + 2]);
  assert.ok(!componentsOf(units).includes('start_bank'));
  assert.deepEqual(session.videoFrames.filter(({ epoch }) => epoch === 1).slice(0, 2).map(({ origin }) => origin), ['seed', 'seed']);
  assert.deepEqual(plans(session), ['scene 2']);
  await simulation.finish();
});

for (const frames of [0, 1, 2, 3]) {
  test(`interrupted and redirected after ${frames} frames, the story goes on from what was seen, and nothing is left behind`, async () => {
    const { simulation, units } = watched();
    const session = simulation.open('s', null, 1, IMAGE);
    await seen(simulation, session, frames);
    simulation.request(session, 'i', { request: 'interrupt' });
    await simulation.run(400);
    assert.equal(session.answers.get('i')![0]?.type, 'request.applied');
    simulation.request(session, 'r', { request: 'redirect', prompt: 'scene 1', seamless: false });
    await simulation.run(1500);
    assert.equal(session.answers.get('r')![0]?.type, 'request.applied', JSON.stringify(session.answers.get('r')));
    const next = session.videoFrames.find(({ epoch }) => epoch === 2)!;
    assert.equal(next.start90k, frames * FRAME);
    assert.equal(next.origin, frames < 2 ? 'seed' : 'generated', 'what is left of the picture is shown on');
    assert.ok(!componentsOf(units).includes('start_bank'), 'it never starts from the bank instead');
    await simulation.finish();
  });
}

test('an interrupt while the picture is being read takes nothing away', async () => {
  const { simulation } = watched();
  const session = simulation.open('s', 'scene 3', 1, IMAGE);
  simulation.request(session, 'r', { request: 'redirect', prompt: 'scene 2', seamless: false });
  await simulation.run(2);
  simulation.request(session, 'i', { request: 'interrupt' });
  await simulation.run(300);
  simulation.request(session, 'go', { request: 'resume' });
  await simulation.run(1500);
  assert.ok(session.videoFrames.length > 6, 'the story begins');
  assert.equal(session.videoFrames[0]!.origin, 'seed');
  await simulation.finish();
});

test('a picture is refused where words are not understood, its size is wrong, or the model has no encoder', async () => {
  const { simulation } = watched();
  assert.ok(simulation.open('s', 'nothing known', 1, IMAGE).refused);
  await simulation.run(100);
  assert.throws(() => scriptedModel().program.open({ seed: 1, prompt: null, image: new SharedArrayBuffer(3) }), TypeError);
  const { spec, kernels, program } = scriptedModel();
  const { vae_tile_encode: _, ...blind } = kernels;
  const model = continuationModel(spec, blind, { ...LANGUAGE, vocabulary: program.vocabulary });
  assert.throws(() => new VideoContinuation(model).open({ seed: 1, prompt: null, image: IMAGE }), { code: 'bad_request' });
});

const LANGUAGE = {
  endIds: [9],
  maxTokens: 8,
  choose: () => ({ place: 0 }),
  parse: () => ({ edits: ['1'], changes: {}, warnings: [] }),
  directorIds: () => [1],
  read: () => ({ plan: null, narration: '' }),
  say: () => '',
  describe: () => '',
  named: () => ({}),
  fromNamed: () => ({}),
  encode: () => [1],
  bankIndex: () => 0,
  planOfEntry: () => ({ place: 0 }),
};
