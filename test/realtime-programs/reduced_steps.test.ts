/** A chunk in fewer denoise steps among others, on the real model: computed again and resumed behind. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { ChunkData } from '../../src/realtime-programs/ContinuationKeeping.ts';
import { REPLAY_SESSION, StoryReplay } from '../../src/realtime-programs/StoryReplay.ts';
import { SharedPool } from '../../src/streams/shared_pool.ts';
import type { KeptChunk } from '../../src/streams/storage_messages.ts';
import { KeptSessionRig } from './KeptSessionRig.ts';

let rig: KeptSessionRig;
let reference: readonly KeptChunk[];
const stepsOf = ({ data }: KeptChunk): readonly (number | undefined)[] => (JSON.parse(data) as ChunkData).steps.map(({ steps }) => steps);

before(async () => {
  rig = new KeptSessionRig(5, { previews: true });
  await rig.start();
  rig.open('s');
  await rig.until(() => rig.chunks.length >= 3, 'three chunks');
  rig.request('s', 'r1', { request: 'redirect', prompt: 'make it night', seamless: true });
  await rig.until(() => rig.chunks.some((chunk) => stepsOf(chunk).length === 1), 'a chunk in one step');
  const at = rig.chunks.length;
  await rig.until(() => rig.chunks.length >= at + 8, 'eight more');
  await rig.end('s');
  reference = rig.chunks;
});
after(() => rig.close());

test('the first chunk of the new scene has one step and says so, all others have two', () => {
  const reduced = reference.filter((chunk) => stepsOf(chunk).length === 1);
  assert.deepEqual(reduced.map(stepsOf), [[1]]);
  for (const chunk of reference) if (!reduced.includes(chunk) && chunk.chunk > 0) assert.deepEqual(stepsOf(chunk), [undefined, undefined]);
});

test('computed again, every chunk has the same bits', async () => {
  const pool = (bytes: number) => SharedPool.create(bytes, 1).descriptor;
  rig.worker.attach(REPLAY_SESSION, { video: pool(224 * 128 * 3), audio: pool(4000) });
  const replay = new StoryReplay({ worker: rig.worker, modelId: rig.loaded.modelId, model: rig.model, kernels: Object.values(rig.kernels), seed: 7 });
  for await (const chunk of replay.run(reference, null)) assert.ok(chunk.same, `chunk ${chunk.chunk} differs by ${chunk.difference}`);
  rig.worker.detach(REPLAY_SESSION);
});

test('resumed behind it, the story goes on with the same bits', async () => {
  const end = reference.find((chunk) => stepsOf(chunk).length === 1)!.chunk;
  const { snapshots } = rig;
  Object.assign(rig, { chunks: reference });
  const story = rig.story(end);
  rig.open('again', { story: story.snapshot === null ? { ...story, chunks: reference.slice(0, end + 1) } : story });
  await rig.until(() => rig.chunks.length >= 4, 'four more chunks');
  const latents = ({ tensors }: KeptChunk) => Buffer.from(tensors.find(({ name }) => name === 'latents')!.data as ArrayBuffer);
  for (const chunk of rig.chunks.slice(0, 4)) assert.ok(latents(chunk).equals(latents(reference[chunk.chunk]!)), `chunk ${chunk.chunk}`);
  await rig.end('again');
  Object.assign(rig, { snapshots });
});
