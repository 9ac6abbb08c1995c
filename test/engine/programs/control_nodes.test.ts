/** Branches, joins, waits and what nodes declare, executed: real program, scheduler and commit rule on a virtual clock. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { WorkUnitBatch } from '../../../src/engine/model/work.ts';
import type { InlineSpec } from '../../../src/engine/programs/inline_spec.ts';
import type { NodePolicy } from '../../../src/engine/programs/node_policy.ts';
import { driveInline, REASON_THEN_GENERATE } from '../../../src/inline-programs/drive_inline.ts';
import { Simulation } from '../../interruption/virtual/Simulation.ts';
import { LANGUAGE, scriptedModel } from '../../interruption/virtual/scripted_model.ts';
import { SimulatedRun } from '../runtime/SimulatedRun.ts';

const { spec, kernels } = scriptedModel();
const DRIVE = driveInline(spec, kernels, LANGUAGE);
const INPUTS = { prompt: 'scene 3', chunks: 4, actions: [{ steer: 0, speed: 2 }] };
const { nodes, edges } = REASON_THEN_GENERATE;
const LATENTS = { kind: 'tensor', type: 'start_latents' } as const;
const SCENE = { kind: 'control', type: 'scene' } as const;

/** The start frames of one of two banks, by the place that the words name. */
const BRANCHED: InlineSpec = {
  ...REASON_THEN_GENERATE,
  programId: 'branched',
  nodes: {
    ...nodes,
    which: { kind: 'control', control: 'branch', carries: SCENE, choice: SCENE, when: { key: 'place', equals: 3 } },
    other: { kind: 'model_loop', loopKind: 'start_bank' },
    either: { kind: 'control', control: 'join', carries: LATENTS },
  },
  edges: [
    ...edges.filter(({ to }) => to !== 'start.scene' && to !== 'video.start'),
    { kind: 'control', from: 'director.scene', to: 'which.value' },
    { kind: 'control', from: 'director.scene', to: 'which.choice' },
    { kind: 'control', from: 'which.then', to: 'start.scene' },
    { kind: 'control', from: 'which.else', to: 'other.scene' },
    { kind: 'tensor', from: 'start.latents', to: 'either.then' },
    { kind: 'tensor', from: 'other.latents', to: 'either.else' },
    { kind: 'tensor', from: 'either.value', to: 'video.start' },
  ],
};

const WAITING: InlineSpec = {
  ...REASON_THEN_GENERATE,
  programId: 'waiting',
  nodes: { ...nodes, gate: { kind: 'control', control: 'wait', carries: SCENE, after: LATENTS } },
  edges: [
    ...edges.filter(({ to }) => to !== 'encoder.scene'),
    { kind: 'control', from: 'director.scene', to: 'gate.value' },
    { kind: 'tensor', from: 'start.latents', to: 'gate.after' },
    { kind: 'control', from: 'gate.value', to: 'encoder.scene' },
  ],
};

/** The forcing case with something declared of its nodes. */
const declared = (policies: Readonly<Record<string, NodePolicy>>): InlineSpec => ({ ...REASON_THEN_GENERATE, nodes: Object.fromEntries(Object.entries(nodes).map(([name, node]) => [name, { ...node, ...policies[name] }])) });

interface Watched {
  readonly loops: string[];
  readonly run: SimulatedRun;
  readonly simulation: Simulation;
}

async function watched(program: InlineSpec, inputs: object = INPUTS, { fails = () => false, onBatch = () => undefined, ms = 2000 }: { fails?: (batch: WorkUnitBatch) => boolean; onBatch?: (now: { readonly simulation: Simulation; readonly frames: number; readonly cancel: () => void }) => void; ms?: number } = {}): Promise<Watched> {
  const loops: string[] = [];
  let run: SimulatedRun | null = null;
  const simulation: Simulation = new Simulation({
    outcome: (batch, deviceMs) => {
      loops.push(...batch.units.map(({ loopId }) => loopId));
      // The first unit is handed over while the run is being opened.
      onBatch({ simulation, frames: run?.frames.length ?? 0, cancel: () => run?.handle.cancel() });
      return fails(batch) ? { deviceMs, answer: 'kernel_exception' } : { deviceMs, answer: 'ok' };
    },
  });
  simulation.keepTraces = true;
  run = new SimulatedRun(simulation, DRIVE.program(program), inputs as typeof INPUTS);
  await simulation.run(ms);
  run.checkEnd();
  await simulation.finish();
  return { loops, run, simulation };
}

test('a branch takes one side, and the nodes of the other run nothing; what comes out is what the side alone gives', async () => {
  const plain = await watched(REASON_THEN_GENERATE);
  for (const [prompt, taken, left] of [['scene 3', 'start', 'other'], ['scene 4', 'other', 'start']] as const) {
    const { loops, run } = await watched(BRANCHED, { ...INPUTS, prompt });
    assert.equal(run.ends[0]?.outcome, 'completed', prompt);
    assert.deepEqual([loops.filter((loop) => loop === taken).length, loops.includes(left)], [1, false], prompt);
    assert.equal(run.frames.length, 8);
    if (prompt === 'scene 3') assert.deepEqual(run.content, plain.run.content);
  }
});

test('what a side alone leads to is skipped to its end: a stream behind it gives nothing, and the run ends', async () => {
  const silent: InlineSpec = {
    ...REASON_THEN_GENERATE,
    programId: 'silent',
    nodes: { ...nodes, which: { kind: 'control', control: 'branch', carries: SCENE, choice: SCENE, when: { key: 'place', equals: 9 } } },
    edges: [...edges.filter(({ to }) => to !== 'encoder.scene'), { kind: 'control', from: 'director.scene', to: 'which.value' }, { kind: 'control', from: 'director.scene', to: 'which.choice' }, { kind: 'control', from: 'which.then', to: 'encoder.scene' }],
  };
  const { loops, run } = await watched(silent);
  assert.equal(run.ends[0]?.outcome, 'completed');
  assert.equal(run.text, '23 7 11 12');
  assert.deepEqual([run.frames.length, loops.includes('video'), loops.includes('picture')], [0, false, false]);
});

test('a wait holds what it carries until what it waits for came', async () => {
  const { loops, run } = await watched(WAITING);
  assert.equal(run.ends[0]?.outcome, 'completed');
  assert.ok(loops.indexOf('start') < loops.indexOf('encoder') && loops.indexOf('encoder') < loops.indexOf('video'), loops.slice(0, 12).join(' '));
  assert.deepEqual(run.content, (await watched(REASON_THEN_GENERATE)).run.content, 'and changes nothing that is made');
});

test('cancelled with any unit out, a program with a branch and a join leaves nothing', async () => {
  const units = (await watched(BRANCHED)).loops.length;
  for (let at = 1; at <= units; at++) {
    let count = 0;
    const { run } = await watched(BRANCHED, INPUTS, { onBatch: ({ simulation: { clock }, cancel }) => ++count === at && clock.schedule(clock.now() + 0.05, cancel) });
    assert.deepEqual(run.ends, [{ outcome: 'cancelled' }]);
  }
});

for (const attempts of [1, 5]) {
  test(`a node that declares ${attempts} attempts is tried that often, from what was committed, and then the run fails`, async () => {
    for (const failures of [attempts - 1, attempts]) {
      let left = failures;
      const { run, loops } = await watched(declared({ sound: { retry: { attempts } } }), INPUTS, { fails: ({ units }) => units[0]!.loopId === 'sound' && units[0]!.plan.state['chunk'] === 2 && left-- > 0 });
      const [end] = run.ends;
      if (failures < attempts) assert.ok(end?.outcome === 'completed' && run.frames.length === 8 && loops.filter((loop) => loop === 'sound').length === 8 + failures);
      else assert.ok(end?.outcome === 'failed' && end.error.code === 'unit_failed', JSON.stringify(end));
    }
  });
}

test('cancelled in the midst of a chunk, nodes that declare items give it whole first; others stop at once', async () => {
  const cancelAfter = (frames: number, policies: Readonly<Record<string, NodePolicy>>) =>
    watched(declared(policies), INPUTS, { onBatch: (now) => now.frames >= frames && now.cancel() });
  const whole = { picture: { cancellation: 'item' }, sound: { cancellation: 'item' } } as const;
  const counts: number[] = [];
  for (const frames of [1, 3, 5]) {
    const [atOnce, later] = [await cancelAfter(frames, {}), await cancelAfter(frames, whole)];
    assert.deepEqual([atOnce.run.ends, later.run.ends], [[{ outcome: 'cancelled' }], [{ outcome: 'cancelled' }]]);
    assert.equal(later.run.frames.length % 2, 0, `${later.run.frames.length} frames: whole chunks`);
    assert.ok(later.run.frames.length < 8, 'and no more of them than were begun');
    counts.push(atOnce.run.frames.length);
  }
  assert.ok(counts.some((count) => count % 2 === 1), `without it a chunk is cut: ${counts.join(', ')}`);
});

test('a cancelled run that can not give what it has to ends all the same', async () => {
  const simulation = new Simulation();
  const run = new SimulatedRun(simulation, DRIVE.program(declared({ picture: { cancellation: 'item' } })), INPUTS, { slots: 3, holds: true });
  await simulation.run(2000);
  assert.equal(run.frames.length, 3);
  run.handle.cancel();
  await simulation.run(4000);
  assert.equal(run.ends.length, 0, 'it waits for somebody to take what was begun');
  await simulation.run(2000);
  assert.deepEqual(run.ends, [{ outcome: 'cancelled' }]);
  run.checkEnd();
  await simulation.finish();
});

test('a node takes part in the cache as it declares: publishing and reading, reading alone, or not at all', async () => {
  const lookups = async (cache: NodePolicy['cache'] | undefined): Promise<string[]> => {
    const simulation = new Simulation();
    simulation.keepTraces = true;
    const program = DRIVE.program(declared(cache === undefined ? {} : { encoder: { cache } }));
    for (const seed of [1, 2]) {
      const run = new SimulatedRun(simulation, program, INPUTS, { seed });
      await simulation.run(1000);
      run.checkEnd();
    }
    await simulation.finish();
    return simulation.messages.flatMap((message) => (message.type === 'trace' ? message.events.flatMap(({ type, name }) => (type === 'trace.cache' ? [name] : [])) : []));
  };
  assert.deepEqual(await lookups(undefined), ['miss', 'published', 'hit']);
  assert.deepEqual(await lookups('publish'), ['miss', 'published', 'hit']);
  assert.deepEqual(await lookups('read'), ['miss', 'miss']);
  assert.deepEqual(await lookups('none'), []);
});

test('what a program declares is compared with the model, and faults name the key and both sides', () => {
  const fault = (program: InlineSpec): string => {
    try {
      DRIVE.program(program);
    } catch (error) {
      assert.ok(error instanceof TypeError, String(error));
      return error.message;
    }
    return 'taken';
  };
  assert.match(fault(declared({ video: { retry: { attempts: 0 } } })), /^program reason_then_generate: nodes\.video\.retry\.attempts: 0, wanted 1 to 10$/);
  assert.match(fault(declared({ sound: { cache: 'publish' } })), /nodes\.sound\.cache: publish, but loops\.yaml: loops\.audio\.cache\.publishes is \[\]$/);
  assert.match(fault(declared({ picture: { cache: 'read' } })), /nodes\.picture\.cache: read, but loops\.yaml: loops\.vae_tile_decode\.cache\.reads is \[\]$/);
  assert.match(fault(declared({ video: { cancellation: 'chunk' as 'item' } })), /nodes\.video\.cancellation: chunk, wanted unit or item$/);
  assert.match(fault(declared({ mediaOut: { retry: { attempts: 2 } } })), /nodes\.mediaOut\.retry: \{"attempts":2\}, but the node steps no loop$/);
  assert.match(fault(declared({ video: { placement: { role: '' } } })), /nodes\.video\.placement\.role: is empty/);
  const spliced = (node: InlineSpec['nodes'][string], more: InlineSpec['edges']): InlineSpec => ({ ...REASON_THEN_GENERATE, nodes: { ...nodes, odd: node }, edges: [...edges, ...more] });
  assert.match(fault(spliced({ kind: 'control', control: 'wait', carries: { kind: 'stream', type: 'words' }, after: SCENE }, [])), /nodes\.odd\.carries\.kind: stream, but a stream goes one way/);
  const joined = spliced({ kind: 'control', control: 'join', carries: SCENE }, [{ kind: 'control', from: 'director.scene', to: 'odd.then' }, { kind: 'control', from: 'director.scene', to: 'odd.else' }]);
  assert.match(fault(joined), /node odd: its inputs then \(director\.scene\) and else \(director\.scene\) aren't the two sides of one branch$/);
  assert.match(fault(spliced({ kind: 'control', control: 'branch', carries: LATENTS, choice: SCENE, when: { equals: 1 } }, [{ kind: 'control', from: 'director.scene', to: 'odd.choice' }])), /node odd: input value \(tensor of start_latents\) takes one edge, has none/);
});
