/** A plan that is given by name: what a memory makes of a story, at its beginning and while it goes on. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PlannedUnit } from '../../../src/engine/model/work.ts';
import type { EngineToControl } from '../../../src/streams/messages.ts';
import { IMAGE } from './scripted_model.ts';
import { Simulation } from './Simulation.ts';

function simulate() {
  const begun: PlannedUnit[] = [];
  const simulation = new Simulation({ outcome: (batch, deviceMs) => (begun.push(...batch.units), { deviceMs, answer: 'ok' }) });
  const plans = (): unknown[] => simulation.messages.flatMap((message) => (message.type === 'text' && message.stream === 'plan' ? [[message.requestId, message.attributes]] : []));
  const director = (): number => begun.filter(({ kernel }) => kernel === 'ar_decode').length;
  return { begun, simulation, plans, director };
}

test('a story begins with the plan that it is given, and no director is asked', async () => {
  const { simulation, plans, director } = simulate();
  simulation.open('s', null, 1, null, null, null, { place: '7' });
  await simulation.run(2000);
  assert.deepEqual(plans(), [[null, { place: '7' }]]);
  assert.equal(director(), 0);
  await simulation.finish();
});

test('a prompt beside the plan edits it: the director reads the plan that was given', async () => {
  const { begun, simulation, plans } = simulate();
  simulation.open('s', 'scene 3', 1, null, null, null, { place: '7' });
  await simulation.run(2000);
  assert.deepEqual(plans(), [[null, { place: '3' }]]);
  const [prefill] = begun.filter(({ kernel }) => kernel === 'ar_decode');
  assert.ok(JSON.stringify(prefill!.plan).includes('27'), 'place 7 is token 27 of what the director continues');
  await simulation.finish();
});

for (const seamless of [true, false]) {
  test(`a plan while the story goes on (${seamless ? 'seamless' : 'hard'}): said once, shown, without the director; a later prompt edits it`, async () => {
    const { simulation, plans, director, begun } = simulate();
    const session = simulation.open();
    await simulation.run(2000);
    begun.length = 0;
    simulation.request(session, 'r', { request: 'redirect', prompt: null, plan: { place: '6' }, seamless });
    await simulation.run(3000);
    assert.deepEqual(plans().at(-1), ['r', { place: '6' }]);
    assert.equal(plans().filter((plan) => (plan as [string])[0] === 'r').length, 1);
    assert.equal(director(), 0);
    assert.ok(simulation.messages.some((message: EngineToControl) => message.type === 'request.applied' && message.requestId === 'r'));
    simulation.request(session, 'q', { request: 'redirect', prompt: 'scene 2', seamless });
    await simulation.run(3000);
    assert.deepEqual(plans().at(-1), ['q', { place: '2' }]);
    await simulation.finish();
  });
}

test('a plan that comes while the picture is read changes what the picture shows', async () => {
  const { simulation, plans } = simulate();
  const session = simulation.open('s', null, 1, IMAGE);
  simulation.request(session, 'r', { request: 'redirect', prompt: null, plan: { place: '6' }, seamless: false });
  await simulation.run(3000);
  assert.deepEqual(plans().at(-1), ['r', { place: '6' }]);
  assert.ok(simulation.messages.some((message) => message.type === 'request.applied' && message.requestId === 'r'));
  await simulation.finish();
});

test('plan and picture at once are refused', () => {
  const { simulation } = simulate();
  simulation.open('s', null, 1, IMAGE, null, null, { place: '6' });
  const refused = simulation.messages.find(({ type }) => type === 'session.refused');
  assert.ok(refused?.type === 'session.refused' && refused.error.code === 'bad_request');
});
