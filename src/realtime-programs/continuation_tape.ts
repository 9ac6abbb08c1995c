import type { AppliedAdapter, Conditioning, PromptBlocks } from '../engine/model/loop_kernel.ts';
import type { BlockId } from '../engine/model/work.ts';
import type { CommittedStep } from '../engine/programs/RealtimeProgram.ts';
import type { ScenePlan } from './continuation_model.ts';

/** A plan by its share. */
export interface WeightedPlan {
  readonly plan: ScenePlan;
  /** Above 0; those of a step together under 1, and the rest is its own plan's. */
  readonly weight: number;
}

/** Plans that a step's prompts were encoded from: what its turn remembers. */
export interface StepPlans {
  readonly plan: ScenePlan;
  /** What was left of others, in a blend; absent: nothing. */
  readonly mix?: readonly WeightedPlan[];
}

/** What a step ran under, without blocks: with the seed and the chunk's number, all that its noise and its inputs follow from. */
export interface StepRecord extends StepPlans {
  readonly lineage: number;
  readonly conditioningVersion: number;
  readonly actionSequence: number;
  readonly steer: number;
  readonly speed: number;
  /** Null: the model as it is. */
  readonly adapter: AppliedAdapter | null;
  /** Denoise steps of its chunk; absent: as the model declares. */
  readonly steps?: number;
}

/** A frame as it went out. */
export interface FrameRecord {
  /** Of its sound's noise. */
  readonly lineage: number;
  readonly conditioningVersion: number;
  readonly actionSequence: number;
  /** Requests that it was the first to show, that it shows, and whose effect ended with it. */
  readonly started?: readonly string[];
  readonly active: readonly string[];
  readonly completed?: readonly string[];
  /** The last step that its latents came of; null: they were given. Its chunk may be made again around it, under something else. */
  readonly under?: StepRecord | null;
}

/** How a chunk is being made: plain data that goes along with the state. */
export interface ChunkTape {
  /** How the keys and values of the chunk before were written; null where the story, or a cut in it, begins with this one: nothing before it is seen. */
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

/** @param step of a turn whose memo is {@link StepPlans}. */
export function stepRecord({ turn, conditioning }: Pick<CommittedStep, 'turn' | 'conditioning'>): StepRecord {
  const { version, actionSequence, steer, speed, adapter = null, steps } = conditioning;
  const { plan, mix } = turn.memo as StepPlans;
  return { lineage: turn.lineage, conditioningVersion: version, actionSequence, steer, speed, plan, ...(mix === undefined ? {} : { mix }), adapter, ...(steps === undefined ? {} : { steps }) };
}

/** The same step's conditioning, once its plans have been encoded again. */
export function conditioningOf({ conditioningVersion, actionSequence, steer, speed, plan, mix, adapter, steps }: StepRecord, encoded: (plan: ScenePlan) => PromptBlocks): Conditioning {
  const shares = mix === undefined ? {} : { mix: mix.map((share) => ({ prompt: encoded(share.plan), weight: share.weight })) };
  return { version: conditioningVersion, actionSequence, steer, speed, prompt: encoded(plan), ...shares, adapter, ...(steps === undefined ? {} : { steps }) };
}

/** Plans that are to be encoded for a step, or for a scene. */
export function plansOf({ plan, mix = [] }: StepPlans): readonly ScenePlan[] {
  return [plan, ...mix.map((share) => share.plan)];
}

export function samePlan(a: ScenePlan, b: ScenePlan): boolean {
  const names = Object.keys(a);
  return names.length === Object.keys(b).length && names.every((name) => a[name] === b[name]);
}
