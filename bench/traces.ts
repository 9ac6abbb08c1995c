/**
 * `trace_summary_overhead` and `trace_full_overhead`: processor time of the engine's decisions per unit, at that level of traces against none. The engine that serves, five live sessions, on a virtual clock over a device that computes nothing:
 * so all that is measured is planning, scheduling, committing and tracing. Levels take turns in each round, and the first of each is warming up.
 *
 * `SEGUE_BENCH_ROUNDS`: rounds (12). `SEGUE_BENCH_MEDIA_MS`: media of a round (8000).
 */
import type { TraceLevel } from '../src/engine/runtime/Tracer.ts';
import { Simulation } from '../test/interruption/virtual/Simulation.ts';
import { Figure } from './Figure.ts';

const ROUNDS = Number(process.env['SEGUE_BENCH_ROUNDS'] ?? 12);
const MEDIA_MS = Number(process.env['SEGUE_BENCH_MEDIA_MS'] ?? 8_000);
const SESSIONS = ['a', 'b', 'c', 'd', 'e'];

/** Microseconds of processor time per unit. */
async function round(traces: TraceLevel): Promise<number> {
  const simulation = new Simulation({ engine: { traces } });
  for (const id of SESSIONS) simulation.open(id);
  await simulation.run(500);
  const unitsBefore = simulation.core.stats().unitsExecuted;
  const before = process.cpuUsage();
  await simulation.run(MEDIA_MS);
  const { user, system } = process.cpuUsage(before);
  const units = simulation.core.stats().unitsExecuted - unitsBefore;
  await simulation.finish();
  return (user + system) / units;
}

const figures = { summary: figureOf('summary'), full: figureOf('full') };
for (let index = 0; index <= ROUNDS; index++) {
  const times: Record<TraceLevel, number> = { off: 0, summary: 0, full: 0 };
  const order = (['off', 'summary', 'full'] as const).map((_, at, levels) => levels[(at + index) % 3]!);
  for (const level of order) times[level] = await round(level);
  if (index === 0) continue;
  for (const [level, figure] of Object.entries(figures) as ['summary' | 'full', Figure][]) {
    figure.add('ours', times[level], { round: index });
    figure.add('baseline', times.off, { round: index });
  }
}
for (const figure of Object.values(figures)) figure.print();

function figureOf(level: 'summary' | 'full'): Figure {
  return new Figure({ figure: `trace_${level}_overhead`, unit: 'µs of the engine p50 per unit', statistic: 'p50', baselineName: 'the same without traces' });
}
