/** What holds of every schedule, whatever arrives, fails, is fenced, cancelled or refused, and in whatever order. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { SimulatedOutcome } from '../../../src/engine/runtime/SimulatedWorker.ts';
import { seededRandom } from '../../../src/simulation/seeded_random.ts';
import { SimulatedLoops } from './SimulatedLoops.ts';

const COMPONENTS = { token: { ms: 2, maxBatch: 4 }, denoise: { ms: 9, maxBatch: 2 }, decode: { ms: 15, maxBatch: 1 } };

const event = fc.record({
  afterMs: fc.integer({ min: 0, max: 40 }),
  what: fc.constantFrom('open', 'open', 'open', 'fence', 'fence', 'cancel', 'hold slots'),
  component: fc.constantFrom(...Object.keys(COMPONENTS)),
  units: fc.integer({ min: 1, max: 12 }),
  withinMs: fc.constantFrom(null, 20, 200, 2000),
  which: fc.nat(50),
  /** From the word to the request for it. */
  delayMs: fc.integer({ min: 0, max: 60 }),
});
const schedule = fc.record({ seed: fc.nat(1e9), devices: fc.integer({ min: 1, max: 3 }), trouble: fc.boolean(), events: fc.array(event, { minLength: 1, maxLength: 40 }) });

type Schedule = typeof schedule extends fc.Arbitrary<infer S> ? S : never;

function outcomes(random: () => number, trouble: boolean): (predictedMs: number) => SimulatedOutcome {
  return (predictedMs) => {
    const deviceMs = predictedMs * (0.8 + 0.6 * random());
    const chance = trouble ? random() : 1;
    if (chance < 0.04) return { deviceMs, answer: 'kernel_exception' };
    if (chance < 0.07) return { deviceMs, answer: 'duplicate' };
    if (chance < 0.1) return { deviceMs, answer: 'missing' };
    if (chance < 0.11) return { deviceMs, answer: 'lost', recoveryMs: 80 };
    if (chance < 0.12) return { deviceMs, answer: 'silent', recoveryMs: 700 };
    return { deviceMs, answer: 'ok' };
  };
}

async function play({ seed, devices, trouble, events }: Schedule): Promise<void> {
  const outcome = outcomes(seededRandom(seed), trouble);
  const simulated = new SimulatedLoops({ components: COMPONENTS, devices, engine: { unitWatchdogMs: 400 }, outcome: (_, predictedMs) => outcome(predictedMs) });
  const { clock, loops } = simulated;
  const held: (() => void)[] = [];
  const advance = async (ms: number): Promise<void> => {
    for (let at = 0; at < ms; at++) {
      await clock.advanceTo(clock.now() + 1);
      simulated.checkWorkConserved();
    }
  };
  for (const { afterMs, what, component, units, withinMs, which, delayMs } of events) {
    await advance(afterMs);
    if (what === 'open') simulated.open({ component, units, withinMs, device: which % devices });
    const loop = loops.length === 0 ? undefined : loops[which % loops.length];
    if (loop === undefined || loop.closed) continue;
    if (what === 'cancel') loop.end();
    else if (what === 'fence') {
      loop.fence();
      clock.schedule(clock.now() + delayMs, () => loop.adopt());
    } else if (what === 'hold slots') {
      const slot = loop.pools.video.acquire();
      if (slot === null) continue;
      held.push(() => loop.pools.video.release(slot));
      // Media gives it back in its own time.
      clock.schedule(clock.now() + delayMs, () => loop.pools.video.release(slot));
    }
  }
  // All the work there is, one after the other, twice as long as predicted, with every device away for a while.
  const workMs = loops.reduce((sum, { request }) => sum + request.units * COMPONENTS[request.component as keyof typeof COMPONENTS].ms, 0);
  for (let waited = 0; waited < 20 && loops.some(({ closed }) => !closed); waited++) await clock.advanceTo(clock.now() + workMs + 1000);
  await clock.advanceTo(clock.now() + 2000);
  for (const release of held) release();
  for (const { closed, sessionId, commits, faults, request } of loops) {
    assert.ok(closed, `${sessionId} starved after ${commits.length} of ${request.units} units`);
    commits.forEach(({ version, epoch, word }, index) => {
      assert.equal(version, index + 1, 'steps commit in order, none twice and none left out');
      assert.equal(epoch, word, 'nothing commits under an epoch that is over');
    });
    assert.deepEqual(faults.filter(({ message }) => message.includes('reserved')), [], 'what was promised is there');
  }
  simulated.checkEmpty();
}

test('of any schedule: nothing leaks, nobody starves, nothing stale commits, steps keep their order, and no device idles while work waits', async () => {
  await fc.assert(fc.asyncProperty(schedule, play), { numRuns: Number(process.env['SEGUE_SCHEDULES'] ?? 100), seed: 20 });
});
