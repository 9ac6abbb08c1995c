/** Rows of the table of requests at the engine, on a virtual clock: what each begins, keeps, drops and answers. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { PlannedUnit, UnitInput } from '../../../src/engine/model/work.ts';
import type { EngineToControl } from '../../../src/streams/messages.ts';
import { HOLD_LIMIT_MS } from '../../../src/streams/ProvisionalHold.ts';
import { Simulation, type SimulationOptions } from './Simulation.ts';
import type { SimulatedSession } from './SimulatedSession.ts';

interface Stage {
  readonly simulation: Simulation;
  readonly session: SimulatedSession;
  /** Units that were begun, oldest first. */
  readonly begun: PlannedUnit[];
}

async function flowing(options: SimulationOptions = {}): Promise<Stage> {
  const begun: PlannedUnit[] = [];
  const simulation = new Simulation({ ...options, outcome: (batch, deviceMs) => (begun.push(...batch.units), { deviceMs, answer: 'ok' }) });
  const session = simulation.open();
  await simulation.run(1_500);
  begun.length = 0;
  return { simulation, session, begun };
}

type Applied = Extract<EngineToControl, { type: 'request.applied' }>;

function applied(session: SimulatedSession, requestId: string): Applied {
  const [answer] = session.answers.get(requestId)!;
  assert.equal(answer?.type, 'request.applied', `${requestId}: ${JSON.stringify(answer)}`);
  return answer as Applied;
}

async function nextTurnWorks({ simulation, session }: Stage): Promise<void> {
  simulation.request(session, 'next', { request: 'redirect', prompt: 'scene 7', seamless: false });
  const epoch = session.words.epoch;
  await simulation.run(600);
  assert.equal(applied(session, 'next').how, 'restart');
  assert.ok(session.videoFrames.filter((frame) => frame.epoch === epoch).length >= 4);
  await simulation.finish();
}

const ofKind = (begun: readonly PlannedUnit[], kind: string) => begun.filter(({ plan }) => plan.kind === kind);
const windowBlocks = ({ plan }: PlannedUnit) => Object.entries(plan.inputs).filter(([name, input]) => /^k\d$/.test(name) && input.kind === 'block').length;
const weights = (input: UnitInput) => (input.kind === 'mix' ? input.parts.map(({ weight }) => Math.round(weight * 1000) / 1000) : [1]);

describe('hold', () => {
  it('begins no unit and drops nothing; release goes on with the next frame of the same future', async () => {
    const stage = await flowing();
    const { simulation, session, begun } = stage;
    simulation.request(session, 'h', { request: 'hold' });
    await simulation.run(15); // what was in flight comes back
    begun.length = 0;
    const frames = session.videoFrames.length;
    await simulation.run(1_500);
    assert.equal(begun.length, 0);
    assert.equal(session.videoFrames.length, frames);
    assert.equal(applied(session, 'h').how, 'held');
    simulation.request(session, 'r', { request: 'release' });
    await simulation.run(500);
    assert.equal(applied(session, 'r').how, 'released');
    const [last, next] = session.videoFrames.slice(frames - 1, frames + 1);
    assert.equal(next!.start90k, last!.end90k);
    assert.equal(next!.epoch, 0);
    assert.ok(session.videoFrames.length >= frames + 4);
    assert.equal(session.answers.get('h')!.length, 1);
    await nextTurnWorks(stage);
  });

  it('an interrupt makes one of it, at what was seen; a release that comes late sets nothing free', async () => {
    const stage = await flowing();
    const { simulation, session, begun } = stage;
    simulation.request(session, 'h', { request: 'hold' });
    await simulation.run(600);
    const seen = session.held90k;
    simulation.request(session, 'i', { request: 'interrupt' });
    simulation.request(session, 'r', { request: 'release' });
    begun.length = 0;
    await simulation.run(HOLD_LIMIT_MS + 500);
    assert.equal(applied(session, 'i').media90k, seen);
    assert.equal(session.committed90k, seen);
    assert.equal(begun.length, 0, 'interrupted is interrupted');
    assert.equal(simulation.messages.filter(({ type }) => type === 'hold.expired').length, 0);
    await nextTurnWorks(stage);
  });

  it('nobody says anything: it ends by itself after its limit, says so once, and the story goes on', async () => {
    const stage = await flowing();
    const { simulation, session, begun } = stage;
    simulation.request(session, 'h', { request: 'hold' });
    await simulation.run(1_000);
    simulation.request(session, 'h2', { request: 'hold' });
    await simulation.run(HOLD_LIMIT_MS - 1_005);
    begun.length = 0;
    await simulation.run(400);
    assert.ok(begun.length > 4, 'units begin again');
    assert.deepEqual(simulation.messages.filter(({ type }) => type === 'hold.expired'), [{ type: 'hold.expired', sessionId: 's', requestId: 'h' }]);
    await nextTurnWorks(stage);
  });

  it('whatever was asked for before it waits with everything else, and a blend asked for in it begins after it', async () => {
    const stage = await flowing();
    const { simulation, session, begun } = stage;
    simulation.request(session, 'd', { request: 'redirect', prompt: 'scene 3', seamless: true });
    simulation.request(session, 'h', { request: 'hold' });
    simulation.request(session, 'b', { request: 'blend', prompt: 'scene 4', chunks: 2 });
    await simulation.run(20);
    begun.length = 0;
    await simulation.run(1_000);
    assert.equal(begun.length, 0);
    assert.deepEqual(session.answers.get('d')?.map(({ type }) => type), ['request.superseded']);
    assert.deepEqual(session.answers.get('b'), []);
    simulation.request(session, 'r', { request: 'release' });
    await simulation.run(800);
    assert.equal(applied(session, 'b').how, 'blend');
    await nextTurnWorks(stage);
  });

  it('in a pause it changes nothing', async () => {
    const stage = await flowing();
    const { simulation, session, begun } = stage;
    simulation.request(session, 'p', { request: 'pause' });
    simulation.request(session, 'h', { request: 'hold' });
    simulation.request(session, 'r', { request: 'release' });
    await simulation.run(20);
    begun.length = 0;
    await simulation.run(500);
    assert.equal(begun.length, 0, 'paused still');
    simulation.request(session, 'g', { request: 'resume' });
    await simulation.run(500);
    assert.ok(begun.length > 0);
    await nextTurnWorks(stage);
  });
});

describe('cut', () => {
  it('fences, begins a new shot from the start bank with an empty window, and keeps the plan that words change', async () => {
    const stage = await flowing();
    const { simulation, session, begun } = stage;
    const seen = session.held90k;
    assert.ok(windowBlocks(ofKind(await snapshot(stage), 'diffusion_step').at(-1)!) >= 5, 'there was a past');
    begun.length = 0;
    simulation.request(session, 'c', { request: 'cut', prompt: 'scene 4' });
    const { epoch } = session.words;
    await simulation.run(800);
    const answer = applied(session, 'c');
    assert.equal(answer.how, 'cut');
    assert.ok(answer.media90k >= seen && answer.media90k <= seen + 7500 * 4);
    assert.ok(answer.predictedMs !== null && answer.predictedMs > 0);
    const mine = session.videoFrames.filter((frame) => frame.epoch === epoch);
    assert.equal(mine[0]!.origin, 'seed');
    assert.equal(mine[0]!.start90k, answer.media90k);
    assert.deepEqual(mine[0]!.events.started, ['c']);
    assert.equal(begun.filter(({ plan }) => plan.component === 'start_bank').length, 1);
    const after = ofKind(begun, 'diffusion_step').filter((unit) => unit.epoch === epoch);
    assert.equal(windowBlocks(after[0]!), 1, 'all that the first made chunk sees is the start chunk');
    assert.equal(session.texts.findLast(({ stream }) => stream === 'plan')?.text, 'scene 4');
    await nextTurnWorks(stage);
  });

  it('is a cut still when its fence is followed by one of nobody’s, and after a failed step', async () => {
    for (const trouble of ['adopt', 'nonsense'] as const) {
      const stage = await flowing();
      const { simulation, session } = stage;
      simulation.request(session, 'c', { request: 'cut', prompt: 'scene 4' });
      await simulation.run(8); // its scene is known, nothing of it is shown
      simulation.request(session, 'x', trouble === 'adopt' ? { request: 'adopt' } : { request: 'redirect', prompt: 'mumble', seamless: true });
      await simulation.run(600);
      const [answer] = session.answers.get('c')!;
      if (answer?.type === 'request.applied') assert.equal(answer.how, 'cut');
      else assert.equal(answer?.type, 'request.superseded');
      await nextTurnWorks(stage);
    }
  });

  it('the newest wish counts: of redirect, cut and blend the older is told superseded, and an interrupt voids it', async () => {
    const stage = await flowing();
    const { simulation, session } = stage;
    simulation.request(session, 'a', { request: 'cut', prompt: 'scene 2' });
    simulation.request(session, 'b', { request: 'blend', prompt: 'scene 3', chunks: 3 });
    simulation.request(session, 'c', { request: 'cut', prompt: 'scene 4' });
    simulation.request(session, 'i', { request: 'interrupt' });
    await simulation.run(400);
    assert.deepEqual(['a', 'b', 'c'].map((id) => session.answers.get(id)!.map((answer) => (answer.type === 'request.superseded' ? answer.by : answer.type))), [['b'], ['c'], ['i']]);
    assert.equal(applied(session, 'i').how, 'interrupted');
    await nextTurnWorks(stage);
  });
});

describe('blend', () => {
  it('goes over by degrees: applied with the first chunk that differs, completed with the last, without a fence', async () => {
    const stage = await flowing();
    const { simulation, session, begun } = stage;
    const frames = session.videoFrames.length;
    simulation.request(session, 'b', { request: 'blend', prompt: 'scene 4', chunks: 4 });
    await simulation.run(1_600);
    const answer = applied(session, 'b');
    assert.equal(answer.how, 'blend');
    assert.ok(answer.predictedMs !== null && answer.predictedMs > 0);
    const firstSteps = ofKind(begun, 'diffusion_step').filter(({ plan }) => plan.step === 0);
    const byChunk = firstSteps.filter(({ plan }) => (plan.state as { chunk: number }).chunk >= answer.chunk).map(({ plan }) => weights(plan.inputs['tk']!));
    assert.deepEqual(byChunk.slice(0, 5), [[0.25, 0.75], [0.5, 0.5], [0.75, 0.25], [1], [1]], 'of the new scene and of the old');
    const writes = ofKind(begun, 'kv_write').filter(({ plan }) => (plan.state as { chunk: number }).chunk === answer.chunk + 1);
    assert.deepEqual(writes.map(({ plan }) => weights(plan.inputs['tv']!)), [[0.5, 0.5]], 'a chunk is remembered under what it was made under');
    const completed = simulation.messages.filter((message) => message.type === 'request.completed');
    assert.deepEqual(completed.map(({ requestId, chunk, media90k }) => [requestId, chunk, media90k]), [['b', answer.chunk + 3, answer.media90k + 3 * 2 * 7500]]);
    const events = session.videoFrames.filter(({ frameInChunk, chunk }) => frameInChunk === 0 && chunk >= answer.chunk).slice(0, 5).map(({ events }) => events);
    assert.deepEqual(events.map(({ started, active }) => [started, active]), [[['b'], ['b']], [[], ['b']], [[], ['b']], [[], ['b']], [[], ['b']]]);
    assert.ok(session.videoFrames.slice(frames).every(({ epoch }) => epoch === 0));
    assert.equal(session.recalls, 0, 'nothing that was made is thrown away');
    await nextTurnWorks(stage);
  });

  it('names both of two requests while one goes over into the other', async () => {
    const stage = await flowing();
    const { simulation, session } = stage;
    simulation.request(session, 'a', { request: 'redirect', prompt: 'scene 2', seamless: false });
    await simulation.run(600);
    simulation.request(session, 'b', { request: 'blend', prompt: 'scene 4', chunks: 3 });
    await simulation.run(1_200);
    const { chunk } = applied(session, 'b');
    const events = [0, 1, 2, 3].map((after) => session.videoFrames.find((frame) => frame.chunk === chunk + after && frame.frameInChunk === 0)!.events);
    assert.deepEqual(events, [
      { started: ['b'], active: ['a', 'b'], completed: [] },
      { started: [], active: ['a', 'b'], completed: [] },
      { started: [], active: ['b'], completed: ['a'] },
      { started: [], active: ['b'], completed: [] },
    ]);
    await nextTurnWorks(stage);
  });

  it('a chunk that is made again after an interrupt is blended as it was, and the blend goes on from there', async () => {
    const stage = await flowing();
    const { simulation, session, begun } = stage;
    simulation.request(session, 'b', { request: 'blend', prompt: 'scene 4', chunks: 8 });
    await simulation.run(900);
    const { chunk } = applied(session, 'b');
    simulation.request(session, 'i', { request: 'interrupt' });
    simulation.request(session, 'g', { request: 'resume' });
    await simulation.run(1_500);
    const shares = new Map<number, Set<string>>();
    for (const { plan } of ofKind(begun, 'diffusion_step')) {
      const at = (plan.state as { chunk: number }).chunk - chunk;
      if (at >= 0 && at < 10) shares.set(at, (shares.get(at) ?? new Set()).add(String(weights(plan.inputs['tk']!))));
    }
    assert.deepEqual([...shares.values()].map((of) => [...of]), [1, 2, 3, 4, 5, 6, 7].map((part) => [`${part / 8},${(8 - part) / 8}`]).concat([['1'], ['1'], ['1']]));
    assert.equal(simulation.messages.filter(({ type }) => type === 'request.completed').length, 1);
    await nextTurnWorks(stage);
  });

  it('one over another goes on from what is shown: shares are always a whole', async () => {
    const stage = await flowing();
    const { simulation, session, begun } = stage;
    for (const [index, chunks] of [12, 12, 12, 12, 12].entries()) {
      simulation.request(session, `b${index}`, { request: 'blend', prompt: `scene ${index + 2}`, chunks });
      await simulation.run(700);
    }
    await simulation.run(2_500);
    let most = 0;
    for (const { plan } of ofKind(begun, 'diffusion_step')) {
      const shares = weights(plan.inputs['tk']!);
      most = Math.max(most, shares.length);
      assert.ok(Math.abs(shares.reduce((sum, weight) => sum + weight, 0) - 1) < 0.01 && shares.every((weight) => weight > 0), String(shares));
    }
    assert.equal(most, 4, 'no more scenes than can be told apart');
    assert.deepEqual(weights(ofKind(begun, 'diffusion_step').at(-1)!.plan.inputs['tk']!), [1]);
    await nextTurnWorks(stage);
  });
});

/** Units of the next moment. */
async function snapshot({ simulation, begun }: Stage): Promise<readonly PlannedUnit[]> {
  await simulation.run(300);
  return [...begun];
}
