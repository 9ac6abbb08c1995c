import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { BlockPool } from '../../../src/engine/memory/BlockPool.ts';

function poolOf(kv: number) {
  const freed: number[] = [];
  let id = 0;
  return { freed, pool: new BlockPool({ capacity: { kv, activations: 100 }, nextId: () => ++id, onFree: (block) => freed.push(block) }) };
}

test('an account reserves every tag or none', () => {
  const { pool } = poolOf(100);
  assert.equal(pool.reserve('a', { kv: 50, activations: 101 }), null);
  const account = pool.reserve('a', { kv: 60, activations: 100 });
  assert.ok(account);
  assert.equal(pool.reserve('b', { kv: 41 }), null);
  assert.ok(pool.reserve('b', { kv: 40 }));
  pool.close(account);
  pool.close(account);
  assert.ok(pool.reserve('c', { kv: 60, activations: 100 }), 'closing twice gives back once');
  assert.equal(pool.canReserve({ kv: 1 }), false);
});

test('blocks are allocated all or none, within their account', () => {
  const { pool } = poolOf(100);
  const account = pool.reserve('a', { kv: 50 })!;
  assert.equal(pool.allocate(account, [{ bytes: 30, memory: 'kv' }, { bytes: 30, memory: 'kv' }]), null);
  assert.equal(pool.blocks, 0);
  assert.equal(pool.allocate(account, [{ bytes: 1, memory: 'activations' }]), null, 'a tag without budget has no room');
  assert.equal(pool.allocate(account, [{ bytes: 30, memory: 'kv' }, { bytes: 20, memory: 'kv' }])?.length, 2);
  pool.close(account);
  assert.equal(pool.allocate(account, [{ bytes: 0, memory: 'kv' }]), null, 'a closed account allocates nothing');
});

test('a block is freed once, when its last reference goes', () => {
  const { pool, freed } = poolOf(100);
  const account = pool.reserve('a', { kv: 50 })!;
  const [block] = pool.allocate(account, [{ bytes: 10, memory: 'kv' }])!;
  pool.retain([block!]);
  pool.release([block!]);
  assert.deepEqual(freed, []);
  pool.release([block!]);
  assert.deepEqual(freed, [block]);
  assert.throws(() => pool.release([block!]), RangeError);
  assert.throws(() => pool.retain([block!]), RangeError);
  assert.equal(account.used.kv, 0);
});

test('a transfer charges another account, or nothing', () => {
  const { pool } = poolOf(100);
  const from = pool.reserve('a', { kv: 50 })!;
  const small = pool.reserve('cache', { kv: 15 })!;
  const blocks = pool.allocate(from, [{ bytes: 10, memory: 'kv' }, { bytes: 10, memory: 'kv' }])!;
  assert.equal(pool.transfer(blocks, small), false);
  assert.equal(from.used.kv, 20);
  assert.equal(pool.transfer(blocks.slice(0, 1), small), true);
  assert.equal(pool.transfer(blocks.slice(0, 1), small), true, 'again is no change');
  assert.deepEqual([from.used.kv, small.used.kv], [10, 10]);
});

test('counts never drift, whatever the order of retains and releases', () => {
  fc.assert(
    fc.property(fc.array(fc.record({ what: fc.constantFrom('allocate', 'retain', 'release'), which: fc.nat(20) }), { maxLength: 60 }), (steps) => {
      const { pool, freed } = poolOf(1000);
      const account = pool.reserve('a', { kv: 200 })!;
      const counts = new Map<number, number>();
      for (const { what, which } of steps) {
        const live = [...counts.keys()];
        const block = live[which % Math.max(1, live.length)];
        if (what === 'allocate') for (const id of pool.allocate(account, [{ bytes: 10, memory: 'kv' }]) ?? []) counts.set(id, 1);
        else if (block === undefined) continue;
        else if (what === 'retain') {
          pool.retain([block]);
          counts.set(block, counts.get(block)! + 1);
        } else {
          pool.release([block]);
          if (counts.get(block) === 1) counts.delete(block);
          else counts.set(block, counts.get(block)! - 1);
        }
      }
      assert.equal(pool.blocks, counts.size);
      assert.equal(pool.bytes, counts.size * 10);
      assert.equal(account.used.kv, counts.size * 10);
      for (const id of freed) assert.ok(!counts.has(id));
    }),
  );
});
