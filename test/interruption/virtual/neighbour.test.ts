/**
 * Somebody who asks for something else 20 times a second, for a minute, on a device that holds as many sessions as admission takes: what that costs comes
 * out of their own reserve, and everybody else's pictures are there when they are due.
 */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Worker } from 'node:worker_threads';
import { PER_SECOND, SECONDS, type NeighbourOutcome, type NeighbourTask } from './neighbour_task.ts';

const FRAMES_PER_SECOND = 12;
const WHOLE = { admissionBound: 1 };

describe(`a neighbour who asks for something else at ${PER_SECOND} Hz for ${SECONDS} s`, () => {
  const devices = {
    'promised whole, at the speed that was measured': { speed: 1, engine: WHOLE, unevenness: 0 },
    'promised whole, at half the speed': { speed: 0.5, engine: WHOLE, unevenness: 0 },
    'promised as by default, with units up to a fifth slower than predicted': { speed: 0.75, engine: {}, unevenness: 0.2 },
  } as const;
  for (const [name, task] of Object.entries(devices)) {
    it(`whatever it is: on a device ${name}, no deadline of anybody else is missed`, async (t) => {
      const outcomes = await play(task);
      assert.equal(outcomes.length, 16);
      t.diagnostic(`${outcomes[0]![1].sessions} sessions`);
      for (const [kind, { sessions, late, sent }] of outcomes) {
        assert.ok(sessions >= 2, 'somebody is there to be disturbed');
        assert.deepEqual(late, late.map(() => 0), kind);
        for (const frames of sent) assert.ok(Math.abs(frames - SECONDS * FRAMES_PER_SECOND) <= 1, `${kind}: ${frames} frames in ${SECONDS} s`);
      }
    });
  }

  it('slow enough for each of them to be carried out whole, rewinds cost nobody else a deadline either', async () => {
    for (const task of Object.values(devices)) {
      for (const [kind, { late }] of await play({ ...task, perSecond: 3, only: 'rewind' })) assert.deepEqual(late, late.map(() => 0), kind);
    }
  });

  it('what keeps them is the reserve: with one that never ends, somebody else is late', async () => {
    const [[, { late }]] = (await play({ speed: 0.5, engine: { ...WHOLE, redirectBudgetMs: 1e9, boostMs: 0 }, unevenness: 0, only: 'hard redirect' })) as [[string, NeighbourOutcome]];
    assert.ok(Math.max(...late) > SECONDS, `${late.join(', ')} frames late`);
  });
});

function play(task: NeighbourTask): Promise<[string, NeighbourOutcome][]> {
  return new Promise((resolve, reject) => {
    const thread = new Worker(new URL('./neighbour_thread.ts', import.meta.url), { workerData: task });
    thread.once('message', resolve);
    thread.once('error', reject);
  });
}
