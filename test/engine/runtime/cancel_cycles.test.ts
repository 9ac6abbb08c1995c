/** T3: requests that are cancelled and requests that run, in turns, ten thousand times: nothing that the engine keeps grows, and no later request notices. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { driveInline, LOGPROB_RECOMPUTE } from '../../../src/inline-programs/drive_inline.ts';
import { Simulation } from '../../interruption/virtual/Simulation.ts';
import { LANGUAGE, scriptedModel } from '../../interruption/virtual/scripted_model.ts';
import { SimulatedRun } from './SimulatedRun.ts';

const CYCLES = Number(process.env['SEGUE_CYCLES'] ?? 10_000);
const { spec, kernels } = scriptedModel();
const RECOMPUTE = driveInline(spec, kernels, LANGUAGE).program(LOGPROB_RECOMPUTE);
const INPUTS = { sampled: { prompt: [1, 5], tokens: [8, 8, 8] } };

test(`${CYCLES} runs, every other one cancelled at another moment: each that is left to run gives the same, and nothing has grown`, async () => {
  const simulation = new Simulation();
  const cycle = async (number: number): Promise<SimulatedRun> => {
    const run = new SimulatedRun(simulation, RECOMPUTE, INPUTS);
    if (number % 2 === 0) {
      // Before its unit, in the midst of it, and just as it ends.
      await simulation.run((number % 6) * 0.3);
      run.handle.cancel();
      run.handle.cancel();
    }
    await simulation.run(4);
    assert.equal(run.ends[0]?.outcome === 'completed' || number % 2 === 0, true, `run ${number} ended with ${JSON.stringify(run.ends)}`);
    run.checkEnd();
    return run;
  };
  const first = await cycle(1);
  const before = simulation.core.footprint();
  for (let number = 2; number < CYCLES; number++) await cycle(number);
  const last = await cycle(CYCLES + 1);
  assert.deepEqual(last.content, first.content);
  assert.deepEqual(simulation.core.footprint(), before);
  await simulation.finish();
});

test(`${CYCLES / 5} interrupts and resumptions of one session: nothing has grown, every answer came, and the next redirect works`, async () => {
  const simulation = new Simulation({ engine: { pastChunks: 2 } });
  const session = simulation.open();
  const neighbour = simulation.open('n');
  await simulation.run(2000);
  const settled = async (): Promise<Readonly<Record<string, number>>> => {
    simulation.request(session, `still ${simulation.clock.now()}`, { request: 'pause' });
    simulation.request(neighbour, `still ${simulation.clock.now()}`, { request: 'pause' });
    await simulation.run(500);
    const { blocks: _, ...footprint } = simulation.core.footprint();
    for (const paused of [session, neighbour]) simulation.request(paused, `on ${simulation.clock.now()}`, { request: 'resume' });
    await simulation.run(300);
    return footprint;
  };
  const before = await settled();
  const blocks = simulation.core.footprint()['blocks']!;
  for (let number = 0; number < CYCLES / 10; number++) {
    simulation.request(session, `i${number}`, { request: 'interrupt' });
    await simulation.run(number % 3);
    simulation.request(session, `r${number}`, { request: 'resume' });
    await simulation.run(1 + (number % 11));
    assert.equal(session.answers.get(`r${number}`)?.[0]?.type, 'request.applied');
  }
  await simulation.run(3000);
  assert.deepEqual(await settled(), before);
  assert.ok(simulation.core.footprint()['blocks']! <= 1.3 * blocks, `${simulation.core.footprint()['blocks']} blocks, ${blocks} before`);
  simulation.request(session, 'next', { request: 'redirect', prompt: 'scene 8', seamless: false });
  await simulation.run(600);
  assert.equal(session.answers.get('next')?.[0]?.type, 'request.applied');
  assert.deepEqual([...session.faults, ...neighbour.faults], []);
  await simulation.finish();
});
