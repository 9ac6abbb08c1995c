import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Tracer, type TraceLevel } from '../../../src/engine/runtime/Tracer.ts';
import { Simulation } from '../../interruption/virtual/Simulation.ts';

const IDENTITY = { modelId: 'm', versions: { weights: 'w' }, roleOf: (workerId: string) => (workerId === 'executor-1' ? 'decode' : undefined) };

test('every event carries model, instance, role, versions and trace; stages of a run share its trace', () => {
  const tracer = new Tracer('full', IDENTITY);
  tracer.add({ type: 'trace.step', name: 'vae_tile', atMs: 1, sessionId: 'run-1/decode', workerId: 'executor-1' });
  tracer.add({ type: 'trace.transfer', name: 'start', atMs: 2, sessionId: 'run-1', workerId: 'executor-0', roleId: 'denoise' });
  tracer.add({ type: 'trace.scheduler', name: 'session.refused', atMs: 3, sessionId: 's' });
  const [step, transfer, refused] = tracer.take(5);
  assert.deepEqual([step!.modelId, step!.modelInstanceId, step!.roleId, step!.versions], ['m', 'm@executor-1', 'decode', { weights: 'w' }]);
  assert.equal(transfer!.roleId, 'denoise');
  assert.match(step!.traceId!, /^[0-9a-f]{32}$/);
  assert.equal(transfer!.traceId, step!.traceId);
  assert.notEqual(refused!.traceId, step!.traceId);
  assert.equal(refused!.modelInstanceId, undefined);
});

test('a summary counts units by kind, once a second', () => {
  const tracer = new Tracer('summary', IDENTITY);
  for (let unit = 0; unit < 10; unit++) tracer.count('diffusion_step', 5, unit === 3, unit * 100);
  tracer.count('vae_tile', 7, false, 950);
  assert.deepEqual(tracer.take(900), []);
  assert.deepEqual(tracer.take(1000).map(({ name, durationMs, args }) => [name, durationMs, args]), [
    ['summary', 1000, { kind: 'diffusion_step', units: 10, deviceMs: 50, late: 1 }],
    ['summary', 1000, { kind: 'vae_tile', units: 1, deviceMs: 7, late: 0 }],
  ]);
  assert.deepEqual(tracer.take(5000), []);
  assert.throws(() => new Tracer('loud' as 'off', IDENTITY), /traces is loud, wanted off, summary, full/);
});

test('off tells nothing, a summary tells decisions and counts of the units that a full trace tells one by one', async () => {
  const traced = async (traces: TraceLevel) => {
    const simulation = new Simulation({ engine: { traces } });
    simulation.keepTraces = true;
    const session = simulation.open('s');
    await simulation.run(1500);
    simulation.request(session, 'r', { request: 'redirect', prompt: 'scene 4', seamless: false });
    await simulation.run(1500);
    await simulation.finish();
    return { events: simulation.messages.flatMap((message) => (message.type === 'trace' ? message.events : [])), units: simulation.core.stats().unitsExecuted };
  };
  const [off, summary, full] = [await traced('off'), await traced('summary'), await traced('full')];
  assert.equal(off.events.length, 0);
  const names = (of: typeof full) => new Set(of.events.filter(({ type }) => type === 'trace.scheduler').map(({ name }) => name));
  const left = [...names(full)].filter((name) => !names(summary).has(name));
  assert.deepEqual(left, ['dispatch'], 'what is decided is told at both');
  assert.ok(names(summary).has('session.admitted'));
  assert.ok(summary.events.filter(({ type, name }) => type === 'trace.step' && name !== 'summary').length === 0);
  const counted = summary.events.reduce((sum, { name, args }) => sum + (name === 'summary' ? Number(args?.['units']) : 0), 0);
  assert.ok(counted > 0 && counted <= full.units + 20, `${counted} of ${full.units}`);
  assert.ok(summary.events.length * 5 < full.events.length, `${summary.events.length} against ${full.events.length}`);
  assert.ok(full.events.every(({ modelId, versions }) => modelId !== undefined && versions?.['weights'] === 'scripted'));
});
