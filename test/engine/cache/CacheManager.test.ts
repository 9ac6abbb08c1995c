import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CACHE_CLASSES } from '../../../src/engine/cache/cache_classes.ts';
import type { CacheKey } from '../../../src/engine/cache/CacheKey.ts';
import { CacheManager } from '../../../src/engine/cache/CacheManager.ts';
import { BlockPool } from '../../../src/engine/memory/BlockPool.ts';

function cacheOf(bytes: number) {
  let id = 0;
  const pool = new BlockPool({ capacity: { kv: 1000 }, nextId: () => ++id, onFree: () => undefined });
  const cache = new CacheManager(CACHE_CLASSES.text_encoder_output, pool, pool.reserve('cache', { kv: bytes })!);
  const session = pool.reserve('session', { kv: 500 })!;
  const step = () => ({ blocks: { tk: pool.allocate(session, [{ bytes: 10, memory: 'kv' }])![0]! }, values: {}, next: { done: true } });
  return { pool, cache, session, step };
}

function key(ids: string, changes: Partial<CacheKey> = {}): CacheKey {
  return { modelId: 'm', componentId: 'text_encoder', loopId: null, weightsVersion: 'w', adapterVersions: {}, precision: 'fp32', parallelPlanHash: 'p', shapeSignature: 's', layoutSignature: 'l', schedulerSignature: null, guidanceSignature: null, seed: null, inputHashes: { ids }, stepIndex: 0, cacheContractVersion: '1', ...changes };
}

test('what was published is found, by exactly its key', () => {
  const { cache, step } = cacheOf(100);
  const published = step();
  assert.equal(cache.publish(key('a'), published, 'encoder_chunk'), true);
  assert.equal(cache.lookup(key('a'), 'encoder_chunk'), published);
  assert.equal(cache.lookup(key('a', { weightsVersion: 'w2' }), 'encoder_chunk'), null);
  assert.equal(cache.publish(key('a'), step(), 'encoder_chunk'), false, 'the first stays');
});

test('only declared producers and consumers, and only the trusted contract version', () => {
  const { cache, step } = cacheOf(100);
  assert.equal(cache.publish(key('a'), step(), 'ar_decode'), false);
  assert.equal(cache.publish(key('a', { cacheContractVersion: '0' }), step(), 'encoder_chunk'), false);
  cache.publish(key('a'), step(), 'encoder_chunk');
  assert.equal(cache.lookup(key('a'), 'audio'), null);
});

test('blocks outlive the session that made them, and are charged to the cache', () => {
  const { pool, cache, session, step } = cacheOf(100);
  const made = step();
  cache.publish(key('a'), made, 'encoder_chunk');
  assert.equal(session.used.kv, 0);
  pool.release([made.blocks.tk]);
  assert.equal(pool.blocks, 1);
  cache.close();
  cache.close();
  assert.equal(pool.blocks, 0);
});

test('the least recently used entry gives way, unless a live version uses it', () => {
  const { pool, cache, step } = cacheOf(20);
  const [a, b, c] = [step(), step(), step()];
  for (const [name, entry] of [['a', a], ['b', b]] as const) {
    cache.publish(key(name), entry, 'encoder_chunk');
    pool.release([entry.blocks.tk]);
  }
  cache.lookup(key('a'), 'encoder_chunk');
  assert.equal(cache.publish(key('c'), c, 'encoder_chunk'), true);
  assert.equal(cache.lookup(key('b'), 'encoder_chunk'), null, 'b was used least recently');
  assert.ok(cache.lookup(key('a'), 'encoder_chunk'));
  // a and c are in use from here on: nothing may be evicted for d.
  pool.retain([a.blocks.tk]);
  const d = step();
  assert.equal(cache.publish(key('d'), d, 'encoder_chunk'), false);
  assert.equal(cache.stats().refused, 1);
  assert.ok(cache.lookup(key('a'), 'encoder_chunk') && cache.lookup(key('c'), 'encoder_chunk'));
});
