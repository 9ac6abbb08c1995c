/** What is kept of a story, on the real model: going on from it, and computing it again. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { REPLAY_SESSION, StoryReplay } from '../../src/realtime-programs/StoryReplay.ts';
import { SharedPool } from '../../src/streams/shared_pool.ts';
import { openDatabase } from '../../src/storage/open_database.ts';
import { SessionReader } from '../../src/storage/SessionReader.ts';
import type { KeptChunk, StorageWrite } from '../../src/streams/storage_messages.ts';
import { session, StorageRig } from '../storage/storage_rig.ts';
import { KeptSessionRig } from './KeptSessionRig.ts';

let rig: KeptSessionRig;
let reference: readonly KeptChunk[];
let told = { redirect: -1, steered: -1 };

function latents({ tensors }: KeptChunk): Buffer {
  return Buffer.from(tensors.find(({ name }) => name === 'latents')!.data as ArrayBuffer);
}

function data({ data: text }: KeptChunk) {
  return JSON.parse(text) as { steps: { steer: number; plan: Record<string, number>; lineage: number }[]; frames: unknown[]; pinnedFrames: number; seeded: boolean; write: unknown };
}

/** A story of 24 chunks: a redirect early, left held for a while, and nothing new from chunk 12 on. */
before(async () => {
  rig = new KeptSessionRig();
  await rig.start();
  rig.open('s');
  await rig.until(() => rig.chunks.length >= 3, 'three chunks');
  rig.request('s', 'r1', { request: 'redirect', prompt: 'make it night', seamless: false });
  await rig.until(() => rig.messages.some((message) => message.type === 'request.applied' && message.requestId === 'r1'), 'the redirect');
  const held = rig.chunks.length;
  rig.words.writeAction({ sequence: 1, steer: -1, speed: 2, leftPresses: 1, rightPresses: 0 });
  rig.core.receiveMedia({ type: 'media.action', sessionId: 's' });
  await rig.until(() => rig.chunks.length >= held + 3, 'three more');
  rig.words.writeAction({ sequence: 2, steer: 0, speed: 2, leftPresses: 1, rightPresses: 0 });
  rig.core.receiveMedia({ type: 'media.action', sessionId: 's' });
  await rig.until(() => rig.chunks.length >= 24, '24 chunks');
  await rig.end('s');
  reference = rig.chunks;
  told = { redirect: reference.findIndex((chunk) => chunk.epoch === 1), steered: reference.findIndex((chunk) => data(chunk).steps.some(({ steer }) => steer === -1)) };
});
after(() => rig.close());

test('every committed chunk is kept, in order, with all that it was made from', (t) => {
  reference.forEach((chunk, index) => {
    assert.deepEqual([chunk.chunk, chunk.start90k, chunk.end90k], [index, index * 15_000, (index + 1) * 15_000]);
    const { steps, frames, seeded, write } = data(chunk);
    assert.equal(steps.length, seeded ? 0 : 2, `steps of ${index}`);
    assert.equal(frames.length, 2);
    assert.equal(write === null, index === 0);
    assert.equal(latents(chunk).byteLength, 32 * 128 * 4);
  });
  const nights = new Set(reference.map((chunk) => JSON.stringify(data(chunk).steps.at(-1)?.plan)));
  assert.ok(nights.size >= 2, 'the redirect changed the plan');
  assert.ok(told.redirect > 0 && told.redirect < 12 && told.steered > 0 && told.steered < 12, JSON.stringify(told));
  const { keptChunks = 0, keepingMs = 0, keepingMaxMs = 0 } = rig.core.stats();
  t.diagnostic(`${keptChunks} chunks, ${rig.snapshots.length} snapshots; engine thread ${(1000 * keepingMs / keptChunks).toFixed(0)} µs a chunk (snapshots included), longest ${(1000 * keepingMaxMs).toFixed(0)} µs; a chunk ${(reference.at(-1)!.data.length / 1024).toFixed(1)} KB of text and ${reference.at(-1)!.tensors.reduce((sum, { data: bytes }) => sum + bytes.byteLength, 0)} B of tensors`);
  t.diagnostic(`redirect in chunk ${told.redirect}, steering from ${told.steered}, pinned: ${reference.filter((chunk) => data(chunk).pinnedFrames > 0).map(({ chunk }) => chunk).join(',')}`);
});

test('computed again, every chunk has the same bits: a redirect and a steering change inside', async (t) => {
  const pool = (bytes: number) => SharedPool.create(bytes, 1).descriptor;
  rig.worker.attach(REPLAY_SESSION, { video: pool(224 * 128 * 3), audio: pool(4000) });
  const replay = new StoryReplay({ worker: rig.worker, modelId: rig.loaded.modelId, model: rig.model, kernels: Object.values(rig.kernels), seed: 7 });
  // As it comes from the disk.
  const disk = new StorageRig();
  disk.write('engine', session('s'), ...reference.map((chunk): StorageWrite => ({ type: 'chunk', sessionId: 's', branch: 0, chunk })));
  disk.storage.close();
  const { database } = openDatabase(disk.directory);
  const kept = new SessionReader(database).chunks('s', 0, 12);
  database.close();
  disk.end();
  assert.equal(kept.length, 13);
  let same = 0;
  for await (const chunk of replay.run(kept, null)) {
    assert.ok(chunk.same, `chunk ${chunk.chunk} differs by ${chunk.difference}`);
    if (!chunk.seeded) same++;
  }
  rig.worker.detach(REPLAY_SESSION);
  t.diagnostic(`${same} chunks, all bit-equal`);
  assert.equal(same, 12);
});

test('resumed from a snapshot and latents, it goes on with the same bits as if it had never stopped', async (t) => {
  const snapshots = rig.snapshots;
  for (const end of [12, 13, 15]) {
    Object.assign(rig, { chunks: reference, snapshots });
    const story = rig.story(end);
    assert.notEqual(story.snapshot, null);
    rig.open(`again-${end}`, { story });
    await rig.until(() => rig.chunks.length >= 6, 'six more chunks');
    const opened = rig.messages.find((message) => message.type === 'session.opened' && message.sessionId === `again-${end}`);
    assert.ok(opened?.type === 'session.opened' && opened.resumedExactly === true);
    assert.equal(rig.frames[0]!.start90k, (end + 1) * 15_000, 'where it stopped');
    for (const chunk of rig.chunks.slice(0, 6)) {
      assert.ok(latents(chunk).equals(latents(reference[chunk.chunk]!)), `chunk ${chunk.chunk} after ${end}`);
      for (const { name, data: bytes } of chunk.tensors) assert.ok(Buffer.from(bytes as ArrayBuffer).equals(Buffer.from(reference[chunk.chunk]!.tensors.find((other) => other.name === name)!.data as ArrayBuffer)), `${name} of ${chunk.chunk}`);
    }
    t.diagnostic(`after ${end}, from the snapshot at ${story.snapshot!.chunk}: ${rig.chunks.slice(0, 6).map(({ chunk }) => chunk).join(', ')} bit-equal`);
    await rig.end(`again-${end}`);
  }
  Object.assign(rig, { snapshots });
});

test('without the snapshot the window is recomputed from latents, and the story goes on in the same scene', async (t) => {
  const snapshots = rig.snapshots;
  Object.assign(rig, { chunks: reference });
  rig.open('approximately', { story: rig.story(14, { snapshot: false }) });
  rig.words.writeAction({ sequence: 2, steer: 0, speed: 2, leftPresses: 1, rightPresses: 0 });
  await rig.until(() => rig.chunks.length >= 4, 'four more chunks');
  const opened = rig.messages.find((message) => message.type === 'session.opened' && message.sessionId === 'approximately');
  assert.ok(opened?.type === 'session.opened' && opened.resumedExactly === false);
  const distance = (a: KeptChunk, b: KeptChunk): number => {
    const [x, y] = [a, b].map(({ tensors }) => new Float32Array(tensors.find(({ name }) => name === 'latents')!.data));
    return Math.sqrt(x!.reduce((sum, value, at) => sum + (value - y![at]!) ** 2, 0) / x!.length);
  };
  const first = rig.chunks[0]!;
  const off = distance(first, reference[first.chunk]!);
  const other = distance(reference[1]!, reference[first.chunk]!);
  t.diagnostic(`first chunk: ${off.toFixed(4)} from what it would have been; another scene is ${other.toFixed(4)} away`);
  assert.ok(off < other / 3);
  await rig.end('approximately');
  Object.assign(rig, { snapshots });
});

test('a storage that stands still costs the picture nothing; what is left out is told, and keeping begins again by itself', async () => {
  rig.stores = false;
  rig.open('slow');
  await rig.until(() => rig.frames.length >= 20, 'frames');
  const kept = rig.chunks.length;
  const frames = rig.frames.length;
  await rig.until(() => rig.behind('slow') !== null, 'told');
  await rig.until(() => rig.frames.length >= frames + 8, 'more frames all the same');
  assert.ok(rig.behind('slow')! >= kept);
  rig.stores = true;
  rig.settle();
  await rig.until(() => rig.behind('slow') === null, 'told that it goes on');
  const again = rig.chunks.at(-1)!.chunk;
  await rig.until(() => rig.snapshots.some(({ chunk }) => chunk >= again), 'a snapshot to go on from');
  await rig.end('slow');
  assert.equal(rig.core.stats().blocksLive, rig.core.cachedBlocks, 'no block is left');
});
