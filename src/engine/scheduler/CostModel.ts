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
  readonly p50Ms: number;
  readonly p95Ms: number;
}

/**
 * Predicted device milliseconds of one batch, by component, shape and batch size: the one currency of the scheduler.
 * It starts from what the worker measured at load and follows what units really take.
 */
export class CostModel {
  readonly modelId: string;
  readonly #estimates = new Map<string, Map<number, Estimate>>();
  readonly #shapesOf = new Map<string, Set<string>>();

  constructor(modelId: string, measured: readonly MeasuredCost[]) {
    this.modelId = modelId;
    for (const entry of measured) this.#add(entry);
  }

  /** Milliseconds of one batch. Sizes that weren't measured are taken in proportion to the nearest that was: never cheaper than linear says. */
  predict(component: string, shapeKey: string, batch = 1): number {
    const sizes = this.#estimates.get(keyOf(component, shapeKey));
    if (sizes === undefined) return this.component(component) * batch;
    const exact = sizes.get(batch);
    if (exact !== undefined) return exact.ms;
    let nearest = 0;
    for (const size of sizes.keys()) if (nearest === 0 || Math.abs(size - batch) < Math.abs(nearest - batch)) nearest = size;
    return (sizes.get(nearest)!.ms * batch) / nearest;
  }

  /** Milliseconds of one unit of a component alone, the costliest of its shapes; {@link UNMEASURED_MS} where nothing is known. */
  component(component: string): number {
    return this.#worst(component, (shapeKey) => this.predict(component, shapeKey, 1));
  }

  /** Longest unit among components: it can't be pre-empted, so everybody may have to wait for it. */
  longest(components: readonly string[]): number {
    return Math.max(0, ...components.map((component) => this.component(component)));
  }

  /** Feeds back what a batch took. Values that can't be times are ignored. */
  observe(component: string, shapeKey: string, batch: number, deviceMs: number): void {
    if (!Number.isFinite(deviceMs) || deviceMs <= 0) return;
    const estimate = this.#estimates.get(keyOf(component, shapeKey))?.get(batch);
    if (estimate === undefined) {
      this.#add({ component, shapeKey, batch, p50Ms: deviceMs, p95Ms: deviceMs });
      return;
    }
    estimate.ms = Math.max(estimate.floorMs, estimate.ms + DECAY * (deviceMs - estimate.ms));
  }

  /** Current estimates, in the form they were measured in; p50 is the running one. */
  entries(): MeasuredCost[] {
    return [...this.#estimates].flatMap(([key, sizes]) => {
      const [component, shapeKey] = key.split('\0') as [string, string];
      return [...sizes].map(([batch, { ms, p95Ms }]) => ({ component, shapeKey, batch, p50Ms: ms, p95Ms: Math.max(ms, p95Ms) }));
    });
  }

  #add({ component, shapeKey, batch, p50Ms, p95Ms }: MeasuredCost): void {
    const key = keyOf(component, shapeKey);
    const sizes = this.#estimates.get(key) ?? new Map<number, Estimate>();
    this.#estimates.set(key, sizes.set(batch, { ms: p50Ms, floorMs: p50Ms * FLOOR, p50Ms, p95Ms }));
    this.#shapesOf.set(component, (this.#shapesOf.get(component) ?? new Set()).add(shapeKey));
  }

  #worst(component: string, of: (shapeKey: string) => number): number {
    const shapes = this.#shapesOf.get(component);
    if (shapes === undefined) return UNMEASURED_MS;
    let worst = 0;
    for (const shapeKey of shapes) worst = Math.max(worst, of(shapeKey));
    return worst;
  }
}

/** Weight of the newest observation: about 16 units of memory, a second of one session. */
const DECAY = 1 / 16;
/** An estimate never falls under half of what was measured at load: a few garbled timings must not promise the impossible. */
const FLOOR = 0.5;
/** What a unit of unknown cost is taken for: the upper end of what a unit should aim at. */
export const UNMEASURED_MS = 40;

function keyOf(component: string, shapeKey: string): string {
  return `${component}\0${shapeKey}`;
}
