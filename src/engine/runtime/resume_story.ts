import { SegueError } from '../../protocol/errors.ts';
import type { ChunkOrigin, KeptStory, KeptTensor, StoryFingerprint } from '../../streams/storage_messages.ts';
import type { MemoryTag } from '../model/work.ts';
import type { ProgramState, RealtimeProgram } from '../programs/RealtimeProgram.ts';
import type { ReadPart } from '../programs/StoryKeeping.ts';
import type { Device } from './Device.ts';
import type { WorkSource } from './WorkSource.ts';

/** A story that was kept, back with an executor. */
export interface ResumedStory {
  readonly initial: ProgramState;
  /** It goes on with the same bits as if it had never stopped. */
  readonly exact: boolean;
  /** Held input's speed at its end. */
  readonly speed: number;
  /** Called once somebody holds the state's blocks: they live as long as that. */
  readonly held: () => void;
  /** Gives back the memory that was reserved beside the session's own; idempotent. */
  readonly settle: () => void;
}

/**
 * Puts what was kept of a story in place and makes the state that it goes on from. What it needs beside the session's own memory is reserved until
 * the story flows.
 * @throws {SegueError} at_capacity where that doesn't fit, conflict where the model can't go on with it.
 */
export function resumeStory(story: KeptStory, { sessionId, program, seed, device }: { readonly sessionId: string; readonly program: RealtimeProgram; readonly seed: number; readonly device: Device<WorkSource> }): ResumedStory {
  const { keeping } = program;
  const { worker, pool, loaded } = device;
  if (keeping === undefined || worker.put === undefined) throw new SegueError('conflict', `program ${program.spec.programId} can't go on with a kept story here`);
  if (story.chunks.length === 0) throw new TypeError('a story to resume has at least one chunk');
  const here: StoryFingerprint = { modelId: loaded.modelId, weightsVersion: loaded.weightsVersion, adapterVersions: {}, machine: loaded.fingerprint };
  if (story.fingerprint.modelId !== here.modelId) throw new SegueError('conflict', `the story was made by ${story.fingerprint.modelId}, here is ${here.modelId}`);
  const exact = story.snapshot !== null && sameFingerprint(story.fingerprint, here) && madeBy(story, here.weightsVersion);
  const { wanted, speed, open } = keeping.resume(seed, story.chunks.map(readPart), exact ? readPart(story.snapshot!) : null);
  const tensors = wanted.map(({ chunk, name, memory }) => ({ memory, tensor: tensorOf(chunk === null ? story.snapshot!.tensors : story.chunks[chunk]!.tensors, name) }));
  const budget: Partial<Record<MemoryTag, number>> = {};
  for (const { memory, tensor } of tensors) budget[memory] = (budget[memory] ?? 0) + tensor.data.byteLength;
  const account = pool.reserve(`${sessionId}:resume`, budget);
  if (account === null) throw new SegueError('at_capacity', 'there is no memory to bring the story back');
  const blocks = pool.allocate(account, tensors.map(({ memory, tensor }) => ({ bytes: tensor.data.byteLength, memory })))!;
  worker.put(tensors.map(({ memory, tensor }, index) => ({ id: blocks[index]!, sessionId, memory, published: false, dtype: 'float32', dims: [1, ...tensor.dims], buffer: shared(tensor.data) })));
  const state = open(blocks);
  return {
    // A future of which nothing is there yet is another than the past's.
    initial: { ...state, lineage: Math.max(state.lineage, story.lineage ?? 0) },
    exact,
    speed,
    held: () => pool.release(blocks),
    settle: () => pool.close(account),
  };
}

export function sameFingerprint(a: StoryFingerprint, b: StoryFingerprint): boolean {
  const adapters = (versions: StoryFingerprint['adapterVersions']): string => JSON.stringify(Object.entries(versions).sort());
  return a.modelId === b.modelId && a.weightsVersion === b.weightsVersion && a.machine === b.machine && adapters(a.adapterVersions) === adapters(b.adapterVersions);
}

/** Whether all that is computed again was made by these weights: a live reload may have replaced those that the session was opened with. */
function madeBy({ chunks, snapshot }: KeptStory, weightsVersion: string): boolean {
  return chunks.every(({ chunk, data }) => {
    if (chunk < snapshot!.chunk) return true;
    const { origin } = JSON.parse(data) as { readonly origin?: ChunkOrigin };
    return origin === undefined || origin.weightsVersion === weightsVersion;
  });
}

function readPart(part: { readonly chunk: number; readonly end90k?: number; readonly data: string; readonly tensors: readonly KeptTensor[] }): ReadPart {
  return { chunk: part.chunk, end90k: part.end90k ?? 0, data: JSON.parse(part.data) as Record<string, unknown>, tensors: part.tensors.map(({ name }) => name) };
}

function tensorOf(tensors: readonly KeptTensor[], name: string): KeptTensor {
  const tensor = tensors.find((candidate) => candidate.name === name);
  if (tensor === undefined) throw new SegueError('internal', `the kept story has no tensor ${name}`);
  return tensor;
}

function shared(data: ArrayBuffer | SharedArrayBuffer): SharedArrayBuffer {
  if (data instanceof SharedArrayBuffer) return data;
  const buffer = new SharedArrayBuffer(data.byteLength);
  new Uint8Array(buffer).set(new Uint8Array(data));
  return buffer;
}
