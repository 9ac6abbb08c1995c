import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DroppedMemory } from '../../src/observe/DroppedMemory.ts';

const MIB = 1024 * 1024;
const settled = () => new Promise((resolve) => setImmediate(resolve));

test('collects when a lot was let go of, not before, and not within the call', async () => {
  let collections = 0;
  const memory = new DroppedMemory(() => void collections++);
  for (let at = 0; at < 31; at++) memory.dropped(new SharedArrayBuffer(MIB));
  await settled();
  assert.equal(collections, 0);
  memory.dropped(new SharedArrayBuffer(MIB / 2), new SharedArrayBuffer(MIB / 2));
  assert.equal(collections, 0, 'the caller may still refer to them');
  await settled();
  assert.equal(collections, 1);
  memory.dropped(new SharedArrayBuffer(MIB));
  await settled();
  assert.equal(collections, 1);
});

test('what it collects by itself is really given back', async () => {
  const memory = new DroppedMemory();
  const kept: WeakRef<SharedArrayBuffer>[] = [];
  for (let at = 0; at < 64; at++) {
    const buffer = new SharedArrayBuffer(MIB);
    kept.push(new WeakRef(buffer));
    memory.dropped(buffer);
  }
  await settled();
  await settled();
  assert.ok(kept.filter((ref) => ref.deref() !== undefined).length <= 33);
});
