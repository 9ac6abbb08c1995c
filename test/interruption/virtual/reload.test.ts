/** Weights that are replaced while sessions go on, where timing is exact: who switches when, and what is refused. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { PreparedWeights } from '../../../src/engine/workers/Worker.ts';
import { SegueError } from '../../../src/protocol/errors.ts';
import { Simulation } from './Simulation.ts';
import type { SimulatedSession } from './SimulatedSession.ts';

function loads(weightsVersion: string, ready = true) {
  const did = { taken: 0, discarded: 0 };
  const prepared: PreparedWeights = { weightsVersion, ready: () => ready, take: () => void did.taken++, discard: async () => void did.discarded++ };
  return { prepared, did };
}

const reloaded = (simulation: Simulation) => simulation.messages.flatMap((message) => (message.type === 'model.reloaded' ? [message] : []));
const reload = (simulation: Simulation, request = 1) => simulation.core.receive({ type: 'model.reload', request });

/** Weights of each chunk that went out; a chunk has one, or it was made around frames of before. */
function weightsOf({ sent }: SimulatedSession): string[][] {
  const chunks = new Map<number, string[]>();
  for (const { chunk, weightsVersion } of sent) chunks.set(chunk, [...new Set([...(chunks.get(chunk) ?? []), weightsVersion])]);
  return [...chunks.values()];
}

describe('a reload of the model', () => {
  it('takes force for each session between two chunks, without a late frame', async () => {
    const { prepared, did } = loads('scripted-2');
    const simulation = new Simulation({ prepareWeights: async () => [prepared] });
    const opened = [1, 2, 3].map((seed) => simulation.open(`s${seed}`, 'scene 1', seed));
    await simulation.run(3_000);
    const before = opened.map(({ late }) => late);
    reload(simulation);
    await simulation.run(3_000);
    const [answer] = reloaded(simulation);
    assert.deepEqual([answer?.request, answer?.reloaded?.weightsVersion, answer?.reloaded?.previous, answer?.reloaded?.sessions, did.taken], [1, 'scripted-2', 'scripted', 3, 1]);
    assert.ok(answer!.reloaded!.heldMs <= 120, `held for ${answer!.reloaded!.heldMs} ms`);
    assert.deepEqual(opened.map(({ late }) => late), before);
    for (const session of opened) {
      const weights = weightsOf(session);
      assert.ok(weights.every(({ length }) => length === 1), 'no chunk of both');
      const at = weights.findIndex(([one]) => one === 'scripted-2');
      assert.ok(at > 0 && weights.slice(at).every(([one]) => one === 'scripted-2'));
      const kept = simulation.kept.get(session.sessionId)!.chunks.map(({ data }) => (JSON.parse(data) as { origin: { weightsVersion: string } }).origin.weightsVersion);
      assert.deepEqual([...new Set(kept)], ['scripted', 'scripted-2'], 'each chunk tells what made it, whenever it was committed');
    }
    await simulation.finish();
  });

  it('does not wait for who is paused in a chunk: the chunk is given up, and the story goes on behind what was seen', async () => {
    const { prepared } = loads('scripted-2');
    const simulation = new Simulation({ prepareWeights: async () => [prepared] });
    const session = simulation.open('s', 'scene 1', 1);
    const other = simulation.open('o', 'scene 2', 2);
    await simulation.run(2_005);
    simulation.request(session, 'p', { request: 'pause' });
    await simulation.run(50);
    reload(simulation);
    await simulation.run(500);
    assert.equal(reloaded(simulation)[0]?.reloaded?.sessions, 2);
    simulation.request(session, 'r', { request: 'resume' });
    await simulation.run(2_000);
    assert.equal(session.sent.at(-1)!.weightsVersion, 'scripted-2');
    assert.equal(other.sent.at(-1)!.weightsVersion, 'scripted-2');
    await simulation.finish();
  });

  it('is refused with the reason where the directory can not be used, and the older weights serve on', async () => {
    const simulation = new Simulation({ prepareWeights: () => Promise.reject(new SegueError('model_not_usable', 'weights/a.onnx is damaged')) });
    const session = simulation.open('s', 'scene 1', 1);
    await simulation.run(1_000);
    reload(simulation);
    await simulation.run(1_000);
    const [answer] = reloaded(simulation);
    assert.deepEqual([answer?.reloaded, answer?.error?.code, answer?.error?.message], [undefined, 'model_not_usable', 'weights/a.onnx is damaged']);
    assert.equal(session.sent.at(-1)!.weightsVersion, 'scripted');
    await simulation.finish();
  });

  it('changes nothing where an executor is lost before it could take over', async () => {
    const { prepared, did } = loads('scripted-2', false);
    const simulation = new Simulation({ prepareWeights: async () => [prepared] });
    const session = simulation.open('s', 'scene 1', 1);
    await simulation.run(1_000);
    reload(simulation);
    await simulation.run(1_500);
    assert.deepEqual([reloaded(simulation)[0]?.error?.code, did], ['engine_unavailable', { taken: 0, discarded: 1 }]);
    assert.equal(session.sent.at(-1)!.weightsVersion, 'scripted');
    const frames = session.sent.length;
    await simulation.run(1_000);
    assert.ok(session.sent.length > frames + 8, 'it flows');
    await simulation.finish();
  });

  it('says so where nothing has changed, and takes one at a time', async () => {
    let done = (_: null): void => undefined;
    const simulation = new Simulation({ prepareWeights: () => new Promise((resolve) => (done = resolve)) });
    reload(simulation, 1);
    reload(simulation, 2);
    assert.deepEqual(reloaded(simulation).map(({ request, error }) => [request, error?.code]), [[2, 'conflict']]);
    done(null);
    await simulation.run(10);
    assert.deepEqual(reloaded(simulation)[1], { type: 'model.reloaded', request: 1, reloaded: { weightsVersion: 'scripted', previous: 'scripted', sessions: 0, heldMs: 0 } });
    await simulation.finish();
  });

  it('gives up the chunk of who can not finish it', async () => {
    const { prepared } = loads('scripted-2');
    let slow = false;
    const simulation = new Simulation({ prepareWeights: async () => [prepared], outcome: (batch, deviceMs) => ({ deviceMs: slow && batch.component === 'vae_decode' ? 1_400 : deviceMs, answer: 'ok' }) });
    const session = simulation.open('s', 'scene 1', 1);
    await simulation.run(2_000);
    slow = true;
    await simulation.run(400);
    reload(simulation);
    await simulation.run(3_000);
    slow = false;
    assert.equal(reloaded(simulation)[0]?.reloaded?.weightsVersion, 'scripted-2');
    await simulation.run(3_000);
    assert.equal(session.sent.at(-1)!.weightsVersion, 'scripted-2');
    await simulation.finish();
  });
});
