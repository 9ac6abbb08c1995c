/** Inline runs on a virtual clock: the real scheduler, commit rule, program and kernels; a device that takes time and computes nothing. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { WorkUnitBatch } from '../../../src/engine/model/work.ts';
import { driveInline, LOGPROB_RECOMPUTE, REASON_THEN_GENERATE } from '../../../src/inline-programs/drive_inline.ts';
import { SegueError } from '../../../src/protocol/errors.ts';
import { Simulation, type SimulationOptions } from '../../interruption/virtual/Simulation.ts';
import { LANGUAGE, scriptedModel } from '../../interruption/virtual/scripted_model.ts';
import { SimulatedRun } from './SimulatedRun.ts';

const { spec, kernels } = scriptedModel();
const DRIVE = driveInline(spec, kernels, LANGUAGE);
const OMNI = DRIVE.program(REASON_THEN_GENERATE);
const ACTIONS = [{ steer: 0, speed: 2 }, { steer: 1, speed: 3 }];
const INPUTS = { prompt: 'scene 3', chunks: 4, actions: ACTIONS };
/** 5 tokens, prompt, start, 3 chunks of 2 steps, 3 writes, 8 pictures, 8 sounds. */
const UNITS = 5 + 1 + 1 + 3 * 2 + 3 + 8 + 8;

/** A simulation that tells of every unit it is handed. */
function rig(options: SimulationOptions = {}, onBatch: (batch: WorkUnitBatch) => void = () => undefined) {
  const outcome: NonNullable<SimulationOptions['outcome']> = options.outcome ?? ((_, deviceMs) => ({ deviceMs, answer: 'ok' }));
  return new Simulation({
    ...options,
    outcome: (batch, ms) => {
      onBatch(batch);
      return outcome(batch, ms);
    },
  });
}

test('a run reasons in words, then gives every frame with its sound, and says what it took', async () => {
  const units: string[] = [];
  const simulation = rig({}, ({ units: of }) => units.push(...of.map(({ plan }) => plan.kind)));
  const run = new SimulatedRun(simulation, OMNI, INPUTS);
  await simulation.run(1000);
  assert.equal(run.text, '23 7 11 12');
  assert.deepEqual(run.events.map(({ type }) => type), [...Array<string>(5).fill('text.delta'), ...Array<string>(8).fill('media.chunk')]);
  assert.deepEqual(run.events.filter((event) => event.type === 'text.delta').map(({ complete }) => complete), [false, false, false, false, true]);
  run.frames.forEach((frame, at) => {
    assert.deepEqual([frame.frame, frame.chunk, frame.frameInChunk, frame.start90k, frame.end90k], [at, Math.floor(at / 2), at % 2, at * 7500, (at + 1) * 7500]);
    assert.deepEqual([frame.origin, frame.samples], [at < 2 ? 'seed' : 'generated', 2000]);
  });
  const [end] = run.ends;
  assert.ok(end?.outcome === 'completed');
  assert.equal(end.usage.units, UNITS);
  assert.equal(units.length, UNITS);
  assert.deepEqual([end.usage.late, end.record], [false, null]);
  assert.ok(Math.abs(end.usage.deviceMs - end.usage.elapsedMs) < 1, 'alone on its device it never waits');
  run.checkEnd();
  await simulation.finish();
});

test('each chunk is made and written under its own entry of the action trace, the last holding on', async () => {
  const seen = new Map<string, Set<string>>();
  const simulation = rig({}, ({ units }) => {
    for (const { plan } of units) {
      if (plan.kind !== 'diffusion_step' && plan.kind !== 'kv_write') continue;
      const of = (name: string) => {
        const input = plan.inputs[name];
        return input !== undefined && 'values' in input ? input.values[0] : undefined;
      };
      const chunk = String(plan.state['chunk']);
      seen.set(chunk, (seen.get(chunk) ?? new Set()).add(`${of('steer')} ${of('speed')}`));
    }
  });
  new SimulatedRun(simulation, OMNI, INPUTS);
  await simulation.run(1000);
  assert.deepEqual(Object.fromEntries([...seen].map(([chunk, under]) => [chunk, [...under]])), { 0: ['1 2'], 1: ['2 3'], 2: ['2 3'], 3: ['2 3'] });
  await simulation.finish();
});

test('cancelled while any unit is out, or after any unit: nothing is left and nothing comes any more', async () => {
  for (let at = 1; at <= UNITS; at++) {
    for (const when of ['out', 'back'] as const) {
      let count = 0;
      const cancel = (): void => run.handle.cancel();
      const simulation: Simulation = rig({}, () => {
        if (++count !== at) return;
        if (when === 'out') simulation.clock.schedule(simulation.clock.now() + 0.05, cancel);
        // Between two units: at the moment of handing over the next, the one before has just been committed.
        else if (at > 1) cancel();
      });
      const run = new SimulatedRun(simulation, OMNI, INPUTS);
      if (at === 1 && when === 'back') cancel();
      await simulation.run(1000);
      assert.deepEqual(run.ends, [{ outcome: 'cancelled' }], `unit ${at} ${when}`);
      assert.equal(simulation.core.stats().unitsExecuted, at - 1, `unit ${at} ${when}: it counts no more`);
      run.checkEnd();
      await simulation.finish();
    }
  }
});

test('live sessions beside a run miss nothing, the run ends, and what it gives is what it gives alone', async () => {
  const alone = rig();
  const reference = new SimulatedRun(alone, OMNI, { ...INPUTS, chunks: 12 });
  await alone.run(2000);
  await alone.finish();
  const simulation = rig();
  const sessions = ['a', 'b', 'c'].map((id) => simulation.open(id));
  await simulation.run(500);
  const run = new SimulatedRun(simulation, OMNI, { ...INPUTS, chunks: 12 });
  await simulation.run(6000);
  assert.ok(run.ends[0]?.outcome === 'completed');
  assert.deepEqual(run.content, reference.content);
  assert.equal(simulation.core.stats().deadlinesMissed, 0);
  for (const { videoFrames } of sessions) assert.ok(videoFrames.length >= 70, `${videoFrames.length} frames in 6.5 s`);
  assert.ok(simulation.batches.some((units) => units > 1), 'units are joined, whoever they are of');
  run.checkEnd();
  await simulation.finish();
});

test('nobody takes what comes: the run waits with what its pools hold, and goes on without a loss', async () => {
  const simulation = rig();
  const run = new SimulatedRun(simulation, OMNI, INPUTS, { slots: 3, holds: true });
  await simulation.run(20_000);
  assert.equal(run.frames.length, 3, 'as many frames as there are slots');
  assert.equal(run.ends.length, 0);
  const { blocksLive } = simulation.core.stats();
  assert.ok(blocksLive <= 24, `${blocksLive} blocks while it waits`);
  run.takeAll();
  await simulation.run(1000);
  assert.equal(run.frames.length, 8);
  assert.ok(run.ends[0]?.outcome === 'completed');
  run.checkEnd();
  await simulation.finish();
});

for (const failures of [1, 2, 3]) {
  test(`a step that fails ${failures} times in a row: ${failures < 3 ? 'is tried again, and nothing of it shows' : 'ends the run, and says why'}`, async () => {
    let left = failures;
    const failing = (batch: WorkUnitBatch) => batch.units.some(({ plan }) => plan.kind === 'vae_tile' && plan.step === 1);
    const simulation = rig({ outcome: (batch, deviceMs) => (left > 0 && failing(batch) ? (left--, { deviceMs, answer: 'kernel_exception' }) : { deviceMs, answer: 'ok' }) });
    const run = new SimulatedRun(simulation, OMNI, INPUTS);
    await simulation.run(1000);
    const [end] = run.ends;
    if (failures < 3) assert.ok(end?.outcome === 'completed' && run.frames.length === 8);
    else assert.ok(end?.outcome === 'failed' && end.error.code === 'unit_failed', JSON.stringify(end));
    run.checkEnd();
    await simulation.finish();
  });
}

test('an executor that is lost for a while, or never answers: the run waits and goes on', async () => {
  for (const answer of ['lost', 'silent'] as const) {
    let once = true;
    const simulation = rig({
      engine: { unitWatchdogMs: 500 },
      outcome: (batch, deviceMs) => (once && batch.units[0]!.plan.kind === 'kv_write' ? ((once = false), { deviceMs, answer, recoveryMs: 900 }) : { deviceMs, answer: 'ok' }),
    });
    const run = new SimulatedRun(simulation, OMNI, INPUTS);
    await simulation.run(4000);
    assert.ok(run.ends[0]?.outcome === 'completed', `${answer}: ${JSON.stringify(run.ends)}`);
    run.checkEnd();
    await simulation.finish();
  }
});

test('a run that is asked to end by a time is promised its share, and ends in time beside a session; one too many is refused', async () => {
  const simulation = rig();
  simulation.open('a');
  await simulation.run(300);
  const inputs = { ...INPUTS, chunks: 12 };
  const run = new SimulatedRun(simulation, OMNI, inputs, { withinMs: 2500 });
  assert.throws(() => new SimulatedRun(simulation, OMNI, inputs, { withinMs: 300 }), (error: unknown) => error instanceof SegueError && error.code === 'at_capacity' && error.details.retryAfterMs === 2000);
  await simulation.run(2600);
  const [end] = run.ends;
  assert.ok(end?.outcome === 'completed' && !end.usage.late, JSON.stringify(end));
  assert.ok(end.usage.elapsedMs <= 2500);
  assert.equal(simulation.core.stats().deadlinesMissed, 0);
  await simulation.finish();
});

test('a full device still takes runs that fill slack; they share what is left in turns, and none starves', async () => {
  const simulation = rig();
  for (const id of ['a', 'b', 'c', 'd', 'e']) simulation.open(id);
  await simulation.run(300);
  const runs = [1, 2, 3].map((seed) => new SimulatedRun(simulation, OMNI, INPUTS, { seed }));
  await simulation.run(9000);
  for (const run of runs) assert.ok(run.ends[0]?.outcome === 'completed', `${run.events.length} events`);
  assert.equal(simulation.core.stats().deadlinesMissed, 0);
  await simulation.finish();
});

test('inputs that can not be run are refused by name and leave nothing', async () => {
  const simulation = rig();
  const code = (inputs: Record<string, unknown>) => {
    try {
      new SimulatedRun(simulation, OMNI, inputs);
    } catch (error) {
      if (error instanceof SegueError) return `${error.code} ${error.details.param}`;
      throw error;
    }
    return 'taken';
  };
  assert.equal(code({ ...INPUTS, prompt: 'mumble' }), 'prompt_not_understood prompt');
  assert.equal(code({ ...INPUTS, prompt: 7 }), 'bad_request prompt');
  assert.equal(code({ ...INPUTS, chunks: 0 }), 'bad_request chunks');
  assert.equal(code({ ...INPUTS, chunks: 1e6 }), 'bad_request chunks');
  assert.equal(code({ ...INPUTS, actions: [] }), 'bad_request actions');
  assert.equal(code({ ...INPUTS, actions: [{ steer: 2, speed: 1 }] }), 'bad_request actions');
  assert.equal(code({ prompt: 'scene 1', chunks: 1 }), 'bad_request actions');
  assert.equal(code({ ...INPUTS, colour: 'red' }), 'bad_request colour');
  await simulation.finish();
});

test('a prompt of several wishes is several passes; one chunk is only start frames', async () => {
  const simulation = rig();
  const run = new SimulatedRun(simulation, OMNI, { ...INPUTS, prompt: 'scene 3 then 4', chunks: 1 });
  await simulation.run(500);
  assert.equal(run.text, '23 7 11 12\n24 7 11 12');
  assert.deepEqual(run.frames.map(({ origin }) => origin), ['seed', 'seed']);
  await simulation.finish();
});

test('a record has what was generated, and only what was committed', async () => {
  let once = true;
  const simulation = rig({ outcome: (batch, deviceMs) => (once && batch.units[0]!.plan.kind === 'diffusion_step' ? ((once = false), { deviceMs, answer: 'kernel_exception' }) : { deviceMs, answer: 'ok' }) });
  const run = new SimulatedRun(simulation, OMNI, INPUTS, { seed: 5, record: { latents: true } });
  await simulation.run(1000);
  const [end] = run.ends;
  assert.ok(end?.outcome === 'completed' && end.record !== null);
  const { texts, trajectory, seed, programId, weightsVersion, incomplete } = end.record;
  assert.deepEqual({ seed, programId, weightsVersion, incomplete }, { seed: 5, programId: 'reason_then_generate', weightsVersion: 'scripted', incomplete: false });
  assert.deepEqual(texts.map(({ prompt, tokens, logprobs }) => [prompt.length, tokens, logprobs.length]), [[4, [23, 7, 11, 12, 9], 5]]);
  assert.deepEqual(trajectory.map(({ chunk, step, t, tNext }) => [chunk, step, t, tNext]), [1, 2, 3].flatMap((chunk) => [[chunk, 0, 1, 0.5], [chunk, 1, 0.5, 0]]));
  assert.deepEqual(trajectory[0]!.noise, { seed: 5, lineage: 0, chunk: 1, step: 0, stream: 0 });
  assert.ok(trajectory.every(({ latents }) => latents !== null));
  run.checkEnd();
  await simulation.finish();
});

test('log-probabilities are asked for in one unit, and units of several runs share a batch', async () => {
  const batches: number[] = [];
  const simulation = rig({}, ({ component, units }) => component === 'director_logprob' && batches.push(units.length));
  simulation.open('busy');
  await simulation.run(200);
  const program = DRIVE.program(LOGPROB_RECOMPUTE);
  const runs = [2, 3, 4].map((length) => new SimulatedRun(simulation, program, { sampled: { prompt: [1, 5], tokens: Array<number>(length).fill(8) } }));
  await simulation.run(300);
  assert.deepEqual(runs.map(({ events }) => events), [2, 3, 4].map((length) => [{ type: 'logprobs', values: Array<number>(length).fill(-1) }]));
  assert.ok(Math.max(...batches) > 1, `batches of ${batches.join(', ')}`);
  assert.throws(() => new SimulatedRun(simulation, program, { sampled: { prompt: [1], tokens: Array<number>(40).fill(1) } }), (error: unknown) => error instanceof SegueError && error.code === 'bad_request');
  await simulation.finish();
});

test('drain waits for runs and takes no new ones; closing the engine ends what runs', async () => {
  const simulation = rig();
  const run = new SimulatedRun(simulation, OMNI, INPUTS);
  await simulation.run(10);
  simulation.core.receive({ type: 'engine.drain' });
  assert.throws(() => new SimulatedRun(simulation, OMNI, INPUTS), (error: unknown) => error instanceof SegueError && error.code === 'draining');
  const drained = () => simulation.messages.some(({ type }) => type === 'engine.drained');
  assert.equal(drained(), false);
  await simulation.run(1000);
  assert.ok(drained() && run.ends[0]?.outcome === 'completed');
  await simulation.finish();
  const other = rig();
  const cut = new SimulatedRun(other, OMNI, INPUTS);
  await other.run(20);
  other.core.close();
  await other.run(100);
  assert.deepEqual(cut.ends, [{ outcome: 'cancelled' }]);
});
