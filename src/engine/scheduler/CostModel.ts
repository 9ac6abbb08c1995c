/** Milliseconds of one batch as a worker measured it at load. */
export interface MeasuredCost {
  readonly component: string;
  readonly shapeKey: string;
  readonly batch: number;
  readonly p50Ms: number;
  readonly p95Ms: number;
}

interface Estimate {
  /** Decayed mean, ms. */
  ms: number;
  /** Lowest value that `ms` may reach. */
  readonly floorMs: number;
  readonly p95Ms: number;
}

/**
 * Predicted device milliseconds of one batch, by component, shape and batch size: the one currency of the scheduler.
 * It starts from what the worker measured at load and follows what units really take.
 */
export class CostModel {
  readonly modelId: string;
  /** Component → shape → batch size. */
  readonly #estimates = new Map<string, Map<string, Map<number, Estimate>>>();
  /** Component → one unit of its costliest shape: read for every turn that is queued. */
  readonly #single = new Map<string, number>();

  constructor(modelId: string, measured: readonly MeasuredCost[]) {
    this.modelId = modelId;
    for (const entry of measured) this.#add(entry);
  }

  /** Milliseconds of one batch. Sizes that weren't measured are taken in proportion to the nearest that was: never cheaper than linear says. */
  predict(component: string, shapeKey: string, batch = 1): number {
    const sizes = this.#estimates.get(component)?.get(shapeKey);
    return sizes === undefined ? this.component(component) * batch : scaled(sizes, batch);
  }

  /** Milliseconds of one unit of a component alone, the costliest of its shapes; {@link UNMEASURED_MS} where nothing is known. */
  component(component: string): number {
    return this.#single.get(component) ?? UNMEASURED_MS;
  }

  /** Longest unit among components: it can't be pre-empted, so everybody may have to wait for it. */
  longest(components: readonly string[]): number {
    return Math.max(0, ...components.map((component) => this.component(component)));
  }

  /** Feeds back what a batch took. Values that can't be times are ignored. */
  observe(component: string, shapeKey: string, batch: number, deviceMs: number): void {
    if (!Number.isFinite(deviceMs) || deviceMs <= 0) return;
    const estimate = this.#estimates.get(component)?.get(shapeKey)?.get(batch);
    if (estimate === undefined) return this.#add({ component, shapeKey, batch, p50Ms: deviceMs, p95Ms: deviceMs });
    estimate.ms = Math.max(estimate.floorMs, estimate.ms + DECAY * (deviceMs - estimate.ms));
    this.#refresh(component);
  }

  /** Current estimates, in the form they were measured in; p50 is the running one. */
  entries(): MeasuredCost[] {
    return [...this.#estimates].flatMap(([component, shapes]) =>
      [...shapes].flatMap(([shapeKey, sizes]) => [...sizes].map(([batch, { ms, p95Ms }]) => ({ component, shapeKey, batch, p50Ms: ms, p95Ms: Math.max(ms, p95Ms) }))),
    );
  }

  #add({ component, shapeKey, batch, p50Ms, p95Ms }: MeasuredCost): void {
    let shapes = this.#estimates.get(component);
    if (shapes === undefined) this.#estimates.set(component, (shapes = new Map()));
    let sizes = shapes.get(shapeKey);
    if (sizes === undefined) shapes.set(shapeKey, (sizes = new Map()));
    sizes.set(batch, { ms: p50Ms, floorMs: p50Ms * FLOOR, p95Ms });
    this.#refresh(component);
  }

  #refresh(component: string): void {
    const shapes = [...this.#estimates.get(component)!.values()];
    this.#single.set(component, Math.max(...shapes.map((sizes) => scaled(sizes, 1))));
  }
}

function scaled(sizes: ReadonlyMap<number, Estimate>, batch: number): number {
  const exact = sizes.get(batch);
  if (exact !== undefined) return exact.ms;
  let nearest = 0;
  for (const size of sizes.keys()) if (nearest === 0 || Math.abs(size - batch) < Math.abs(nearest - batch)) nearest = size;
  return (sizes.get(nearest)!.ms * batch) / nearest;
}

/** Weight of the newest observation: about 16 units of memory, a second of one session. */
const DECAY = 1 / 16;
/** An estimate never falls under half of what was measured at load: a few garbled timings must not promise the impossible. */
const FLOOR = 0.5;
/** What a unit of unknown cost is taken for: the upper end of what a unit should aim at. */
export const UNMEASURED_MS = 40;
