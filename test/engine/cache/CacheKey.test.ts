import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { encodeCacheKey, hashCacheKey, type CacheKey } from '../../../src/engine/cache/CacheKey.ts';
import { adapterVersions } from '../../../src/engine/model/loop_kernel.ts';

const KEY: CacheKey = {
  modelId: 'm',
  componentId: 'c',
  loopId: null,
  weightsVersion: 'w',
  adapterVersions: { a: '1', b: '2' },
  precision: 'fp32',
  parallelPlanHash: 'p',
  shapeSignature: 's',
  layoutSignature: 'l',
  schedulerSignature: null,
  guidanceSignature: null,
  seed: null,
  inputHashes: { ids: 'x' },
  stepIndex: 0,
  cacheContractVersion: '1',
};

test('the order of maps does not matter', () => {
  assert.equal(hashCacheKey(KEY), hashCacheKey({ ...KEY, adapterVersions: { b: '2', a: '1' } }));
});

test('every field changes the hash', () => {
  const other: CacheKey = { modelId: 'm2', componentId: 'c2', loopId: 'l', weightsVersion: 'w2', adapterVersions: { a: '1' }, precision: 'fp16', parallelPlanHash: 'p2', shapeSignature: 's2', layoutSignature: 'l2', schedulerSignature: 'e', guidanceSignature: 'g', seed: 0, inputHashes: { ids: 'y' }, stepIndex: 1, cacheContractVersion: '2' };
  const hashes = new Set([hashCacheKey(KEY)]);
  for (const field of Object.keys(KEY) as (keyof CacheKey)[]) hashes.add(hashCacheKey({ ...KEY, [field]: other[field] }));
  assert.equal(hashes.size, Object.keys(KEY).length + 1);
});

test('values can not be moved between fields or smuggle separators in', () => {
  assert.notEqual(hashCacheKey({ ...KEY, modelId: 'mc', componentId: '' }), hashCacheKey({ ...KEY, modelId: 'm', componentId: 'c' }));
  assert.notEqual(encodeCacheKey({ ...KEY, modelId: 'm"\ncomponentId="z' }), encodeCacheKey({ ...KEY, modelId: 'm', componentId: 'z' }));
  assert.notEqual(hashCacheKey({ ...KEY, seed: null }), hashCacheKey({ ...KEY, seed: 0 }));
});

test('another adapter, another file of it or another scale is another key; the same is the same', () => {
  const adapter = fc.option(fc.record({ id: fc.constantFrom('noir', 'glow', 'a@1'), scale: fc.constantFrom(0, 0.25, 0.5, 1, 1.5).chain((scale) => fc.constantFrom(scale, scale / 3)), version: fc.constantFrom('sha1', 'sha2') }));
  fc.assert(
    fc.property(adapter, adapter, (a, b) => {
      const [first, second] = [a, b].map((applied) => hashCacheKey({ ...KEY, adapterVersions: adapterVersions(applied) }));
      const same = a?.id === b?.id && a?.scale === b?.scale && a?.version === b?.version;
      assert.equal(first === second, same);
    }),
  );
});
