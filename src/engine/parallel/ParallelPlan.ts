import { createHash } from 'node:crypto';

/** Named axes, in the order of the reference. An axis of degree 1 exists too, so that nothing needs a special case for it. */
export const PARALLEL_AXES = ['dp', 'tp', 'sp', 'cp', 'cfgp', 'pp', 'vae', 'ep', 'fsdp', 'role', 'replica'] as const;
export type ParallelAxis = (typeof PARALLEL_AXES)[number];

/** How one model instance is spread over devices. */
export interface ParallelPlan {
  readonly axes: Readonly<Record<ParallelAxis, number>>;
}

/** @throws {TypeError} for degrees that aren't whole and positive, or whose product (without replicas) isn't the world size. */
export function parallelPlan(degrees: Readonly<Partial<Record<ParallelAxis, number>>>, worldSize: number): ParallelPlan {
  const axes = Object.fromEntries(PARALLEL_AXES.map((axis) => [axis, degrees[axis] ?? 1])) as Record<ParallelAxis, number>;
  for (const axis of PARALLEL_AXES) {
    if (!Number.isInteger(axes[axis]) || axes[axis] < 1) throw new TypeError(`parallel axis ${axis} must be a whole number ≥ 1, got ${axes[axis]}`);
  }
  const product = PARALLEL_AXES.filter((axis) => axis !== 'replica').reduce((size, axis) => size * axes[axis], 1);
  if (product !== worldSize) throw new TypeError(`axes ${JSON.stringify(axes)} cover ${product} devices, the instance has ${worldSize}`);
  return { axes };
}

/** Part of every cache key: the same tensor laid out for another plan is another value. */
export function hashParallelPlan(plan: ParallelPlan): string {
  return createHash('sha256').update(PARALLEL_AXES.map((axis) => `${axis}:${plan.axes[axis]}`).join(',')).digest('hex').slice(0, 16);
}
