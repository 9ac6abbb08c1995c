import { readFileSync } from 'node:fs';
import type { ModelSpec } from '../engine/model/spec/model_spec.ts';
import { shapeKeyOf } from '../engine/model/spec/component_spec.ts';
import { SpecError } from '../engine/model/spec/spec_error.ts';
import type { CostEntry } from '../engine/workers/Worker.ts';
import type { Scenario } from './scenario.ts';

/** Joining four units costs 3.3 times one, as measured with the shipped model: for tables that tell of one unit alone. */
export function joinedMs(aloneMs: number, batch: number): number {
  return aloneMs * (batch - 0.06 * batch * (batch - 1));
}

/** Device milliseconds of a batch of each component, as a table recorded elsewhere says. */
export class UnitCosts {
  readonly #byComponent: ReadonlyMap<string, ReadonlyMap<number, number>>;

  private constructor(byComponent: ReadonlyMap<string, ReadonlyMap<number, number>>) {
    this.#byComponent = byComponent;
  }

  /** @throws {SpecError} for a card that can't be read, or a component that the table lacks or the model doesn't have. */
  static read(costs: Scenario['costs'], spec: Pick<ModelSpec, 'components'>): UnitCosts {
    const table = typeof costs === 'string' ? ofCard(costs) : new Map(Object.entries(costs).map(([component, cost]) => [component, typeof cost === 'number' ? alone(cost) : new Map(Object.entries(cost).map(([batch, ms]) => [Number(batch), ms]))]));
    const fault = (problem: string, expected: unknown, actual: unknown): SpecError => new SpecError({ file: typeof costs === 'string' ? costs : 'scenario', line: null, key: 'costs', problem, expected, actual });
    const components = Object.keys(spec.components);
    // What an adapter adds, or a recomputation, isn't planned by a scenario: it may be left out.
    const unknown = [...table.keys()].find((component) => !components.includes(component));
    if (unknown !== undefined) throw fault('cost of a component that the model lacks', components, unknown);
    for (const component of NEEDED) if (components.includes(component) && !table.has(component)) throw fault('component without a cost', component, [...table.keys()]);
    return new UnitCosts(table);
  }

  /** Between and beyond the sizes that were measured: in proportion to what one more unit cost. */
  batchMs(component: string, batch: number): number {
    const measured = this.#byComponent.get(component);
    if (measured === undefined) return 0;
    const sizes = [...measured.keys()].sort((a, b) => a - b);
    const above = sizes.findIndex((size) => size >= batch);
    const high = above < 0 ? sizes.length - 1 : above;
    if (sizes[high] === batch || high === 0) return (measured.get(sizes[high]!)! * batch) / sizes[high]!;
    const [a, b] = [sizes[high - 1]!, sizes[high]!];
    const [msA, msB] = [measured.get(a)!, measured.get(b)!];
    return msA + ((msB - msA) * (batch - a)) / (b - a);
  }

  /** As a worker reports them at load. */
  entries(spec: Pick<ModelSpec, 'components'>): CostEntry[] {
    return Object.entries(spec.components).flatMap(([component, { ...shape }]) =>
      [1, 2, 4].map((batch) => ({ component, shapeKey: shapeKeyOf(component, shape), batch, p50Ms: this.batchMs(component, batch), p95Ms: this.batchMs(component, batch) })),
    );
  }
}

const NEEDED = ['director_prefill', 'director_step', 'text_encoder', 'start_bank', 'denoise_step', 'clean_write', 'vae_decode', 'audio_synth'];

function alone(ms: number): ReadonlyMap<number, number> {
  return new Map([1, 2, 4].map((batch) => [batch, joinedMs(ms, batch)]));
}

function ofCard(path: string): Map<string, Map<number, number>> {
  const fault = (problem: string, actual: unknown, cause?: unknown): SpecError => new SpecError({ file: path, line: null, key: 'cost', problem, expected: 'a deployment card: {cost: [{component, batch, p50Ms}]}', actual }, { cause });
  let card: unknown;
  try {
    card = JSON.parse(readFileSync(path, 'utf8'));
  } catch (error) {
    throw fault('card cannot be read', error instanceof Error ? error.message : error, error);
  }
  const { cost } = card as { cost?: unknown };
  if (!Array.isArray(cost)) throw fault('no list of costs', cost);
  const table = new Map<string, Map<number, number>>();
  for (const entry of cost as readonly Partial<CostEntry>[]) {
    const { component, batch, p50Ms } = entry;
    if (typeof component !== 'string' || !Number.isInteger(batch) || typeof p50Ms !== 'number' || !(p50Ms > 0)) throw fault('an entry that is none', entry);
    const sizes = table.get(component) ?? new Map<number, number>();
    table.set(component, sizes.set(batch!, p50Ms));
  }
  return table;
}
