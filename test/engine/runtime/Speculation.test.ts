import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PlannedUnit } from '../../../src/engine/model/work.ts';
import type { EngineOptions } from '../../../src/engine/runtime/engine_options.ts';
import type { TraceEvent } from '../../../src/streams/messages.ts';
import { Simulation } from '../../interruption/virtual/Simulation.ts';
import { scriptedModel } from '../../interruption/virtual/scripted_model.ts';
import type { SimulatedSession } from '../../interruption/virtual/SimulatedSession.ts';

interface Drive {
  readonly simulation: Simulation;
  readonly session: SimulatedSession;
  readonly units: PlannedUnit[];
}

/** A session that has flowed for `forMs`. */
async function drive({ forMs = 2000, engine = {}, speed = 1 }: { forMs?: number; engine?: Partial<EngineOptions>; speed?: number } = {}): Promise<Drive> {
  const units: PlannedUnit[] = [];
  const simulation = new Simulation({ engine, speed, outcome: (batch, deviceMs) => (units.push(...batch.units), { deviceMs, answer: 'ok' }) });
  simulation.keepTraces = true;
  const session = simulation.open();
  await simulation.run(forMs);
  return { simulation, session, units };
}

function traces({ messages }: Simulation, name: string): TraceEvent[] {
  return messages.flatMap((message) => (message.type === 'trace' ? message.events.filter((event) => event.name === name) : []));
}

function elapsedMs({ answers }: SimulatedSession, requestId: string): number {
  const [answer] = answers.get(requestId) ?? [];
  assert.equal(answer?.type, 'request.applied');
  return answer.elapsedMs;
}

const drafted = (units: readonly PlannedUnit[]): PlannedUnit[] => units.filter(({ sessionId }) => sessionId === 's/draft');

/** What a unit computes, apart from where its inputs lie: the picture depends on nothing else. */
const computed = ({ plan: { component, step, inputs } }: PlannedUnit): string => `${component} ${step} ${JSON.stringify(Object.entries(inputs).map(([name, input]) => (input.kind === 'block' ? [name] : [name, input])))}`;

test('a redirect with the words of a draft shows its first frame at once', async () => {
  const { simulation, session } = await drive();
  simulation.draft(session, 'd', 'scene 4');
  await simulation.run(500);
  const [preview] = simulation.messages.filter(({ type }) => type === 'draft.preview');
  assert.deepEqual(preview, { type: 'draft.preview', sessionId: 's', draftId: 'd', plan: 'scene 4', warnings: [] });
  assert.ok(!session.texts.some(({ text }) => text === 'scene 4'), 'nothing is said to whoever watches');
  simulation.request(session, 'r', { request: 'redirect', prompt: 'scene 4', seamless: false });
  assert.equal(elapsedMs(session, 'r'), 0);
  await simulation.run(1000);
  assert.equal(traces(simulation, 'draft.promoted')[0]?.args?.['from'], 'frame');
  assert.ok(session.texts.some(({ text, requestId, stream }) => stream === 'plan' && requestId === 'r' && text === 'scene 4'));
  assert.equal(session.texts.filter(({ stream, requestId }) => stream === 'narration' && requestId === 'r').map(({ text }) => text).join(''), '11 12');
  const frames = session.videoFrames.filter(({ epoch }) => epoch === 1);
  assert.ok(frames.length >= 10, 'and the story goes on from it');
  assert.deepEqual(frames[0]!.events, { started: ['r'], active: ['r'], completed: [] });
  assert.ok(frames.every(({ conditioningVersion }) => conditioningVersion === 1));
  await simulation.finish();
});

test('it hits at any moment of a frame and a chunk', async () => {
  const { simulation, session } = await drive();
  for (let turn = 0; turn < 40; turn++) {
    simulation.draft(session, `d${turn}`, `scene ${turn % 10}`);
    await simulation.run(301 + turn * 13.7);
    simulation.request(session, `r${turn}`, { request: 'redirect', prompt: `scene ${turn % 10}`, seamless: false });
    await simulation.run(400);
  }
  const from = traces(simulation, 'draft.promoted').map(({ args }) => args?.['from']);
  assert.equal(from.length, 40);
  assert.ok(from.filter((what) => what === 'frame').length >= 38, from.join(' '));
  await simulation.finish();
});

test('what is promoted is what a plain redirect computes', async () => {
  const outcomes: { readonly frames: unknown[]; readonly computed: string[] }[] = [];
  for (const drafts of [true, false]) {
    const { simulation, session, units } = await drive();
    if (drafts) simulation.draft(session, 'd', 'scene 4');
    await simulation.run(467);
    const before = units.length;
    const from = session.held90k;
    simulation.request(session, 'r', { request: 'redirect', prompt: 'scene 4', seamless: false });
    await simulation.run(1500);
    const frames = session.videoFrames.filter(({ epoch }) => epoch === 1).slice(0, 12);
    const made = frames.map(({ start90k, end90k, chunk, frameInChunk, step, origin, conditioningVersion, events }) => ({ start90k, end90k, chunk, frameInChunk, step, origin, conditioningVersion, events }));
    const relevant = [...drafted(units.slice(0, before)), ...units.slice(before)].filter(({ plan: { component, leadsTo } }) => component.startsWith('denoise') && (leadsTo ?? 0) >= from);
    const lineages = relevant.map(({ plan }) => plan.inputs['eps']).flatMap((eps) => (eps?.kind === 'noise' ? [eps.counter.lineage] : []));
    const lineage = Math.max(...lineages);
    outcomes.push({ frames: made, computed: [...new Set(relevant.filter(({ plan: { inputs } }) => inputs['eps']?.kind === 'noise' && inputs['eps'].counter.lineage === lineage).map(computed))] });
    assert.equal(traces(simulation, 'draft.promoted').length, drafts ? 1 : 0);
    await simulation.finish();
  }
  assert.deepEqual(outcomes[0]!.frames, outcomes[1]!.frames);
  const plain = outcomes[1]!.computed.slice(0, 8);
  assert.equal(plain.length, 8);
  for (const unit of plain) assert.ok(outcomes[0]!.computed.includes(unit), 'each step is computed from the same numbers and noise');
});

test('a draft that isn’t sent changes nothing that is shown', async () => {
  const shown: unknown[][] = [];
  for (const drafts of [true, false]) {
    const { simulation, session } = await drive();
    if (drafts) for (let key = 0; key < 20; key++) {
      simulation.draft(session, `d${key}`, key % 7 === 6 ? null : `scene ${key % 10} ${key % 3}`);
      await simulation.run(150);
    }
    else await simulation.run(20 * 150);
    simulation.request(session, 'r', { request: 'redirect', prompt: 'scene 5', seamless: false });
    await simulation.run(1000);
    shown.push(session.videoFrames.map(({ start90k, epoch, conditioningVersion, chunk, step }) => ({ start90k, epoch, conditioningVersion, chunk, step })));
    assert.equal(session.texts.filter(({ stream }) => stream === 'plan').length, 2, 'the first plan, and the redirect’s');
    await simulation.finish();
  }
  assert.deepEqual(shown[0]!.slice(0, 70), shown[1]!.slice(0, 70));
});

test('words alone are kept where only they can be: a seamless redirect skips the director', async () => {
  const { simulation, session, units } = await drive();
  simulation.draft(session, 'd', 'scene 4', { seamless: true });
  await simulation.run(400);
  assert.ok(!drafted(units).some(({ kernel }) => kernel === 'video_continuation'), 'no media is made ahead');
  units.length = 0;
  simulation.request(session, 'r', { request: 'redirect', prompt: 'Scene  4', seamless: true });
  await simulation.run(600);
  assert.equal(traces(simulation, 'draft.promoted')[0]?.args?.['from'], 'words');
  assert.ok(!units.some(({ plan }) => plan.kind === 'ar_prefill'), 'nothing is read again');
  assert.equal(session.answers.get('r')![0]!.type, 'request.applied');
  await simulation.finish();
});

test('other words, an emptied field and a key that was pressed since void what they change', async () => {
  const { simulation, session } = await drive();
  simulation.draft(session, 'd1', 'scene 4');
  await simulation.run(400);
  simulation.request(session, 'r1', { request: 'redirect', prompt: 'scene 3', seamless: false });
  await simulation.run(600);
  assert.equal(traces(simulation, 'draft.promoted').length, 0);
  assert.ok(elapsedMs(session, 'r1') > 0);
  simulation.draft(session, 'd2', 'scene 6');
  await simulation.run(400);
  simulation.draft(session, 'd3', null);
  simulation.request(session, 'r2', { request: 'redirect', prompt: 'scene 6', seamless: false });
  await simulation.run(600);
  assert.equal(traces(simulation, 'draft.promoted').length, 0);
  simulation.draft(session, 'd4', 'scene 8');
  await simulation.run(400);
  session.act(1);
  simulation.request(session, 'r3', { request: 'redirect', prompt: 'scene 8', seamless: false });
  await simulation.run(600);
  assert.deepEqual(traces(simulation, 'draft.promoted').map(({ args }) => args?.['from']), ['words'], 'words don’t depend on the key');
  await simulation.finish();
});

test('what is typed while the picture is held is there as well', async () => {
  const { simulation, session } = await drive();
  simulation.request(session, 'i', { request: 'interrupt' });
  await simulation.run(100);
  simulation.draft(session, 'd', 'scene 9');
  await simulation.run(400);
  simulation.request(session, 'r', { request: 'redirect', prompt: 'scene 9', seamless: false });
  await simulation.run(300);
  assert.equal(elapsedMs(session, 'r'), 0);
  await simulation.finish();
});

test('neighbours meet every deadline that they meet without drafts, at the most that is admitted', async () => {
  const missed: number[] = [];
  for (const drafts of [true, false]) {
    const simulation = new Simulation();
    const sessions = ['a', 'b', 'c', 'd', 'e'].map((id, index) => simulation.open(id, 'scene 1', index + 1)).filter(({ refused }) => !refused);
    await simulation.run(3000);
    const before = simulation.core.stats().deadlinesMissed;
    for (let key = 0; key < 60; key++) {
      if (drafts) for (const session of sessions.slice(1)) simulation.draft(session, `${session.sessionId}${key}`, `scene ${key % 10}`);
      await simulation.run(150);
    }
    missed.push(simulation.core.stats().deadlinesMissed - before);
    assert.ok(sessions.length >= 3, `${sessions.length} sessions`);
    await simulation.finish();
  }
  assert.deepEqual(missed, [0, 0]);
});

test('a late frame drops what was made ahead, and nothing is made for a while', async () => {
  let late = false;
  const units: PlannedUnit[] = [];
  const simulation = new Simulation({ outcome: (batch, deviceMs) => (units.push(...batch.units), { deviceMs: late && !batch.units[0]!.sessionId.includes('draft') ? deviceMs * 12 : deviceMs, answer: 'ok' }) });
  const session = simulation.open();
  await simulation.run(2000);
  simulation.draft(session, 'd', 'scene 4');
  await simulation.run(400);
  late = true;
  await simulation.run(400);
  late = false;
  assert.ok(simulation.core.stats().deadlinesMissed > 0);
  units.length = 0;
  await simulation.run(1000);
  assert.deepEqual(drafted(units), []);
  simulation.request(session, 'r', { request: 'redirect', prompt: 'scene 4', seamless: false });
  await simulation.run(600);
  assert.equal(session.answers.get('r')![0]!.type, 'request.applied');
  await simulation.finish();
});

test('a draft makes room for a session that wants in', async () => {
  const { program } = scriptedModel();
  const ahead = program.speculation!.memory(4);
  // Room for the cache, for two sessions, and for half of what a draft may keep.
  const room = (tag: 'kv' | 'activations'): number => 32 * 2 ** 20 + 2 * (program.demand.memory[tag] ?? 0) + (ahead[tag] ?? 0) / 2;
  const simulation = new Simulation({ engine: { memory: { kv: room('kv'), activations: room('activations') } } });
  const one = simulation.open('a');
  await simulation.run(1000);
  simulation.draft(one, 'd', 'scene 4');
  await simulation.run(500);
  assert.equal(simulation.messages.filter(({ type }) => type === 'draft.preview').length, 1, 'there was room for it');
  const two = simulation.open('b');
  await simulation.run(1500);
  assert.ok(!two.refused);
  assert.ok(two.videoFrames.length > 10);
  simulation.request(one, 'r', { request: 'redirect', prompt: 'scene 4', seamless: false });
  await simulation.run(500);
  assert.equal(one.answers.get('r')![0]!.type, 'request.applied', 'a redirect needs no draft');
  simulation.draft(one, 'd2', 'scene 5');
  await simulation.run(500);
  assert.equal(simulation.messages.filter(({ type }) => type === 'draft.preview').length, 1, 'none is worked on where there is no room');
  await simulation.finish();
});

test('a draft that is left lying keeps its words and makes no more media', async () => {
  const { simulation, session, units } = await drive();
  simulation.draft(session, 'd', 'scene 4');
  await simulation.run(16_000);
  units.length = 0;
  await simulation.run(2_000);
  assert.deepEqual(drafted(units), []);
  simulation.request(session, 'r', { request: 'redirect', prompt: 'scene 4', seamless: false });
  await simulation.run(400);
  assert.equal(traces(simulation, 'draft.promoted')[0]?.args?.['from'], 'words');
  await simulation.finish();
});

test('turned off, nothing is made ahead', async () => {
  const { simulation, session, units } = await drive({ engine: { speculation: false } });
  simulation.draft(session, 'd', 'scene 4');
  await simulation.run(500);
  assert.deepEqual(drafted(units), []);
  await simulation.finish();
});

for (const request of [{ request: 'cut', prompt: 'scene 4' }, { request: 'blend', prompt: 'scene 4', chunks: 4 }] as const) {
  test(`a ${request.request} takes the words of a draft, and none of its frames`, async () => {
    const { simulation, session, units } = await drive();
    simulation.draft(session, 'd', 'scene 4');
    await simulation.run(600);
    assert.ok(traces(simulation, 'draft.ready').length > 0);
    units.length = 0;
    simulation.request(session, 'r', request);
    await simulation.run(1500);
    const [answer] = session.answers.get('r')!;
    assert.ok(answer?.type === 'request.applied' && answer.how === request.request, JSON.stringify(answer));
    assert.equal(traces(simulation, 'draft.promoted')[0]?.args?.['from'], 'words');
    assert.ok(!units.some(({ plan }) => plan.component === 'text_encoder'), 'they are encoded already');
    if (request.request === 'cut') assert.equal(session.videoFrames.find(({ epoch }) => epoch === 1)!.origin, 'seed');
    else assert.ok(simulation.messages.some(({ type }) => type === 'request.completed'));
    assert.equal(session.texts.filter(({ stream }) => stream === 'plan').at(-1)!.text, 'scene 4');
    await simulation.finish();
  });
}

const NOIR = { id: 'noir', scale: 1 };
const isAdapted = ({ plan }: PlannedUnit): boolean => plan.component.endsWith('_adapted');

test('a draft is made under the adapter that was asked for last, and its frame is shown under no other', async () => {
  for (const [adapter, from] of [[undefined, 'frame'], [NOIR, 'frame'], [null, 'words'], [{ id: 'noir', scale: 0.5 }, 'words']] as const) {
    const { simulation, session, units } = await drive();
    simulation.request(session, 'style', { request: 'redirect', prompt: null, adapter: NOIR, seamless: true });
    await simulation.run(600);
    simulation.draft(session, 'd', 'scene 4');
    await simulation.run(600);
    assert.ok(drafted(units).filter(({ plan }) => plan.kind === 'diffusion_step').every(isAdapted));
    simulation.request(session, 'r', { request: 'redirect', prompt: 'scene 4', ...(adapter === undefined ? {} : { adapter }), seamless: false });
    await simulation.run(800);
    const [answer] = session.answers.get('r')!;
    assert.ok(answer?.type === 'request.applied');
    assert.deepEqual(answer.adapter, adapter === undefined ? NOIR : adapter);
    assert.equal(traces(simulation, 'draft.promoted')[0]?.args?.['from'], from);
    await simulation.finish();
  }
});

test('an adapter alone leaves the draft there: its words stay, its frames are made again under it', async () => {
  const { simulation, session, units } = await drive();
  simulation.draft(session, 'd', 'scene 4');
  await simulation.run(600);
  simulation.request(session, 'style', { request: 'redirect', prompt: null, adapter: NOIR, seamless: true });
  units.length = 0;
  await simulation.run(800);
  const again = drafted(units);
  assert.ok(again.some(isAdapted) && !again.some(({ plan }) => plan.component === 'text_encoder'));
  simulation.request(session, 'r', { request: 'redirect', prompt: 'scene 4', seamless: false });
  await simulation.run(600);
  assert.equal(traces(simulation, 'draft.promoted')[0]?.args?.['from'], 'frame');
  assert.equal((session.answers.get('r')![0] as { adapter?: unknown }).adapter !== null, true);
  await simulation.finish();
});

test('while a session is on hold nothing of its draft is made; then it goes on', async () => {
  const { simulation, session, units } = await drive();
  simulation.request(session, 'h', { request: 'hold' });
  simulation.draft(session, 'd', 'scene 4');
  await simulation.run(15);
  units.length = 0;
  await simulation.run(1_000);
  assert.deepEqual(units, []);
  simulation.request(session, 'g', { request: 'release' });
  // Its frames are late against a clock that nobody has set anew: that is waited for too.
  await simulation.run(3_000);
  assert.ok(drafted(units).length > 0);
  simulation.request(session, 'r', { request: 'redirect', prompt: 'scene 4', seamless: false });
  await simulation.run(600);
  assert.equal(traces(simulation, 'draft.promoted')[0]?.args?.['from'], 'frame');
  await simulation.finish();
});

test('what was promoted is kept as what the request made', async () => {
  const { simulation, session } = await drive();
  simulation.draft(session, 'd', 'scene 4');
  await simulation.run(600);
  simulation.request(session, 'r', { request: 'redirect', prompt: 'scene 4', seamless: false });
  await simulation.run(1_500);
  assert.equal(traces(simulation, 'draft.promoted')[0]?.args?.['from'], 'frame');
  const { media90k, conditioningVersion } = session.answers.get('r')![0] as { media90k: number; conditioningVersion: number };
  const kept = simulation.kept.get('s')!.chunks.find((chunk) => chunk.start90k <= media90k && media90k < chunk.end90k)!;
  const { frames, steps, scene } = JSON.parse(kept.data) as { frames: { conditioningVersion: number; active: string[] }[]; steps: { conditioningVersion: number; plan: { place: number } }[]; scene: { requestId: string } };
  assert.deepEqual([frames.at(-1)!.active, frames.at(-1)!.conditioningVersion, scene.requestId], [['r'], conditioningVersion, 'r']);
  assert.deepEqual(steps.map((step) => [step.conditioningVersion, step.plan.place]), steps.map(() => [conditioningVersion, 4]));
  await simulation.finish();
});
