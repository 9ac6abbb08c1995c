import type { KeptChunk } from '../../src/streams/storage_messages.ts';
import { latents } from '../storage/storage_rig.ts';

export const FRAME_90K = 7_500;

export interface ChunkChange {
  readonly plan?: Readonly<Record<string, number>>;
  readonly weightsVersion?: string;
  readonly adapter?: { readonly id: string; readonly scale: number; readonly version: string } | null;
  /** Frames of it that were seen before it was made. */
  readonly pinnedFrames?: number;
  readonly started?: readonly string[];
  readonly frames?: number;
}

/** A chunk as the engine keeps it, of a model whose latents are two by two. */
export function madeChunk(chunk: number, { plan = { place: 1 }, weightsVersion = 'w1', adapter = null, pinnedFrames = 0, started = [], frames = 2 }: ChunkChange = {}): KeptChunk {
  const under = { lineage: 0, conditioningVersion: 2, actionSequence: 40 + chunk, steer: -1, speed: 2, plan, adapter };
  const seen = { ...under, plan: { place: 0 }, conditioningVersion: 1, adapter: null };
  const record = (index: number) => ({ lineage: 0, conditioningVersion: index < pinnedFrames ? 1 : 2, actionSequence: 40 + chunk, started: index === pinnedFrames ? started : [], active: ['r1'], completed: [], under: index < pinnedFrames ? seen : under });
  const data = { scene: { plan }, steps: [under], pinnedFrames, seeded: false, frames: Array.from({ length: frames }, (_, index) => record(index)), origin: { weightsVersion, machine: 'machine a', epochs: Array.from({ length: frames }, (_, index) => (index < pinnedFrames ? 0 : 1)) } };
  const tensor = (name: string, seed: number) => ({ name, dims: [2, 2], data: latents(seed, 4).buffer });
  return {
    chunk,
    start90k: chunk * 2 * FRAME_90K,
    end90k: (chunk * 2 + frames) * FRAME_90K,
    epoch: 1,
    conditioningVersion: 2,
    data: JSON.stringify(data),
    tensors: [tensor('latents', chunk), ...(pinnedFrames > 0 ? [tensor('pin', 100 + chunk)] : [])],
  };
}
