import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { CALM_MS, DegradeLadder, DWELL_MS, MAX_CALM_MS } from '../../../src/engine/scheduler/DegradeLadder.ts';

const RUNGS = 3;

/** Pictures every 83 ms, late where `isLate` says so, and a tick a second: the changes. */
function play(forMs: number, isLate: (nowMs: number) => boolean, ladder = new DegradeLadder(RUNGS, 0), fromMs = 0) {
  const changes: { readonly atMs: number; readonly level: number; readonly from: number }[] = [];
  let tickMs = fromMs;
  for (let nowMs = fromMs; nowMs <= fromMs + forMs; nowMs += 1000 / 12) {
    const steps = [isLate(nowMs) ? ladder.late(nowMs) : null];
    if (nowMs - tickMs >= 1000) {
      tickMs = nowMs;
      steps.push(ladder.tick(nowMs));
    }
    for (const step of steps) if (step !== null) changes.push({ atMs: nowMs, level: step.level, from: step.from });
  }
  return { changes, ladder };
}

describe('the degrade ladder', () => {
  it('passes over a hiccup, goes down a rung at a time, and no further than the last', () => {
    assert.deepEqual(play(10_000, (nowMs) => nowMs > 4_000 && nowMs < 4_100).changes, []);
    const { changes, ladder } = play(20_000, () => true);
    assert.deepEqual(changes.map(({ level }) => level), [1, 2, 3]);
    assert.ok(changes[1]!.atMs - changes[0]!.atMs >= DWELL_MS);
    assert.equal(ladder.level, RUNGS);
  });

  it('goes up a rung at a time once it is calm, slower than it came down', () => {
    const { changes } = play(60_000, (nowMs) => nowMs < 10_000);
    const up = changes.filter(({ level, from }) => level < from);
    assert.deepEqual(up.map(({ level }) => level), [2, 1, 0]);
    assert.ok(up[0]!.atMs >= 10_000 + CALM_MS - 100 && up.at(-1)!.atMs < 10_000 + RUNGS * (CALM_MS + 1_100));
  });

  it('waits twice as long after each relapse, and forgets that when it was well for long', () => {
    const ladder = new DegradeLadder(RUNGS, 0);
    // Can't be held without the first rung.
    play(100_000, () => ladder.level === 0, ladder);
    assert.ok(ladder.calmMs > 2 * CALM_MS, `${ladder.calmMs}`);
    play(4 * MAX_CALM_MS, () => false, ladder, 100_100);
    assert.deepEqual([ladder.level, ladder.calmMs], [0, CALM_MS]);
  });

  it('whatever happens, it swings no faster than it may, moves by one rung, and always recovers', () => {
    const phase = fc.record({ forMs: fc.integer({ min: 50, max: 30_000 }), share: fc.constantFrom(0, 0, 0.05, 0.2, 0.5, 1), fixedBy: fc.integer({ min: 0, max: RUNGS + 1 }) });
    fc.assert(
      fc.property(fc.array(phase, { minLength: 1, maxLength: 12 }), fc.infiniteStream(fc.double({ min: 0, max: 1, noNaN: true })), (phases, random) => {
        const ladder = new DegradeLadder(RUNGS, 0);
        const changes: { atMs: number; level: number; from: number }[] = [];
        let fromMs = 0;
        for (const { forMs, share, fixedBy } of phases) {
          // From some rung on, what is gone without is enough.
          changes.push(...play(forMs, () => ladder.level < fixedBy && random.next().value < share, ladder, fromMs).changes);
          fromMs += forMs;
        }
        changes.forEach(({ level, from }) => assert.ok(level >= 0 && level <= RUNGS && Math.abs(level - from) === 1));
        changes.slice(1).forEach(({ atMs, level, from }, index) => {
          const before = changes[index]!;
          const sinceMs = atMs - before.atMs + 1e-6;
          assert.ok(sinceMs >= (level < from ? CALM_MS : before.level === 0 ? 0 : DWELL_MS), `${JSON.stringify(before)}, then ${JSON.stringify({ atMs, level, from })}`);
        });
        const swings = changes.slice(1).filter(({ level, from }, index) => level > from && changes[index]!.level < changes[index]!.from);
        assert.ok(swings.length <= 1 + fromMs / CALM_MS, 'down again only after it was calm');
        play(RUNGS * (MAX_CALM_MS + 1_100), () => false, ladder, fromMs);
        assert.equal(ladder.level, 0);
      }),
      { numRuns: 300 },
    );
  });
});
