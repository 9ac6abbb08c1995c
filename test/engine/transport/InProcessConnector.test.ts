import assert from 'node:assert/strict';
import { test } from 'node:test';
import { InProcessConnector } from '../../../src/engine/transport/InProcessConnector.ts';
import { manifestBytes, type ManifestTensor, type StoredTensor, type TransferManifest } from '../../../src/engine/transport/TransferManifest.ts';

const tensor = (name: string, from: number, to: number): ManifestTensor => ({ name, dtype: 'float32', shape: ['batch', 2, 3], memory: 'activations', from, to });
const party = (role: string) => ({ runId: 'r', role, workerId: `${role}-0` });
const MANIFEST: TransferManifest = { transferId: 'r/1', producer: party('encode'), consumer: party('denoise'), tensors: [tensor('k', 1, 11), tensor('v', 2, 12)], layout: 'row_major', location: 'host', lifetime: 'run', cacheKey: null, priority: 0 };

function stored(fill: number, dims: readonly number[] = [1, 2, 3]): StoredTensor {
  const buffer = new SharedArrayBuffer(24);
  new Float32Array(buffer).fill(fill);
  return { dtype: 'float32', dims, buffer };
}

test('each tensor is a copy under its new id: the producer may free its own', async () => {
  const held = new Map([[1, stored(7)], [2, stored(8)]]);
  const put = new Map<number, StoredTensor>();
  await new InProcessConnector().transfer(MANIFEST, { view: (block) => held.get(block) }, { put: ({ to }, of) => put.set(to, of) });
  assert.equal(manifestBytes(MANIFEST), 48);
  new Float32Array(held.get(1)!.buffer).fill(0);
  assert.deepEqual([...put].map(([id, { dims, buffer }]) => [id, dims, new Float32Array(buffer)[5]]), [[11, [1, 2, 3], 7], [12, [1, 2, 3], 8]]);
});

test('what is not as the manifest says is refused with both signatures, and nothing is put', async () => {
  for (const [wrong, message] of [[stored(8, [1, 3, 2]), /transfer r\/1: v is float32\[1,3,2\], its manifest says float32\[1,2,3\]/], [undefined, /v: the producer holds no such block, wanted float32\[1,2,3\]/]] as const) {
    const held = new Map([[1, stored(7)], ...(wrong === undefined ? [] : [[2, wrong] as const])]);
    const put: number[] = [];
    await assert.rejects(new InProcessConnector().transfer(MANIFEST, { view: (block) => held.get(block) }, { put: ({ to }) => void put.push(to) }), message);
    assert.deepEqual(put, []);
  }
});
