import { loadModelSpec } from '../engine/model/spec/load_model_spec.ts';
import { VirtualClock } from '../observe/virtual_clock.ts';
import { Participant } from './Participant.ts';
import type { Scenario } from './scenario.ts';
import { seededRandom } from './seeded_random.ts';
import { SimulatedServer } from './SimulatedServer.ts';
import { latencies, REDIRECT_KINDS, rounded, SimulationTally, type Latencies, type RedirectKind } from './SimulationTally.ts';
import { UnitCosts } from './unit_costs.ts';

export interface SimulationReport {
  readonly seconds: number;
  readonly sessions: { readonly came: number; readonly admitted: number; readonly turnedAway: number; readonly waited: Latencies | null };
  /** `late`: missed their deadline; the first frame after a fence has none. */
  readonly frames: { readonly sent: number; readonly late: number; readonly worstLateMs: number };
  /** From the press to the first frame sent that shows it, by how it was asked for. */
  readonly redirects: Readonly<Record<RedirectKind | 'all', Latencies | null>>;
  readonly actions: Latencies | null;
  /** Share of the devices' time in which a batch was with them. */
  readonly utilisation: number;
  readonly units: { readonly executed: number; readonly discarded: number; readonly failed: number; readonly perBatch: number };
  /** Of the frames that each session's time had room for: what the worst got, and Jain's index over all (1: all the same share). By tenant: the mean. */
  readonly fairness: { readonly least: number | null; readonly jain: number | null; readonly byTenant: Readonly<Record<string, number>> };
  /** What went wrong, and how often. Empty in a sound run. */
  readonly failures: Readonly<Record<string, number>>;
}

export interface SimulateOptions {
  /** Told once a simulated second. */
  readonly progress?: (second: number, sessions: number) => void;
}

/**
 * Runs a scenario: the scheduler, admission, programs and kernels that serve, on a clock that jumps, with devices that only take time. The same scenario gives
 * the same report on every machine.
 *
 * @throws {SpecError} for a model or a table of costs that can't be used.
 */
export async function simulate(scenario: Scenario, { progress }: SimulateOptions = {}): Promise<SimulationReport> {
  const spec = loadModelSpec(scenario.model, { verifyChecksums: false });
  const costs = UnitCosts.read(scenario.costs, spec);
  const clock = new VirtualClock();
  const tally = new SimulationTally();
  const servers = Array.from({ length: scenario.servers }, (_, index) => new SimulatedServer({ id: `server${index}`, clock, spec, scenario, costs, normal: normalFrom(seededRandom(scenario.seed + 7919 * (index + 1))) }));
  const leastLoaded = (): SimulatedServer => servers.reduce((least, server) => (server.size < least.size ? server : least));
  const participants: Participant[] = [];
  for (const population of scenario.populations) {
    let atMs = 0;
    for (let index = 0; index < population.count; index++) {
      const number = participants.length;
      const random = seededRandom(scenario.seed * 1_000_003 + number);
      atMs += population.everySeconds === undefined ? 1000 / population.count : -Math.log(1 - random()) * population.everySeconds * 1000;
      if (atMs >= scenario.seconds * 1000) break;
      participants.push(new Participant({ id: `p${number}`, population, clock, modelId: spec.modelId, random, server: leastLoaded, tally }));
      clock.schedule(atMs, () => participants[number]!.arrive());
    }
  }
  for (let second = 1; second <= scenario.seconds; second++) {
    await clock.advanceTo(Math.min(second, scenario.seconds) * 1000);
    progress?.(second, servers.reduce((sum, { size }) => sum + size, 0));
  }
  const endMs = clock.now();
  const stats = servers.map((server) => server.stats());
  for (const participant of participants) participant.leave();
  for (const server of servers) server.close();
  const sum = (of: (one: (typeof stats)[number]) => number): number => stats.reduce((total, one) => total + of(one), 0);
  const flows = tally.viewers.flatMap((viewer) => {
    const flow = viewer.flow(endMs, spec.format.framesPerSecond);
    return flow === null ? [] : [{ tenant: viewer.tenant, flow }];
  });
  const batches = servers.reduce((count, { batches: { count: more } }) => count + more, 0);
  return {
    seconds: endMs / 1000,
    sessions: { came: participants.length, admitted: tally.admittedCount, turnedAway: tally.turnedAwayCount, waited: latencies(tally.waitsMs) },
    frames: { sent: total(tally.viewers.map(({ frames }) => frames)), late: total(tally.viewers.map(({ late }) => late)), worstLateMs: rounded(Math.max(0, ...tally.viewers.map(({ worstLateMs }) => worstLateMs))) },
    redirects: { ...(Object.fromEntries(REDIRECT_KINDS.map((kind) => [kind, tally.redirects(kind)])) as Record<RedirectKind, Latencies | null>), all: tally.allRedirects() },
    actions: tally.actions(),
    utilisation: rounded(sum(({ deviceBusyMs }) => deviceBusyMs) / (endMs * scenario.servers * scenario.devicesPerServer)),
    units: {
      executed: sum(({ unitsExecuted }) => unitsExecuted),
      discarded: sum(({ unitsDiscarded }) => unitsDiscarded),
      failed: sum(({ unitsFailed }) => unitsFailed),
      perBatch: rounded(servers.reduce((units, { batches: { units: more } }) => units + more, 0) / Math.max(1, batches)),
    },
    fairness: { ...shares(flows.map(({ flow }) => flow)), byTenant: Object.fromEntries([...new Set(flows.map(({ tenant }) => tenant))].map((tenant) => [tenant, mean(flows.filter((one) => one.tenant === tenant).map(({ flow }) => flow))])) },
    failures: Object.fromEntries(tally.failures),
  };
}

function shares(values: readonly number[]): { readonly least: number | null; readonly jain: number | null } {
  if (values.length === 0) return { least: null, jain: null };
  const squares = total(values.map((value) => value ** 2));
  return { least: rounded(Math.min(...values)), jain: squares === 0 ? null : rounded(total(values) ** 2 / (values.length * squares)) };
}

function total(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0);
}

function mean(values: readonly number[]): number {
  return rounded(total(values) / values.length);
}

/** Box–Muller. */
function normalFrom(random: () => number): () => number {
  return () => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
}
