/** T7: memory sleeps and wakes by tag, and using what sleeps is refused before anything is attempted. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BlockPool } from '../../../src/engine/memory/BlockPool.ts';
import { evict, type Evictable } from '../../../src/engine/memory/eviction.ts';
import { MemoryAsleepError, MemoryInUseError } from '../../../src/engine/memory/memory_errors.ts';
import type { MemoryTag } from '../../../src/engine/model/work.ts';
import { SimulatedLoops } from '../scheduler/SimulatedLoops.ts';

const CAPACITY = { weights: 100, kv: 100, activations: 100, staging: 100 };

function poolOf(): BlockPool {
  let id = 0;
  return new BlockPool({ capacity: CAPACITY, nextId: () => ++id, onFree: () => undefined });
}

for (const tag of Object.keys(CAPACITY) as MemoryTag[]) {
  test(`${tag} that sleeps is neither promised nor allocated until it is woken, and the other tags are as they were`, () => {
    const pool = poolOf();
    const other = tag === 'kv' ? 'staging' : 'kv';
    const account = pool.reserve('before', { [tag]: 10, [other]: 10 })!;
    pool.sleep([tag]);
    pool.sleep([tag]);
    assert.deepEqual(pool.asleep, [tag]);
    assert.equal(pool.reserve('after', { [tag]: 1 }), null);
    assert.ok(pool.reserve('other', { [other]: 1 }));
    assert.throws(() => pool.allocate(account, [{ bytes: 1, memory: other }, { bytes: 1, memory: tag }]), (error: unknown) => error instanceof MemoryAsleepError && error.tag === tag);
    assert.equal(pool.blocks, 0, 'all or nothing');
    assert.equal(pool.allocate(account, [{ bytes: 1, memory: other }])?.length, 1);
    pool.wake([tag]);
    assert.equal(pool.allocate(account, [{ bytes: 1, memory: tag }])?.length, 1);
  });
}

test('a tag in which somebody’s state lies can’t be put to sleep, and no other of the same call is', () => {
  const pool = poolOf();
  const account = pool.reserve('session', { kv: 10 })!;
  const blocks = pool.allocate(account, [{ bytes: 4, memory: 'kv' }])!;
  assert.throws(() => pool.sleep(['staging', 'kv']), (error: unknown) => error instanceof MemoryInUseError && error.tag === 'kv' && error.owners.join() === 'session');
  assert.deepEqual(pool.asleep, []);
  pool.release(blocks);
  pool.sleep(['staging', 'kv']);
  assert.deepEqual(pool.asleep, ['staging', 'kv']);
});

test('a device that sleeps lets nobody in, refuses while a loop runs, and serves again once it is awake', async () => {
  const simulated = new SimulatedLoops({ components: { token: { ms: 2, maxBatch: 1 } } });
  const [device] = simulated.devices;
  const request = { component: 'token', units: 5, withinMs: null };
  const loop = simulated.open(request)!;
  await simulated.clock.advanceTo(5);
  await assert.rejects(device!.sleep(['kv']), MemoryInUseError);
  await simulated.clock.advanceTo(100);
  assert.equal(loop.commits.length, 5, 'and nothing has happened to it');
  await device!.sleep(['kv']);
  assert.equal(simulated.open(request), null);
  await device!.wake(['kv']);
  const next = simulated.open(request)!;
  await simulated.clock.advanceTo(200);
  assert.ok(next.closed);
  simulated.checkEmpty();
});

test('under pressure drafts go before the past, one after the other, and no more than it takes', () => {
  const gone: string[] = [];
  let room = 0;
  const holder = (name: string, bytes: number): Evictable => ({
    yieldMemory: () => {
      if (bytes === 0 || gone.includes(name)) return false;
      gone.push(name);
      room += bytes;
      return true;
    },
  });
  const holders = { draft: [holder('d1', 2), holder('empty', 0), holder('d2', 2)], past: [holder('p1', 5), holder('p2', 5)] };
  assert.equal(evict(holders, () => room >= 1), 1);
  assert.deepEqual(gone, ['d1']);
  assert.equal(evict(holders, () => room >= 8), 2);
  assert.deepEqual(gone, ['d1', 'd2', 'p1']);
  assert.equal(evict(holders, () => room >= 100), 1, 'as far as it goes');
  assert.deepEqual(gone, ['d1', 'd2', 'p1', 'p2']);
});
