/**
 * How many sessions one device sustains with redirects within X ms and without a missed deadline: ours, and whole chunks in order of arrival and in turns, with the same
 * batching, model, look-ahead and fence. On the virtual clock, with a table of costs recorded elsewhere: see `redirect_virtual.ts` for why.
 *
 * `SEGUE_BENCH_SECONDS`: simulated time of each point (120). `SEGUE_BENCH_COSTS`: a deployment card (`GET /v1/card`) instead of the table.
 * `SEGUE_BENCH_SPEED`: how many times faster than the table the device is (1); sessions go up by half of that.
 */
import { writeFileSync } from 'node:fs';
import type { Scenario } from '../src/simulation/scenario.ts';
import { simulate, type SimulationReport } from '../src/simulation/simulate.ts';

const SECONDS = Number(process.env['SEGUE_BENCH_SECONDS'] ?? 120);
const SPEED = Number(process.env['SEGUE_BENCH_SPEED'] ?? 1);
const STEP = Math.max(1, Math.floor(SPEED / 2));
const MODEL = new URL('../models/drive', import.meta.url).pathname;
const OUT = new URL(`../docs/benchmarks/sessions${SPEED === 1 ? '' : `_speed${SPEED}`}.json`, import.meta.url).pathname;
/** One core with AVX-512, ms of one unit alone. */
const TABLE = { director_prefill: 1.2, director_step: 0.7, text_encoder: 1, start_bank: 0.2, denoise_step: 5, clean_write: 5, vae_decode: 6, audio_synth: 0.5 };
const BOUNDS_MS = [10, 15, 20, 30, 40, 50, 60, 75, 100, 150, 200, 300, 400, 600] as const;
const POLICIES = {
  ours: {},
  fifo: { policy: 'chunk', chunkOrder: 'fifo' },
  round_robin: { policy: 'chunk', chunkOrder: 'round_robin' },
} as const satisfies Readonly<Record<string, Scenario['engine']>>;
type Policy = keyof typeof POLICIES;

interface Point {
  readonly sessions: number;
  readonly late: number;
  readonly hardP95: number;
  readonly seamlessP95: number;
  readonly utilisation: number;
}

function scenario(policy: Policy, sessions: number): Scenario {
  return {
    model: MODEL,
    costs: process.env['SEGUE_BENCH_COSTS'] ?? Object.fromEntries(Object.entries(TABLE).map(([component, ms]) => [component, ms / SPEED])),
    jitter: 0.05,
    servers: 1,
    devicesPerServer: 1,
    seconds: SECONDS,
    seed: 5,
    engine: { admissionBound: 1, speculation: false, memoryMegabytes: 512 * SPEED, ...POLICIES[policy] },
    populations: [{ tenant: 't', count: sessions, redirects: { everySeconds: 4, seamless: 0.5 }, steering: { everySeconds: 1 } }],
  };
}

async function curve(policy: Policy): Promise<readonly Point[]> {
  const points: Point[] = [];
  for (let sessions = STEP; ; sessions += STEP) {
    const report: SimulationReport = await simulate(scenario(policy, sessions));
    if (report.sessions.admitted < sessions) return points;
    const { hard, seamless } = report.redirects;
    points.push({ sessions, late: report.frames.late, hardP95: hard?.p95 ?? Infinity, seamlessP95: seamless?.p95 ?? Infinity, utilisation: report.utilisation });
  }
}

const within = (points: readonly Point[], boundMs: number, of: 'hardP95' | 'seamlessP95'): number => Math.max(0, ...points.filter((point) => point.late === 0 && point[of] <= boundMs).map(({ sessions }) => sessions));

const curves = {} as Record<Policy, readonly Point[]>;
for (const policy of Object.keys(POLICIES) as Policy[]) {
  curves[policy] = await curve(policy);
  console.log(JSON.stringify({ figure: 'sessions_points', policy, points: curves[policy] }));
}
let below = 0;
for (const side of ['hardP95', 'seamlessP95'] as const) {
  for (const boundMs of BOUNDS_MS) {
    const counts = Object.fromEntries((Object.keys(POLICIES) as Policy[]).map((policy) => [policy, within(curves[policy], boundMs, side)])) as Record<Policy, number>;
    if (counts.ours < counts.fifo || counts.ours < counts.round_robin) below++;
    console.log(JSON.stringify({ figure: 'sessions', redirect: side === 'hardP95' ? 'fencing' : 'seamless', p95WithinMs: boundMs, ...counts }));
  }
}
console.log(JSON.stringify({ figure: 'sessions_below', below }));
writeFileSync(OUT, `${JSON.stringify({ seconds: SECONDS, curves }, null, 1)}\n`);
