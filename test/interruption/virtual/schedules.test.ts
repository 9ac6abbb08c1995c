import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';

const NUM_RUNS = Number(process.env['SEGUE_SCHEDULES'] ?? 10_000);
/** As many as the smallest machine that runs the tests has cores. Threads of their own: the test runner tracks every promise of its thread, which costs more than the simulation. */
const NUM_THREADS = 2;

test(`${NUM_RUNS} random schedules keep every promise`, async (t) => {
  const begunMs = performance.now();
  const seed = Number(process.env['SEGUE_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
  t.diagnostic(`seed ${seed} (repeat with SEGUE_SEED)`);
  const failures = await Promise.all(Array.from({ length: NUM_THREADS }, (_, index) => run(Math.ceil(NUM_RUNS / NUM_THREADS), seed + index)));
  t.diagnostic(`${((performance.now() - begunMs) / 1000).toFixed(1)} s`);
  for (const failure of failures) assert.equal(failure, null, failure ?? '');
});

function run(numRuns: number, seed: number): Promise<string | null> {
  return new Promise((resolve, reject) => {
    const thread = new Worker(new URL('./schedules_thread.ts', import.meta.url), { workerData: { numRuns, seed } });
    thread.once('message', resolve);
    thread.once('error', reject);
  });
}
