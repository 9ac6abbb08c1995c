/**
 * What the engine itself takes of its thread: from a batch's results being there to the next batch being handed to the same device, with all that lies between (commit, planning, reservation,
 * joining, traces). On the virtual clock with devices that only take time, so nothing of a model is in it; the hop to an executor's thread and back is a figure of its own.
 *
 * `SEGUE_BENCH_N`: rounds timed at each point (10,000). `SEGUE_BENCH_UNITS`: units of the long run (10,000,000; 0: none).
 */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Worker } from 'node:worker_threads';
import { summarise } from '../probe/derive.ts';
import { Figure } from './Figure.ts';
import { LiveSessions } from './virtual/LiveSessions.ts';

const ROUNDS = Number(process.env['SEGUE_BENCH_N'] ?? 10_000);
const UNITS = Number(process.env['SEGUE_BENCH_UNITS'] ?? 10_000_000);
/** Of each point, before anything counts: what is compiled late, and sessions that open. */
const WARM_UP = 3_000;
const LONG_SESSIONS = 64;
const CHECKS = 10;
const POINTS = [
  { sessions: 1, devices: 1 },
  { sessions: 64, devices: 1 },
  { sessions: 640, devices: 10 },
  { sessions: 10_000, devices: 157 },
  { sessions: 1_000, devices: 1 },
  { sessions: 10_000, devices: 1 },
] as const;

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

const hop = await hops();
hop.print();

const p50: number[] = [];
for (const { sessions, devices } of POINTS) {
  const figure = new Figure({ figure: `scheduler_${sessions}_on_${devices}`, unit: 'µs p50 of a round', statistic: 'p50' });
  const { samples, units } = await rounds(sessions, devices);
  for (const sample of samples) figure.add('ours', sample);
  figure.print();
  const { p50: median, p95, p99 } = summarise(samples);
  p50.push(median);
  console.error(`${sessions} loops on ${devices}: p50 ${median.toFixed(1)} p95 ${p95.toFixed(1)} p99 ${p99.toFixed(1)} µs, ${(units / samples.length).toFixed(2)} units a round`);
}
const flat = new Figure({ figure: 'scheduler_flatness', unit: '× from the least to the greatest of the points', statistic: 'max' });
flat.add('ours', Math.max(...p50) / Math.min(...p50));
flat.print();
if (UNITS > 0) await growth();

/** Microseconds of so many rounds, and the units that they dispatched. */
async function rounds(sessions: number, devices: number): Promise<{ readonly samples: readonly number[]; readonly units: number }> {
  const samples: number[] = [];
  let units = 0;
  let seen = 0;
  const live = await LiveSessions.open({
    sessions,
    devices,
    turnedRound: (microseconds, _settled, dispatched) => {
      if (++seen <= WARM_UP) return;
      samples.push(microseconds);
      units += dispatched;
    },
  });
  // What opening them took is another question.
  seen = 0;
  units = 0;
  samples.length = 0;
  while (samples.length < ROUNDS) await live.run(10);
  live.close();
  collect();
  return { samples, units };
}

/** A message to another thread and back, of the size of a unit's. */
async function hops(): Promise<Figure> {
  const figure = new Figure({ figure: 'scheduler_hop', unit: 'µs p50 to a thread and back', statistic: 'p50' });
  const thread = new Worker(`const { parentPort } = require('node:worker_threads'); parentPort.on('message', (message) => parentPort.postMessage(message));`, { eval: true });
  const inputs = Object.fromEntries(Array.from({ length: 40 }, (_, block) => [`kv_${block}`, { kind: 'block', block }]));
  for (let index = 0; index < 3_000; index++) {
    const began = process.hrtime.bigint();
    await new Promise<void>((resolve) => {
      thread.once('message', () => resolve());
      thread.postMessage({ type: 'execute', batch: { batchId: index, units: [{ unitId: index, plan: { inputs } }] } });
    });
    if (index >= 1_000) figure.add('ours', Number(process.hrtime.bigint() - began) / 1000);
  }
  await thread.terminate();
  return figure;
}

/** Whether anything grows with what has been done: heap after a collection, and all that the engine counts, at ten moments of a long run. */
async function growth(): Promise<void> {
  const heap = new Figure({ figure: 'scheduler_heap_growth', unit: `KiB a million units, of ${UNITS} units`, statistic: 'p50' });
  const live = await LiveSessions.open({ sessions: LONG_SESSIONS, devices: 1, turnedRound: () => undefined });
  // Until as much of the past is kept as ever will be.
  await live.run(20_000);
  const points: { readonly units: number; readonly heapKiB: number; readonly blocks: number }[] = [];
  const begun = live.core.stats().unitsExecuted;
  for (let check = 0; check <= CHECKS; check++) {
    while (live.core.stats().unitsExecuted - begun < (UNITS * check) / CHECKS) await live.run(1_000);
    collect();
    points.push({ units: live.core.stats().unitsExecuted, heapKiB: process.memoryUsage().heapUsed / 1024, blocks: live.core.stats().blocksLive });
    console.error(JSON.stringify(points.at(-1)));
  }
  for (const [index, { units, heapKiB }] of points.entries()) {
    const before = points[index - 1];
    if (before !== undefined) heap.add('ours', ((heapKiB - before.heapKiB) / (units - before.units)) * 1e6, points[index]);
  }
  live.close();
  heap.print();
}
