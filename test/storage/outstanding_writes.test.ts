import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { OutstandingWrites } from '../../src/streams/outstanding_writes.ts';

const BOUNDS = { sessionBytes: 100, totalBytes: 250 };

describe('OutstandingWrites', () => {
  it('never holds more than its bounds, numbers what it takes without gaps, and accounts for every byte until it is stored', () => {
    const steps = fc.array(fc.oneof(fc.record({ take: fc.integer({ min: 0, max: 120 }), owner: fc.constantFrom('a', 'b', 'c', 'd') }), fc.record({ settle: fc.double({ min: 0, max: 1, noNaN: true }) })), { maxLength: 200 });
    fc.assert(
      fc.property(steps, (all) => {
        const writes = new OutstandingWrites(BOUNDS);
        let model: { readonly number: number; readonly owner: string; readonly bytes: number }[] = [];
        let taken = 0;
        for (const step of all) {
          if ('take' in step) {
            const own = model.filter(({ owner }) => owner === step.owner).reduce((sum, { bytes }) => sum + bytes, 0);
            const total = model.reduce((sum, { bytes }) => sum + bytes, 0);
            const fits = own + step.take <= BOUNDS.sessionBytes && total + step.take <= BOUNDS.totalBytes;
            assert.equal(writes.canTake(step.owner, step.take), fits);
            const number = writes.take(step.owner, step.take);
            assert.equal(number, fits ? taken + 1 : null);
            if (number !== null) model.push({ number: ++taken, owner: step.owner, bytes: step.take });
          } else {
            const through = Math.floor(step.settle * taken);
            writes.settle(through);
            model = model.filter(({ number }) => number > through);
          }
          assert.equal(writes.bytes, model.reduce((sum, { bytes }) => sum + bytes, 0));
          assert.ok(writes.bytes <= BOUNDS.totalBytes);
          for (const name of ['a', 'b', 'c', 'd']) assert.equal(writes.bytesOf(name), model.filter(({ owner }) => owner === name).reduce((sum, { bytes }) => sum + bytes, 0));
        }
        writes.settle(taken);
        assert.equal(writes.bytes, 0);
        assert.ok(writes.hasEased('a'));
      }),
      { numRuns: 500 },
    );
  });
});
