/** What is kept of a story with a blend and a cut in it, on the real model: computing it again, and going on in the midst of either. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { ChunkData } from '../../src/realtime-programs/ContinuationKeeping.ts';
import { REPLAY_SESSION, StoryReplay } from '../../src/realtime-programs/StoryReplay.ts';
import { SharedPool } from '../../src/streams/shared_pool.ts';
import type { KeptChunk } from '../../src/streams/storage_messages.ts';
import { KeptSessionRig } from './KeptSessionRig.ts';

let rig: KeptSessionRig;
let reference: readonly KeptChunk[];
let blended: readonly number[];
let cut = -1;

const data = ({ data: text }: KeptChunk): ChunkData => JSON.parse(text) as ChunkData;
const latents = ({ tensors }: KeptChunk): Buffer => Buffer.from(tensors.find(({ name }) => name === 'latents')!.data as ArrayBuffer);

/** A blend over six chunks, another that begins in it, then a cut. */
before(async () => {
  rig = new KeptSessionRig(4);
  await rig.start();
  rig.open('s');
  await rig.until(() => rig.chunks.length >= 3, 'three chunks');
  rig.request('s', 'b1', { request: 'blend', prompt: 'a desert at dusk', chunks: 6 });
  await rig.until(() => rig.chunks.some((chunk) => data(chunk).steps.some(({ mix }) => mix !== undefined)), 'the first blend');
  rig.request('s', 'b2', { request: 'blend', prompt: 'make it night', chunks: 5 });
  await rig.until(() => rig.messages.some((message) => message.type === 'request.completed' && message.requestId === 'b2'), 'the second blend');
  const before = rig.chunks.length;
  await rig.until(() => rig.chunks.length >= before + 2, 'two more');
  rig.request('s', 'c', { request: 'cut', prompt: 'a snowy mountain at noon' });
  await rig.until(() => rig.messages.some((message) => message.type === 'request.applied' && message.requestId === 'c'), 'the cut');
  await rig.until(() => rig.chunks.some((chunk, index) => index > 0 && data(chunk).write === null), 'the cut kept');
  cut = rig.chunks.findIndex((chunk, index) => index > 0 && data(chunk).write === null);
  await rig.until(() => rig.chunks.length >= cut + 12, 'twelve chunks behind it');
  await rig.end('s');
  reference = rig.chunks;
  blended = reference.filter((chunk) => data(chunk).steps.some(({ mix }) => mix !== undefined)).map(({ chunk }) => chunk);
});
after(() => rig.close());

test('each step of a blend is kept with the shares it ran under, each write with those of the chunk, and a cut without what came before', () => {
  assert.ok(blended.length >= 6 && cut > blended.at(-1)!, `${blended.join()} ${cut}`);
  const over = reference.map(data).flatMap(({ steps }) => steps).map(({ mix = [] }) => mix.length);
  assert.equal(Math.max(...over), 2, 'one blend over another');
  reference.slice(0, -1).forEach((chunk, index) => {
    const { steps } = data(chunk);
    const { write } = data(reference[index + 1]!);
    if (steps.length > 0 && write !== null) assert.deepEqual([write.plan, write.mix], [steps.at(-1)!.plan, steps.at(-1)!.mix], `write of ${index}`);
  });
  assert.deepEqual([data(reference[cut]!).seeded, data(reference[cut]!).steps.length], [true, 0]);
});

test('computed again, every chunk has the same bits', async (t) => {
  const pool = (bytes: number) => SharedPool.create(bytes, 1).descriptor;
  rig.worker.attach(REPLAY_SESSION, { video: pool(224 * 128 * 3), audio: pool(4000) });
  const replay = new StoryReplay({ worker: rig.worker, modelId: rig.loaded.modelId, model: rig.model, kernels: Object.values(rig.kernels), seed: 7 });
  let computed = 0;
  for await (const chunk of replay.run(reference.slice(0, cut + 4), null)) {
    assert.ok(chunk.same, `chunk ${chunk.chunk} differs by ${chunk.difference}`);
    if (!chunk.seeded) computed++;
  }
  rig.worker.detach(REPLAY_SESSION);
  t.diagnostic(`${computed} chunks, ${blended.length} of them blended, all bit-equal`);
});

test('gone on with in a blend, at a cut and behind it, it has the bits that it would have had', async (t) => {
  const { snapshots } = rig;
  const settled = (chunk: KeptChunk): boolean => data(chunk).scene.requestId === data(reference[chunk.chunk]!).scene.requestId;
  for (const [name, end] of [['blend', blended[3]!], ['last of the blend', blended.at(-1)!], ['cut', cut], ['behind', cut + 2], ['far behind', cut + 6]] as const) {
    Object.assign(rig, { chunks: reference, snapshots });
    const story = rig.story(end);
    rig.open(name.replaceAll(' ', '-'), { story });
    await rig.until(() => rig.chunks.length >= 2, `two more after ${name}`);
    await rig.end(name.replaceAll(' ', '-'));
    // A request that came after the end isn't part of what was kept.
    const same = rig.chunks.filter((chunk) => reference[chunk.chunk] !== undefined && settled(chunk));
    assert.ok(same.length >= (name === 'last of the blend' || name === 'cut' ? 1 : 2), `${name}: ${same.length}`);
    for (const chunk of same) assert.ok(latents(chunk).equals(latents(reference[chunk.chunk]!)), `chunk ${chunk.chunk} after ${end} (${name})`);
    t.diagnostic(`${name} (${end}, snapshot at ${story.snapshot?.chunk ?? 'none'}): ${same.map(({ chunk }) => chunk).join(', ')} bit-equal`);
  }
});
