/** Short requests among long loops, and loops of mixed sizes: nobody waits for somebody else's whole request. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EngineOptions } from '../../../src/engine/runtime/engine_options.ts';
import { seededRandom } from '../../../src/simulation/seeded_random.ts';
import { SimulatedLoops, type LoopRequest } from './SimulatedLoops.ts';

const COMPONENTS = { token: { ms: 5, maxBatch: 1 }, denoise: { ms: 10, maxBatch: 1 }, decode: { ms: 20, maxBatch: 1 } };
type Component = keyof typeof COMPONENTS;

interface RequestClass {
  readonly component: Component;
  readonly units: number;
  /** Mean time between two of them. */
  readonly everyMs: number;
  /** It asks to be done within so many times what it takes alone. All that are open together ask for less than the whole device, as admission sees to. */
  readonly within: number;
}

const FIFO = { policy: 'chunk', chunkOrder: 'fifo' } as const satisfies Partial<EngineOptions>;
const SECONDS = 60;

/** Latency of each class at the 99th percentile, in times of what its requests take on an empty device. */
async function slowdowns(classes: Readonly<Record<string, RequestClass>>, engine: Partial<EngineOptions>): Promise<Readonly<Record<string, number>>> {
  const loops = new SimulatedLoops({ components: COMPONENTS, engine });
  const opened = new Map<string, number[]>();
  for (const [index, [name, { component, units, everyMs, within }]] of Object.entries(classes).entries()) {
    const random = seededRandom(17 + index);
    const idealMs = units * COMPONENTS[component].ms;
    const request: LoopRequest = { component, units, withinMs: within * idealMs };
    opened.set(name, []);
    for (let atMs = 0; atMs < SECONDS * 1000; atMs += everyMs * (0.5 + random())) {
      loops.clock.schedule(atMs, () => {
        opened.get(name)!.push(loops.loops.length);
        loops.open(request);
      });
    }
  }
  await loops.clock.advanceTo(SECONDS * 1000 + 60_000);
  loops.checkEmpty();
  return Object.fromEntries(
    Object.entries(classes).map(([name, { component, units }]) => {
      const latencies = opened.get(name)!.map((index) => loops.loops[index]!.endedMs! - loops.loops[index]!.arrivedMs);
      latencies.sort((a, b) => a - b);
      return [name, latencies[Math.ceil(latencies.length * 0.99) - 1]! / (units * COMPONENTS[component].ms)];
    }),
  );
}

test('short requests among long denoise loops take less than twice what they take alone, and so do the long ones; first come, first served makes the short ones wait for whole loops', async () => {
  const classes = {
    // A quarter of the device in answers of 40 ms, a quarter in loops of 1.5 s.
    short: { component: 'token', units: 8, everyMs: 160, within: 1.8 },
    long: { component: 'denoise', units: 150, everyMs: 6000, within: 3 },
  } as const;
  const ours = await slowdowns(classes, {});
  const fifo = await slowdowns(classes, FIFO);
  for (const [name, slowdown] of Object.entries(ours)) assert.ok(slowdown < 2, `${name}: ${slowdown}`);
  assert.ok(fifo['short']! > 10 * ours['short']!, `short, first come first served: ${fifo['short']}, ours ${ours['short']}`);
});

test('of loops of three sizes each takes less than twice what it takes alone', async () => {
  const classes = {
    small: { component: 'token', units: 10, everyMs: 500, within: 1.8 },
    middle: { component: 'decode', units: 20, everyMs: 4000, within: 4 },
    large: { component: 'denoise', units: 200, everyMs: 12_000, within: 8 },
  } as const;
  const ours = await slowdowns(classes, {});
  const fifo = await slowdowns(classes, FIFO);
  for (const [name, slowdown] of Object.entries(ours)) assert.ok(slowdown < 2, `${name}: ${slowdown}`);
  assert.ok(fifo['small']! > 10 * ours['small']!, `small, first come first served: ${fifo['small']}, ours ${ours['small']}`);
});
