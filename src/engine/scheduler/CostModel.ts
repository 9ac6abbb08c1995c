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
  /** Running low quantile, ms: what the batch takes when nothing disturbs it. */
  undisturbedMs: number;
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
  readonly #single = new Map<string, { readonly ms: number; readonly undisturbedMs: number }>();

  constructor(modelId: string, measured: readonly MeasuredCost[]) {
    this.modelId = modelId;
    for (const entry of measured) this.#add(entry);
  }

  /** Milliseconds of one batch. Sizes that weren't measured are taken in proportion to the nearest that was: never cheaper than linear says. */
  predict(component: string, shapeKey: string, batch = 1): number {
    const sizes = this.#estimates.get(component)?.get(shapeKey);
    return sizes === undefined ? this.component(component) * batch : scaled(sizes, batch, ({ ms }) => ms);
  }

  /** Milliseconds of one unit of a component alone, the costliest of its shapes; {@link UNMEASURED_MS} where nothing is known. */
  component(component: string): number {
    return this.#single.get(component)?.ms ?? UNMEASURED_MS;
  }

  /**
   * Milliseconds of one unit when nothing else wants the machine: what capacity is reckoned with. The mean would close the door whenever
   * something else was busy for a while, and nobody inside could open it again.
   */
  undisturbed(component: string): number {
    return this.#single.get(component)?.undisturbedMs ?? UNMEASURED_MS;
  }

  /** Undisturbed milliseconds of one unit of each component, as often as it is listed. */
  undisturbedSum(components: readonly string[]): number {
    return components.reduce((sum, component) => sum + this.undisturbed(component), 0);
  }

  /** Longest undisturbed unit among components: it can't be pre-empted, so everybody may have to wait for it. */
  longest(components: readonly string[]): number {
    return Math.max(0, ...components.map((component) => this.undisturbed(component)));
  }

  /** Feeds back what a batch took. Values that can't be times are ignored. */
  observe(component: string, shapeKey: string, batch: number, deviceMs: number): void {
    if (!Number.isFinite(deviceMs) || deviceMs <= 0) return;
    const estimate = this.#estimates.get(component)?.get(shapeKey)?.get(batch);
    if (estimate === undefined) return this.#add({ component, shapeKey, batch, p50Ms: deviceMs, p95Ms: deviceMs });
    estimate.ms = Math.max(estimate.floorMs, estimate.ms + DECAY * (deviceMs - estimate.ms));
    const drift = deviceMs < estimate.undisturbedMs ? -QUANTILE_STEP * (1 - UNDISTURBED) : QUANTILE_STEP * UNDISTURBED;
    estimate.undisturbedMs = Math.max(estimate.floorMs, estimate.undisturbedMs * (1 + drift));
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
    sizes.set(batch, { ms: p50Ms, undisturbedMs: p50Ms, floorMs: p50Ms * FLOOR, p95Ms });
    this.#refresh(component);
  }

  #refresh(component: string): void {
    const shapes = [...this.#estimates.get(component)!.values()];
    this.#single.set(component, {
      ms: Math.max(...shapes.map((sizes) => scaled(sizes, 1, ({ ms }) => ms))),
      undisturbedMs: Math.max(...shapes.map((sizes) => scaled(sizes, 1, ({ undisturbedMs }) => undisturbedMs))),
    });
  }
}

function scaled(sizes: ReadonlyMap<number, Estimate>, batch: number, of: (estimate: Estimate) => number): number {
  const exact = sizes.get(batch);
  if (exact !== undefined) return of(exact);
  let nearest = 0;
  for (const size of sizes.keys()) if (nearest === 0 || Math.abs(size - batch) < Math.abs(nearest - batch)) nearest = size;
  return (of(sizes.get(nearest)!) * batch) / nearest;
}

/** Weight of the newest observation: about 16 units of memory, a second of one session. */
const DECAY = 1 / 16;
/** Quantile that counts as undisturbed, and the relative step by which its estimate follows (stochastic approximation). */
const UNDISTURBED = 0.1;
const QUANTILE_STEP = 0.05;
/** An estimate never falls under half of what was measured at load: a few garbled timings must not promise the impossible. */
const FLOOR = 0.5;
/** What a unit of unknown cost is taken for: the upper end of what a unit should aim at. */
export const UNMEASURED_MS = 40;
