import { test } from 'node:test';
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { SharedBuffers } from '../../../src/engine/workers/SharedBuffers.ts';

test('a buffer that was given back serves the next of its size, and no two owners at once', () => {
  const buffers = new SharedBuffers();
  const first = buffers.take(64);
  buffers.give(first);
  assert.equal(buffers.take(128).byteLength, 128);
  assert.equal(buffers.take(64), first);
  assert.notEqual(buffers.take(64), first);
});

test('what waits is bounded and counted, whatever comes and goes', () => {
  const step = fc.record({ size: fc.constantFrom(8, 64, 1000), give: fc.boolean() });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 100 }), (steps) => {
      const buffers = new SharedBuffers(2000);
      const owned: SharedArrayBuffer[] = [];
      for (const { size, give } of steps) {
        if (give && owned.length > 0) buffers.give(owned.pop()!);
        else {
          const buffer = buffers.take(size);
          assert.equal(buffer.byteLength, size);
          assert.ok(!owned.includes(buffer), 'somebody has it');
          owned.push(buffer);
        }
        assert.ok(buffers.bytes >= 0 && buffers.bytes <= 2000);
      }
      buffers.clear();
      assert.equal(buffers.bytes, 0);
    }),
  );
});
