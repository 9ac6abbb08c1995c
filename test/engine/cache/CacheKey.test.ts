import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encodeCacheKey, hashCacheKey, type CacheKey } from '../../../src/engine/cache/CacheKey.ts';

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
