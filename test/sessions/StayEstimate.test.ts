import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { StayEstimate } from '../../src/sessions/StayEstimate.ts';
import { seededRandom } from '../interruption/seeded_random.ts';

const stay = (ageMs: number, endsInMs = Infinity) => ({ ageMs, endsInMs });

describe('how long until a place is free', () => {
  it('is not known while no session has ended and none must', () => {
    assert.equal(new StayEstimate().waitMs(1, [stay(10_000), stay(0)]), null);
  });

  it('is at most what the limits of those who are there leave, in order', () => {
    const stays = [stay(0, 9_000), stay(0, 4_000), stay(0)];
    const estimate = new StayEstimate();
    assert.deepEqual([1, 2, 3].map((position) => estimate.waitMs(position, stays)), [4_000, 9_000, null]);
  });

  it('follows from how long others lasted, and those that are still there count', () => {
    const estimate = new StayEstimate();
    for (const lastedMs of [60_000, 120_000]) estimate.ended(lastedMs);
    assert.equal(estimate.waitMs(1, [stay(0), stay(0), stay(0)]), 30_000);
    assert.equal(estimate.waitMs(2, [stay(0), stay(0), stay(0)]), 60_000);
    assert.equal(estimate.waitMs(1, [stay(240_000)]), 210_000, 'who stays on and on says that stays are long');
  });

  it('where nobody is there, it is now', () => {
    assert.equal(new StayEstimate().waitMs(3, []), 0);
  });

  it('is right on average: 3 places, stays of 100 s on average', () => {
    const random = seededRandom(3);
    const draw = (): number => -100_000 * Math.log(1 - random());
    const estimate = new StayEstimate();
    let nowMs = 0;
    const ends = [0, 0, 0].map(() => ({ from: 0, until: draw() }));
    let predicted = 0;
    let waited = 0;
    for (let round = 0; round < 2_000; round++) {
      const waitMs = estimate.waitMs(1, ends.map(({ from }) => stay(nowMs - from)));
      const next = ends.reduce((first, one) => (one.until < first.until ? one : first));
      if (waitMs !== null) {
        predicted += waitMs;
        waited += next.until - nowMs;
      }
      nowMs = next.until;
      estimate.ended(next.until - next.from);
      Object.assign(next, { from: nowMs, until: nowMs + draw() });
    }
    assert.ok(Math.abs(predicted / waited - 1) < 0.1, `${predicted / waited}`);
  });
});
