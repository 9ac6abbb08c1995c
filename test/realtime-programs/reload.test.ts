/** Weights that are replaced under a live session, on the real model: a copy of its directory whose decoder is slightly another. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { cpSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { loadModelSpec } from '../../src/engine/model/spec/load_model_spec.ts';
import type { EngineToControl } from '../../src/streams/messages.ts';
import type { ChunkOrigin, KeptChunk } from '../../src/streams/storage_messages.ts';
import { KeptSessionRig } from './KeptSessionRig.ts';

const MODEL_DIR = new URL('../../models/drive', import.meta.url).pathname;
/** The latents' mean, which the decoder adds: 16 floats in its graph, as the manifest says. */
const DECODER = 'weights/vae_decode.onnx';

let modelDir: string;
let rig: KeptSessionRig;
let first: string;
before(async () => {
  modelDir = join(mkdtempSync(join(tmpdir(), 'segue-reload-')), 'drive');
  cpSync(MODEL_DIR, modelDir, { recursive: true });
  rig = new KeptSessionRig(5, { modelDir });
  await rig.start();
  first = rig.loaded.weightsVersion;
});
after(async () => {
  await rig.close();
  rmSync(join(modelDir, '..'), { recursive: true });
});

/** As an operator does: the new file is put in place whole, what serves keeps the old one. */
function replace(name: string, bytes: Buffer | string): void {
  writeFileSync(join(modelDir, `${name}.new`), bytes);
  renameSync(join(modelDir, `${name}.new`), join(modelDir, name));
}

function manifest() {
  return JSON.parse(readFileSync(join(modelDir, 'manifest.json'), 'utf8')) as { files: Record<string, { sha256: string; bytes: number }>; components: Record<string, { key_mapping: { target: string; stored?: { file: string; offset: number; bytes: number }[] }[] }> };
}

/** Brightens every picture a little. @param truthful whether the manifest says so. */
function fineTune(by: number, { truthful = true } = {}): void {
  const told = manifest();
  const { offset, bytes } = told.components['vae_decode']!.key_mapping.find(({ target }) => target === 'latent_mean')!.stored![0]!;
  const graph = readFileSync(join(modelDir, DECODER));
  for (let at = offset; at < offset + bytes; at += 4) graph.writeFloatLE(graph.readFloatLE(at) + by, at);
  replace(DECODER, graph);
  if (!truthful) return;
  told.files[DECODER]!.sha256 = createHash('sha256').update(graph).digest('hex');
  replace('manifest.json', JSON.stringify(told));
}

let asked = 0;
async function reload(): Promise<Extract<EngineToControl, { type: 'model.reloaded' }>> {
  const request = ++asked;
  rig.core.receive({ type: 'model.reload', request });
  const answer = () => rig.messages.find((message) => message.type === 'model.reloaded' && message.request === request);
  await rig.until(() => answer() !== undefined, 'the answer', 60_000);
  return answer() as Extract<EngineToControl, { type: 'model.reloaded' }>;
}

const originOf = ({ data }: KeptChunk): ChunkOrigin => (JSON.parse(data) as { origin: ChunkOrigin }).origin;

test('a damaged file and another vocabulary are refused by name, the same weights are no change, and the story flows on', async () => {
  rig.open('s');
  await rig.until(() => rig.chunks.length >= 3, 'three chunks');
  assert.deepEqual((await reload()).reloaded, { weightsVersion: first, previous: first, sessions: 0, heldMs: 0 });
  fineTune(0.02, { truthful: false });
  const damaged = await reload();
  assert.deepEqual([damaged.error?.code, damaged.error?.param], ['model_not_usable', `files.${DECODER}.sha256`]);
  replace(DECODER, readFileSync(join(MODEL_DIR, DECODER)));
  fineTune(0.02);
  const loops = readFileSync(join(modelDir, 'loops.yaml'), 'utf8');
  replace('loops.yaml', loops.replace('contextNoise: 0.03', 'contextNoise: 0.04'));
  const other = await reload();
  assert.deepEqual([other.error?.code, other.error?.param], ['model_not_usable', 'loops']);
  replace('loops.yaml', loops);
  const frames = rig.frames.length;
  await rig.until(() => rig.frames.length >= frames + 6, 'frames after it');
  assert.equal(rig.frames.at(-1)!.weightsVersion, first);
});

test('live, the story goes on with the new weights at a chunk’s end, and each chunk tells which made it', async (t) => {
  const { reloaded, error } = await reload();
  assert.equal(error, undefined);
  const second = loadModelSpec(modelDir).checkpoint.weightsVersion;
  assert.deepEqual([reloaded!.weightsVersion, reloaded!.previous, reloaded!.sessions], [second, first, 1]);
  t.diagnostic(`held for ${reloaded!.heldMs.toFixed(1)} ms`);
  await rig.until(() => rig.chunks.some((chunk) => originOf(chunk).weightsVersion === second), 'a chunk by the new weights');
  const at = rig.chunks.length;
  await rig.until(() => rig.chunks.length >= at + 7, 'seven more');
  const switched = rig.chunks.findIndex((chunk) => originOf(chunk).weightsVersion === second);
  assert.ok(switched > 0);
  rig.chunks.forEach((chunk, index) => assert.equal(originOf(chunk).weightsVersion, index < switched ? first : second));
  // A chunk that was recalled may have been made around a frame of before.
  const mixed = rig.chunks.filter((chunk) => originOf(chunk).frameWeights !== undefined);
  assert.ok(mixed.length <= 1 && mixed.every((chunk) => chunk.chunk === rig.chunks[switched]!.chunk));
  assert.deepEqual([...new Set(rig.frames.map(({ weightsVersion }) => weightsVersion))], [first, second]);
  assert.ok(!rig.messages.some(({ type }) => type === 'session.fault'));
});

test('a story that reaches over a reload goes on after a restart, but claims the same bits only where one set of weights made what is computed again', async () => {
  const { chunks } = rig;
  const { snapshots } = rig;
  const switched = chunks.findIndex((chunk) => originOf(chunk).weightsVersion !== first);
  const story = rig.story(chunks.at(-1)!.chunk);
  await rig.end('s');
  // The fingerprint of a restart on the older weights: the snapshot alone doesn't tell.
  const snapshot = snapshots.findLast(({ chunk }) => chunk < chunks[switched]!.chunk) ?? null;
  assert.ok(snapshot !== null);
  const across = { ...story, fingerprint: { ...story.fingerprint, weightsVersion: originOf(chunks.at(-1)!).weightsVersion }, snapshot, chunks: chunks.filter(({ chunk }) => chunk >= snapshot.chunk) };
  rig.open('again', { story: across });
  await rig.until(() => rig.chunks.length >= 2, 'two more chunks');
  const opened = rig.messages.find((message) => message.type === 'session.opened' && message.sessionId === 'again');
  assert.ok(opened?.type === 'session.opened' && opened.resumedExactly === false);
  await rig.end('again');
  assert.equal(rig.core.stats().blocksLive, rig.core.cachedBlocks, 'no block is left');
});
