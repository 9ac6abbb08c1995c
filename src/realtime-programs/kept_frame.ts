/** What is known of a frame from the chunk that it was kept in. */
import { adapterVersions, type AppliedAdapter } from '../engine/model/loop_kernel.ts';
import type { ChunkOrigin, KeptChunk, KeptTensor } from '../streams/storage_messages.ts';
import type { ChunkData } from './ContinuationKeeping.ts';
import type { ScenePlan } from './continuation_model.ts';
import type { StepRecord, WeightedPlan } from './continuation_tape.ts';

export interface KeptFrame {
  readonly frameInChunk: number;
  readonly epoch: number;
  /** Null in files of before it was kept. */
  readonly origin: ChunkOrigin | null;
  /** Of its own; null likewise. */
  readonly weightsVersion: string | null;
  readonly conditioningVersion: number;
  readonly lineage: number;
  readonly seeded: boolean;
  readonly actionSequence: number;
  /** Of the last step that its latents came of; null: they were given. */
  readonly under: StepRecord | null;
  readonly plan: ScenePlan;
  readonly mix: readonly WeightedPlan[];
  readonly adapter: AppliedAdapter | null;
  readonly started: readonly string[];
  readonly active: readonly string[];
  readonly completed: readonly string[];
  readonly latents: KeptTensor;
}

/**
 * The latents that a frame was decoded from: frames that a chunk was made around were shown before it, and come from what it was pinned to.
 * @throws {TypeError} for a chunk without them.
 */
export function latentsOfFrame({ data, tensors }: Pick<KeptChunk, 'data' | 'tensors'>, frame: number): KeptTensor {
  const name = frame < (JSON.parse(data) as ChunkData).pinnedFrames ? 'pin' : 'latents';
  const tensor = tensors.find((candidate) => candidate.name === name);
  if (tensor === undefined) throw new TypeError(`the kept chunk has no tensor ${name}`);
  return tensor;
}

/** @param frame its index in the chunk. @throws {TypeError} for a frame that isn't in it. */
export function keptFrame(chunk: KeptChunk, frame: number): KeptFrame {
  const { scene, steps, seeded, frames, ...data } = JSON.parse(chunk.data) as ChunkData & { readonly origin?: ChunkOrigin };
  const record = frames[frame];
  if (record === undefined) throw new TypeError(`chunk ${chunk.chunk} has ${frames.length} frames, not a frame ${frame}`);
  const { lineage, conditioningVersion, actionSequence, started = [], active, completed = [] } = record;
  const under = record.under === undefined ? (seeded ? null : (steps.at(-1) ?? null)) : record.under;
  return {
    frameInChunk: frame,
    epoch: data.origin?.epochs[frame] ?? chunk.epoch,
    origin: data.origin ?? null,
    weightsVersion: data.origin?.frameWeights?.[frame] ?? data.origin?.weightsVersion ?? null,
    conditioningVersion,
    lineage,
    seeded,
    actionSequence,
    under,
    plan: under?.plan ?? scene.plan,
    mix: under?.mix ?? [],
    adapter: under?.adapter ?? null,
    started,
    active,
    completed,
    latents: latentsOfFrame(chunk, frame),
  };
}

/** As media events carry them. */
export function adaptersOf({ adapter }: KeptFrame): Readonly<Record<string, string>> {
  return adapterVersions(adapter);
}
