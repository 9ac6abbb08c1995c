/** Two futures of one past, on the real model: what is shared has the same bits and is held once, and the one that was forked never notices. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { keptFrame } from '../../src/realtime-programs/kept_frame.ts';
import { readDatabase } from '../../src/storage/open_database.ts';
import { SessionReader } from '../../src/storage/SessionReader.ts';
import type { KeptChunk } from '../../src/streams/storage_messages.ts';
import { session, StorageRig } from '../storage/storage_rig.ts';
import { KeptSessionRig, type KeptSide } from './KeptSessionRig.ts';

const FRAME_90K = 7_500;
/** The second frame of a chunk: the fork lies inside of it. */
const AT_90K = 13 * FRAME_90K;
const FORKED_CHUNK = 6;
const CHUNKS = 14;
const LINEAGE = 2 ** 30;

let rig: KeptSessionRig;
let alone: readonly KeptChunk[];

const latents = ({ tensors }: KeptChunk): Buffer => Buffer.from(tensors.find(({ name }) => name === 'latents')!.data as ArrayBuffer);
const frame = (chunk: KeptChunk, index: number): Buffer => Buffer.from(keptFrame(chunk, index).latents.data as ArrayBuffer);
const lineage = ({ data }: KeptChunk): number => (JSON.parse(data) as { lineage: number }).lineage;

before(async () => {
  // Steps of the two share batches: here that changes no bit.
  rig = new KeptSessionRig(5, { batchInvariant: true });
  await rig.start();
  rig.open('alone');
  await rig.until(() => rig.chunks.length >= CHUNKS, 'a story that nobody forks');
  await rig.end('alone');
  alone = rig.chunks;
});
after(() => rig.close());

test('a fork copies no keys and values; both have the same bits up to it, and the parent those that it has without one', async (t) => {
  rig.open('parent');
  await rig.until(() => (rig.frames.at(-1)?.start90k ?? 0) >= AT_90K, 'to the fork');
  const before = rig.core.stats();
  const fork = rig.fork('fork', 'parent', AT_90K, LINEAGE);
  const after = rig.core.stats();
  const opened = rig.messages.find((message) => message.type === 'session.opened' && message.sessionId === 'fork');
  assert.ok(opened?.type === 'session.opened' && opened.at90k === AT_90K && opened.resumedExactly === true, JSON.stringify(opened));
  const { write } = rig.model.components;
  const kv = rig.model.bytesOf(write).kv!;
  const grown = after.blockBytes - before.blockBytes;
  t.diagnostic(`${grown} bytes more in ${after.blocksLive - before.blocksLive} blocks; keys and values of one chunk are ${kv}, there are ${before.blockBytes} bytes`);
  // What the first step of its future writes to is under way: latents of a chunk.
  assert.ok(kv > 100_000 && grown <= 32 * 128 * 4, `${grown} bytes`);

  rig.core.receive({ type: 'session.request', sessionId: 'fork', requestId: 'r', request: 'redirect', epoch: fork.words.raiseEpoch(), conditioningVersion: 1, presented90k: AT_90K, prompt: 'a desert at dawn', seamless: false });
  await rig.until(() => rig.chunks.length >= CHUNKS && (fork.chunks.at(-1)?.chunk ?? 0) >= CHUNKS - 1, 'both go on');
  await rig.end('fork');
  await rig.end('parent');

  assert.deepEqual(rig.chunks.slice(0, CHUNKS).map(latents), alone.slice(0, CHUNKS).map(latents), 'the parent has the bits of a story that nobody forked');
  const [mine, theirs] = stories(fork);
  for (let chunk = 0; chunk < FORKED_CHUNK; chunk++) assert.ok(latents(mine[chunk]!).equals(latents(theirs[chunk]!)), `chunk ${chunk}`);
  assert.ok(frame(mine[FORKED_CHUNK]!, 0).equals(frame(theirs[FORKED_CHUNK]!, 0)), 'the frame before the fork, of the chunk that it lies in');
  for (let chunk = FORKED_CHUNK; chunk < CHUNKS; chunk++) assert.ok(!frame(mine[chunk]!, 1).equals(frame(theirs[chunk]!, 1)), `chunk ${chunk} is of another future`);
  assert.ok(mine.slice(FORKED_CHUNK).every((chunk) => lineage(chunk) >= LINEAGE) && theirs.every((chunk) => lineage(chunk) < LINEAGE));
  assert.equal(Math.min(...fork.pictures.keys()), AT_90K, 'it begins with the frame behind the fork');
});

/** Of both as they are on disk: a fork's past is copied there. */
function stories(fork: KeptSide): readonly [readonly KeptChunk[], readonly KeptChunk[]] {
  const disk = new StorageRig();
  disk.write('control', session('parent'), session('fork'));
  disk.write('engine', ...rig.written, ...fork.written);
  disk.storage.close();
  const database = readDatabase(disk.directory);
  const reader = new SessionReader(database);
  const read = (id: string): readonly KeptChunk[] => reader.chunks(id, 0, CHUNKS - 1);
  try {
    return [read('fork'), read('parent')];
  } finally {
    database.close();
    disk.end();
  }
}
