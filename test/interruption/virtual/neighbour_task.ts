import type { EngineOptions } from '../../../src/engine/runtime/engine_options.ts';

/** How often, and how long, somebody asks for something else. */
export const PER_SECOND = 20;
export const SECONDS = 60;

export interface NeighbourTask {
  /** How many times faster than the measured costs the device is. */
  readonly speed: number;
  readonly engine: Partial<EngineOptions>;
  /** Units take up to this share longer than predicted. */
  readonly unevenness: number;
  /** {@link PER_SECOND}, where it is left out. */
  readonly perSecond?: number;
  /** Kinds of restlessness whose names begin so; all, where it is left out. */
  readonly only?: string;
}

export interface NeighbourOutcome {
  readonly sessions: number;
  /** Pictures of each neighbour that came after they were due, and those that went out. */
  readonly late: readonly number[];
  readonly sent: readonly number[];
}
