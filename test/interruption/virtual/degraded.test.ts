import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { ChunkData } from '../../../src/realtime-programs/ContinuationKeeping.ts';
import { Simulation } from './Simulation.ts';

describe('a device that can’t hold all deadlines', () => {
  /** Load from outside: units take so many times what they were predicted to. */
  function loaded(sessions: number, reduces = true) {
    const load = { factor: 1 };
    const simulation = new Simulation({ reduces, outcome: (_, deviceMs) => ({ deviceMs: deviceMs * load.factor, answer: 'ok' }) });
    const opened = Array.from({ length: sessions }, (_, index) => simulation.open(`s${index}`, 'scene 1', index + 1));
    const levels = (sessionId = 's0') => simulation.messages.flatMap((message) => (message.type === 'session.degraded' && message.sessionId === sessionId ? [message.degraded?.level ?? 0] : []));
    const rungs = () => simulation.messages.flatMap((message) => (message.type === 'session.degraded' && message.degraded !== null ? [message.degraded.rung] : []));
    return { load, simulation, opened, levels, rungs };
  }

  it('says nothing while all is in time', async () => {
    const { simulation, levels } = loaded(3);
    await simulation.run(20_000);
    assert.deepEqual(levels(), []);
    await simulation.finish();
  });

  it('steps down rung by rung, says so, and recovers when the load is gone', async () => {
    const { load, simulation, levels, rungs } = loaded(1);
    await simulation.run(3_000);
    load.factor = 9;
    await simulation.run(20_000);
    assert.deepEqual(levels(), [1, 2, 3, 4]);
    assert.deepEqual(rungs(), ['speculation', 'look_ahead', 'steps', 'pace']);
    load.factor = 1;
    await simulation.run(60_000);
    assert.deepEqual(levels(), [1, 2, 3, 4, 3, 2, 1, 0]);
    await simulation.finish();
  });

  it('a model that declares no fewer steps has no rung of them', async () => {
    const { load, simulation, levels, rungs } = loaded(1, false);
    await simulation.run(3_000);
    load.factor = 7;
    await simulation.run(20_000);
    assert.deepEqual([levels(), rungs()], [[1, 2, 3], ['speculation', 'look_ahead', 'pace']]);
    assert.ok(chunksOf(simulation).every(({ steps }) => steps.every((step) => step.steps === undefined)));
    await simulation.finish();
  });

  // A chunk lasts 166.7 ms and takes 29.2 ms of the device, 24.2 in one step: at 6.3 times that, 184 and 152.
  it('a device that is too slow for two steps holds its deadlines in one, and makes two again when it can', async () => {
    const { load, simulation, opened, levels } = loaded(1);
    await simulation.run(3_000);
    load.factor = 6.3;
    await simulation.run(11_000);
    assert.deepEqual(levels(), [1, 2, 3], 'as far as fewer steps, and no further');
    const before = opened[0]!.late;
    await simulation.run(4_000);
    assert.equal(opened[0]!.late, before, 'nothing is late any more');
    load.factor = 1;
    await simulation.run(40_000);
    assert.deepEqual(levels(), [1, 2, 3, 2, 1, 0]);
    const made = chunksOf(simulation).filter(({ seeded }) => !seeded).map(({ steps }) => steps.length);
    const [first, last] = [made.indexOf(1), made.lastIndexOf(1)];
    assert.deepEqual([...new Set(made.slice(0, first)), ...new Set(made.slice(first, last + 1)), ...new Set(made.slice(last + 1))], [2, 1, 2], 'told by every chunk that is kept');
    await simulation.finish();
  });

  it('whoever is not late goes without nothing', async () => {
    const { simulation, levels, load } = loaded(2);
    simulation.request(simulation.sessions.get('s1')!, 'stop', { request: 'interrupt' });
    await simulation.run(1_000);
    load.factor = 7;
    await simulation.run(15_000);
    assert.ok(levels('s0').length > 0);
    assert.deepEqual(levels('s1'), []);
    await simulation.finish();
  });

  it('on the first rung nothing is made ahead', async () => {
    const { load, simulation, opened, levels } = loaded(1);
    await simulation.run(3_000);
    load.factor = 7;
    await simulation.run(2_500);
    assert.equal(levels()[0], 1);
    load.factor = 1;
    simulation.keepTraces = true;
    simulation.draft(opened[0]!, 'd', 'scene 4');
    await simulation.run(5_000);
    simulation.request(opened[0]!, 'r', { request: 'redirect', prompt: 'scene 4', seamless: false });
    await simulation.run(1_100);
    const from = simulation.messages.flatMap((message) => (message.type === 'trace' ? message.events.flatMap(({ name, args }) => (name === 'draft.promoted' ? [args?.['from']] : [])) : []));
    assert.deepEqual(from, ['words']);
    await simulation.finish();
  });

  it('on the second, chunks are begun as early as can be, and what is late gets less', async () => {
    const late = async (factor: number): Promise<number[]> => {
      const { load, simulation, opened } = loaded(3);
      await simulation.run(3_000);
      load.factor = factor;
      const counts: number[] = [];
      for (let second = 0; second < 10; second++) {
        const before = opened.reduce((sum, session) => sum + session.late, 0);
        await simulation.run(1_000);
        counts.push(opened.reduce((sum, session) => sum + session.late, 0) - before);
      }
      await simulation.finish();
      return counts;
    };
    const counts = await late(1.7);
    assert.ok(counts.slice(-3).reduce((sum, count) => sum + count, 0) <= counts.slice(0, 3).reduce((sum, count) => sum + count, 0), counts.join(', '));
  });
});

function chunksOf(simulation: Simulation, sessionId = 's0'): readonly ChunkData[] {
  return simulation.kept.get(sessionId)!.chunks.map(({ data }) => JSON.parse(data) as ChunkData);
}
