import type { AppliedAdapter, Conditioning } from '../engine/model/loop_kernel.ts';
import type { BlockId } from '../engine/model/work.ts';
import type { CommittedStep } from '../engine/programs/RealtimeProgram.ts';
import type { ScenePlan } from './continuation_model.ts';

/** What a step ran under, without blocks: with the seed and the chunk's number, all that its noise and its inputs follow from. */
export interface StepRecord {
  readonly lineage: number;
  readonly conditioningVersion: number;
  readonly actionSequence: number;
  readonly steer: number;
  readonly speed: number;
  readonly plan: ScenePlan;
  /** Null: the model as it is. */
  readonly adapter: AppliedAdapter | null;
}

/** A frame as it went out. */
export interface FrameRecord {
  /** Of its sound's noise. */
  readonly lineage: number;
  readonly conditioningVersion: number;
  readonly actionSequence: number;
  /** Requests that it was the first, or among the frames, to show. */
  readonly active: readonly string[];
}

/** How a chunk is being made: plain data that goes along with the state. */
export interface ChunkTape {
  /** How the keys and values of the chunk before were written; null before there is one. */
  readonly write: StepRecord | null;
  readonly steps: readonly StepRecord[];
  readonly frames: readonly FrameRecord[];
}

/** A whole chunk, with the blocks that it is remembered by. */
export interface MadeChunk extends ChunkTape {
  readonly latents: BlockId;
  /** Latents whose leading frames were seen, and that it was made around. */
  readonly pin: BlockId | null;
  readonly pinnedFrames: number;
  /** From the start bank, or from a picture: not denoised. */
  readonly seeded: boolean;
}

export const EMPTY_TAPE: ChunkTape = { write: null, steps: [], frames: [] };

/** @param step of a turn whose memo is the plan that its prompt was encoded from. */
export function stepRecord({ turn, conditioning }: Pick<CommittedStep, 'turn' | 'conditioning'>): StepRecord {
  const { version, actionSequence, steer, speed, adapter = null } = conditioning;
  return { lineage: turn.lineage, conditioningVersion: version, actionSequence, steer, speed, plan: turn.memo as ScenePlan, adapter };
}

/** The same step's conditioning, once its plan has been encoded again. */
export function conditioningOf({ conditioningVersion, actionSequence, steer, speed, adapter }: StepRecord, prompt: Readonly<Record<string, BlockId>>): Conditioning {
  return { version: conditioningVersion, actionSequence, steer, speed, prompt, adapter };
}

export function samePlan(a: ScenePlan, b: ScenePlan): boolean {
  const names = Object.keys(a);
  return names.length === Object.keys(b).length && names.every((name) => a[name] === b[name]);
}
