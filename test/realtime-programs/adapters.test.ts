/** Adapters of live sessions: real scheduler, program and kernels on a virtual clock, a device that computes nothing. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PlannedUnit } from '../../src/engine/model/work.ts';
import type { EngineToControl } from '../../src/streams/messages.ts';
import { IMAGE } from '../interruption/virtual/scripted_model.ts';
import { Simulation } from '../interruption/virtual/Simulation.ts';
import type { SimulatedSession } from '../interruption/virtual/SimulatedSession.ts';

const NOIR = { id: 'noir', scale: 1 };
const GLOW = { id: 'glow', scale: 0.5 };
const versionOf = ({ id, scale }: typeof NOIR) => ({ [id]: `sha-of-${id}@${scale}` });

/** A simulation, and the units that its device was given. */
function watched(steps = 2): { readonly simulation: Simulation; readonly units: PlannedUnit[] } {
  const units: PlannedUnit[] = [];
  return { units, simulation: new Simulation({ steps, outcome: (batch, deviceMs) => (units.push(...batch.units), { deviceMs, answer: 'ok' }) }) };
}

const isVideo = ({ plan }: PlannedUnit): boolean => plan.kind === 'diffusion_step' || plan.kind === 'kv_write';
const isAdapted = ({ plan }: PlannedUnit): boolean => plan.component.endsWith('_adapted');
const adapterOf = ({ plan }: PlannedUnit): unknown => {
  const { attention_down: down, adapter_scale: scale } = plan.inputs;
  return down?.kind === 'adapter' && scale?.kind === 'floats' ? { id: down.adapter, scale: scale.values[0] } : null;
};
const of = (units: readonly PlannedUnit[], session: SimulatedSession) => units.filter(({ sessionId }) => sessionId === session.sessionId).filter(isVideo);
const applied = (session: SimulatedSession, id: string) => session.answers.get(id)![0] as Extract<EngineToControl, { type: 'request.applied' }>;

test('a session opened with an adapter runs every step under it, and its generated frames name it', async () => {
  const { simulation, units } = watched();
  const session = simulation.open('s', 'scene 1', 1, null, NOIR);
  await simulation.run(1500);
  const steps = of(units, session);
  assert.ok(steps.length > 10);
  assert.ok(steps.every(isAdapted));
  assert.ok(steps.every((unit) => JSON.stringify(adapterOf(unit)) === JSON.stringify(NOIR)));
  for (const { origin, adapterVersions } of session.videoFrames) assert.deepEqual(adapterVersions, origin === 'seed' ? {} : versionOf(NOIR));
  await simulation.finish();
});

test('beside a session with an adapter, one without runs what it runs alone, unit by unit', async () => {
  const alone = watched();
  alone.simulation.open('plain');
  await alone.simulation.run(2000);
  const both = watched();
  const plain = both.simulation.open('plain');
  const styled = both.simulation.open('styled', 'scene 1', 2, null, NOIR);
  await both.simulation.run(2000);
  assert.ok(of(both.units, plain).every((unit) => !isAdapted(unit) && adapterOf(unit) === null));
  assert.ok(of(both.units, styled).every(isAdapted));
  const inputs = (units: readonly PlannedUnit[]) => units.map(({ plan: { component, step, inputs: given } }) => JSON.stringify([component, step, given['eps'], given['t'], given['time_cos'], given['steer']]));
  const [a, b] = [inputs(alone.units.filter(isVideo)), inputs(of(both.units, plain))];
  const common = Math.min(a.length, b.length);
  assert.ok(common > 20);
  assert.deepEqual(b.slice(0, common), a.slice(0, common));
  await alone.simulation.finish();
  await both.simulation.finish();
});

test('sessions with different adapters share batches, each row with its own; sessions without never share one with them', async () => {
  const batches: PlannedUnit[][] = [];
  // A slow device: turns wait, so that there is something to join.
  const simulation = new Simulation({ speed: 0.6, engine: { admissionBound: 1 }, outcome: (batch, deviceMs) => (batches.push([...batch.units]), { deviceMs, answer: 'ok' }) });
  simulation.open('a', 'scene 1', 1, null, NOIR);
  simulation.open('b', 'scene 1', 2, null, GLOW);
  await simulation.run(3000);
  const shared = batches.filter((units) => units.length > 1 && units.every(isVideo));
  assert.ok(shared.length > 0, 'some steps were joined');
  for (const units of shared) assert.deepEqual(new Set(units.map((unit) => JSON.stringify(adapterOf(unit)))), new Set([NOIR, GLOW].map((adapter) => JSON.stringify(adapter))));
  for (const units of batches) assert.equal(new Set(units.map(({ plan }) => plan.component)).size, 1);
  await simulation.finish();
});

test('switched while it flows, an adapter lands with the next step that begins, fences nothing, and goes again', async () => {
  const { simulation, units } = watched();
  const session = simulation.open();
  await simulation.run(1500);
  const { epoch } = session.words;
  const at = units.length;
  simulation.request(session, 'on', { request: 'redirect', prompt: null, adapter: NOIR, seamless: true });
  await simulation.run(800);
  const answer = applied(session, 'on');
  assert.equal(answer.type, 'request.applied');
  assert.deepEqual(answer.adapter, NOIR);
  assert.equal(session.words.epoch, epoch, 'nothing was fenced');
  const steps = of(units.slice(at), session).filter(({ plan }) => plan.kind === 'diffusion_step');
  const first = steps.findIndex(isAdapted);
  assert.ok(first >= 0 && first <= 1, `the first adapted step is number ${first} after the request`);
  assert.ok(steps.slice(first).every(isAdapted));
  assert.deepEqual(session.videoFrames.find(({ start90k, adapterVersions }) => start90k === answer.media90k && 'noir' in adapterVersions)?.adapterVersions, versionOf(NOIR), 'the frame that the answer names was made with it');
  assert.ok(!units.slice(at).some(({ plan }) => plan.component.startsWith('director') || plan.component === 'text_encoder'), 'nothing has to be thought about');
  simulation.request(session, 'off', { request: 'redirect', prompt: null, adapter: null, seamless: true });
  await simulation.run(800);
  assert.equal(applied(session, 'off').adapter, null);
  assert.deepEqual(session.videoFrames.at(-1)!.adapterVersions, {});
  assert.ok(!isAdapted(of(units, session).at(-1)!));
  await simulation.finish();
});

test('a fenced redirect by adapter alone goes on from what was seen, in the same scene', async () => {
  const { simulation } = watched();
  const session = simulation.open();
  await simulation.run(1500);
  const seen = session.held90k;
  simulation.request(session, 'r', { request: 'redirect', prompt: null, adapter: GLOW, seamless: false });
  await simulation.run(800);
  assert.deepEqual(applied(session, 'r').adapter, GLOW);
  const first = session.videoFrames.find(({ epoch }) => epoch === 1)!;
  assert.equal(first.start90k, seen);
  assert.deepEqual(first.adapterVersions, versionOf(GLOW));
  await simulation.finish();
});

test('words and adapter are asked for together, and what a redirect does not name stays', async () => {
  const { simulation, units } = watched();
  const session = simulation.open();
  await simulation.run(1200);
  simulation.request(session, 'both', { request: 'redirect', prompt: 'scene 3', adapter: NOIR, seamless: false });
  await simulation.run(1000);
  assert.deepEqual(applied(session, 'both').adapter, NOIR);
  simulation.request(session, 'words', { request: 'redirect', prompt: 'scene 4', seamless: false });
  await simulation.run(1000);
  assert.deepEqual(applied(session, 'words').adapter, NOIR);
  assert.ok(isAdapted(of(units, session).at(-1)!));
  assert.deepEqual(session.texts.filter(({ stream }) => stream === 'plan').map(({ text }) => text), ['scene 1', 'scene 3', 'scene 4']);
  await simulation.finish();
});

for (const seamless of [true, false]) {
  test(`an adapter asked for while words are still being understood takes them along, ${seamless ? 'seamless' : 'fenced'}`, async () => {
    const { simulation } = watched();
    const session = simulation.open();
    await simulation.run(1200);
    simulation.request(session, 'words', { request: 'redirect', prompt: 'scene 3', seamless });
    await simulation.run(2);
    simulation.request(session, 'style', { request: 'redirect', prompt: null, adapter: NOIR, seamless });
    await simulation.run(1000);
    assert.equal(session.answers.get('words')![0]!.type, 'request.superseded');
    assert.deepEqual(applied(session, 'style').adapter, NOIR);
    assert.equal(session.texts.filter(({ stream }) => stream === 'plan').at(-1)!.text, 'scene 3');
    await simulation.finish();
  });

  test(`words asked for before anything of an adapter was shown keep it, ${seamless ? 'seamless' : 'fenced'}`, async () => {
    const { simulation } = watched();
    const session = simulation.open();
    await simulation.run(1200);
    simulation.request(session, 'style', { request: 'redirect', prompt: null, adapter: NOIR, seamless });
    simulation.request(session, 'words', { request: 'redirect', prompt: 'scene 3', seamless });
    await simulation.run(1000);
    assert.deepEqual(applied(session, 'words').adapter, NOIR);
    await simulation.finish();
  });
}

test('an interrupt takes an adapter away that nothing was shown of, and keeps one that was seen', async () => {
  const { simulation, units } = watched();
  const session = simulation.open('s', 'scene 1', 1, null, NOIR);
  await simulation.run(1200);
  simulation.request(session, 'style', { request: 'redirect', prompt: null, adapter: GLOW, seamless: true });
  simulation.request(session, 'i', { request: 'interrupt' });
  await simulation.run(300);
  assert.equal(session.answers.get('style')![0]!.type, 'request.superseded');
  simulation.request(session, 'go', { request: 'resume' });
  await simulation.run(800);
  assert.deepEqual(adapterOf(of(units, session).at(-1)!), NOIR);
  await simulation.finish();
});

for (const image of [null, IMAGE]) {
  test(`an adapter asked for before there is a picture counts from the start, ${image === null ? 'from the bank' : 'from a given picture'}`, async () => {
    const { simulation, units } = watched();
    const session = simulation.open('s', null, 1, image);
    simulation.request(session, 'style', { request: 'redirect', prompt: null, adapter: NOIR, seamless: false });
    await simulation.run(1500);
    assert.deepEqual(applied(session, 'style').adapter, NOIR);
    assert.ok(of(units, session).every(isAdapted));
    assert.equal(session.videoFrames.filter(({ epoch }) => epoch === 1)[0]!.origin, 'seed');
    await simulation.finish();
  });
}

test('an adapter that is not there refuses a session, and a redirect that changes nothing', async () => {
  const { simulation, units } = watched();
  assert.ok(simulation.open('x', 'scene 1', 1, null, { id: 'sepia', scale: 1 }).refused);
  const session = simulation.open();
  await simulation.run(1200);
  simulation.request(session, 'r', { request: 'redirect', prompt: null, adapter: { id: 'noir', scale: 2 }, seamless: true });
  await simulation.run(800);
  const answer = session.answers.get('r')![0]! as Extract<EngineToControl, { type: 'request.failed' }>;
  assert.deepEqual([answer.type, answer.error.code], ['request.failed', 'adapter_not_usable']);
  assert.match(answer.error.message, /0 to 1\.5, got 2; this model has noir, glow/);
  assert.ok(of(units, session).every((unit) => !isAdapted(unit)));
  await simulation.finish();
});

test('a chunk that is still noisy is steered into an adapter, and its keys and values are written under it', async () => {
  const { simulation, units } = watched(4);
  const session = simulation.open();
  await simulation.run(1500);
  // Until a chunk has had its first step.
  for (let waited = 0; waited < 2000 && of(units, session).at(-1)!.plan.step !== 1; waited++) await simulation.run(0.5);
  simulation.request(session, 'r', { request: 'redirect', prompt: null, adapter: NOIR, seamless: true });
  await simulation.run(800);
  assert.equal(applied(session, 'r').how, 'steer');
  const steps = of(units, session);
  const first = steps.findIndex(isAdapted);
  assert.ok(steps[first]!.plan.step > 0, 'it began without');
  assert.ok(steps.slice(first).every(isAdapted), 'and went on with it, the write too');
  await simulation.finish();
});

for (const request of ['cut', 'blend'] as const) {
  test(`a ${request} keeps the adapter that was asked for last`, async () => {
    const { simulation, units } = watched();
    const session = simulation.open();
    await simulation.run(1200);
    simulation.request(session, 'style', { request: 'redirect', prompt: null, adapter: NOIR, seamless: true });
    simulation.request(session, 'r', request === 'cut' ? { request, prompt: 'scene 4' } : { request, prompt: 'scene 4', chunks: 4 });
    await simulation.run(1500);
    assert.equal(session.answers.get('style')![0]!.type, 'request.superseded');
    assert.deepEqual([applied(session, 'r').how, applied(session, 'r').adapter], [request, NOIR]);
    assert.ok(isAdapted(of(units, session).at(-1)!));
    await simulation.finish();
  });

  test(`an adapter asked for before anything of a ${request} was shown comes with it`, async () => {
    for (const waited of [0, 4, 8, 12, 16]) {
      for (const seamless of [true, false]) {
        const { simulation, units } = watched();
        const session = simulation.open();
        await simulation.run(1200);
        simulation.request(session, 'r', request === 'cut' ? { request, prompt: 'scene 4' } : { request, prompt: 'scene 4', chunks: 4 });
        await simulation.run(waited);
        const unshown = session.answers.get('r')!.length === 0;
        simulation.request(session, 'style', { request: 'redirect', prompt: null, adapter: NOIR, seamless });
        await simulation.run(1500);
        const { how, adapter } = applied(session, 'style');
        assert.deepEqual(adapter, NOIR);
        if (unshown && (request === 'cut' || seamless)) assert.equal(how, request, `after ${waited} ms`);
        assert.equal(session.texts.filter(({ stream }) => stream === 'plan').at(-1)!.text, 'scene 4');
        assert.ok(isAdapted(of(units, session).at(-1)!));
        await simulation.finish();
      }
    }
  });
}

for (const seamless of [true, false]) {
  test(`an adapter asked for in a blend takes force at once, and the blend goes on to its end, ${seamless ? 'seamless' : 'fenced'}`, async () => {
    const { simulation, units } = watched();
    const session = simulation.open();
    await simulation.run(1200);
    simulation.request(session, 'b', { request: 'blend', prompt: 'scene 4', chunks: 8 });
    await simulation.run(700);
    const { chunk } = applied(session, 'b');
    simulation.request(session, 'style', { request: 'redirect', prompt: null, adapter: NOIR, seamless });
    await simulation.run(2000);
    assert.deepEqual(applied(session, 'style').adapter, NOIR);
    const shares = new Map<number, Set<number>>();
    for (const { plan } of of(units, session)) {
      const at = (plan.state as { chunk: number }).chunk - chunk;
      const tk = plan.inputs['tk'];
      const own = tk?.kind === 'mix' ? tk.parts[0]!.weight : 1;
      if (at >= 0) shares.set(at, (shares.get(at) ?? new Set()).add(Math.round(own * 8)));
    }
    for (const [at, own] of shares) assert.deepEqual([...own], [Math.min(8, at + 1)], `chunk ${at} of the blend`);
    const completed = simulation.messages.filter((message) => message.type === 'request.completed');
    assert.deepEqual(completed.map((message) => message.requestId), ['b']);
    assert.ok(isAdapted(of(units, session).at(-1)!));
    await simulation.finish();
  });
}
