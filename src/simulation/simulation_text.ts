import type { SimulationReport } from './simulate.ts';
import type { Latencies } from './SimulationTally.ts';

/** A report for people: a line for each thing that one wants to know. */
export function simulationText({ seconds, sessions, frames, redirects, actions, utilisation, units, fairness, failures }: SimulationReport): string {
  const lines: [string, string][] = [
    ['time', `${seconds} s simulated`],
    ['sessions', `${sessions.came} came, ${sessions.admitted} let in, ${sessions.turnedAway} turned away${sessions.waited === null || sessions.waited.max === 0 ? '' : `; waited ${sessions.waited.p95 / 1000} s at the 95th percentile`}`],
    ['frames', `${frames.sent} sent, ${frames.late} late${frames.late === 0 ? '' : ` (${percent(frames.late / frames.sent)}), at most by ${frames.worstLateMs} ms`}`],
    ['redirect, fencing', spread(redirects.hard)],
    ['redirect, seamless', spread(redirects.seamless)],
    ['redirect, typed first', spread(redirects.drafted)],
    ['action', spread(actions)],
    ['devices', `${percent(utilisation)} busy; ${units.executed} units, ${units.perBatch} a batch, ${units.discarded} discarded, ${units.failed} failed`],
    ['shares', `least ${fairness.least === null ? '–' : percent(fairness.least)} of its frames, Jain ${fairness.jain ?? '–'}; ${Object.entries(fairness.byTenant).map(([tenant, share]) => `${tenant} ${percent(share)}`).join(', ')}`],
    ...Object.entries(failures).map(([message, count]): [string, string] => ['failed', `${count} × ${message}`]),
  ];
  const width = Math.max(...lines.map(([name]) => name.length));
  return lines.map(([name, text]) => `${name.padEnd(width)}  ${text}`).join('\n');
}

function spread(latencies: Latencies | null): string {
  return latencies === null ? 'none' : `${latencies.p50} ms at the median, ${latencies.p95} at the 95th percentile, ${latencies.p99} at the 99th (${latencies.count})`;
}

function percent(share: number): string {
  return `${Number((share * 100).toFixed(2))} %`;
}
