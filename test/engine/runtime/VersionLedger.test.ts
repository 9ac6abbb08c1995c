import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { ProgramState } from '../../../src/engine/programs/RealtimeProgram.ts';
import { VersionLedger } from '../../../src/engine/runtime/VersionLedger.ts';

const FRAME = 7500;
const at = (frame: number, lineage = 0): ProgramState => ({ position90k: frame * FRAME, chunk: frame >> 1, lineage });

function ledgerOf(frames: number) {
  const held = new Set<ProgramState>();
  const ledger = new VersionLedger<ProgramState>(at(0), { retain: (state) => void held.add(state), release: (state) => void held.delete(state) });
  for (let frame = 1; frame <= frames; frame++) ledger.keep(at(frame));
  return { ledger, held };
}

test('rewinding drops what is newer and gives the version of the position', () => {
  const { ledger, held } = ledgerOf(5);
  assert.equal(ledger.rewindTo(3 * FRAME).position90k, 3 * FRAME);
  assert.deepEqual([ledger.size, held.size], [4, 4]);
  assert.equal(ledger.rewindTo(9 * FRAME).position90k, 3 * FRAME, 'never forward');
});

test('committing drops what is older, and what was committed can not be left behind', () => {
  const { ledger, held } = ledgerOf(5);
  assert.equal(ledger.commitTo(3 * FRAME), true);
  assert.equal(ledger.commitTo(2 * FRAME), false);
  assert.deepEqual([ledger.committed.position90k, ledger.size, held.size], [3 * FRAME, 3, 3]);
  assert.equal(ledger.rewindTo(0).position90k, 3 * FRAME);
  assert.equal(ledger.size, 1);
});

test('a version replaces the one of its position: the same place, further prepared', () => {
  const { ledger, held } = ledgerOf(2);
  const written = at(2);
  ledger.keep(written);
  assert.equal(ledger.newest, written);
  assert.deepEqual([ledger.size, held.size], [3, 3]);
  assert.throws(() => ledger.keep(at(1)), RangeError);
});

test('what is held is exactly what is kept, in any order of events', () => {
  fc.assert(
    fc.property(fc.array(fc.record({ what: fc.constantFrom('keep', 'rewind', 'commit'), frame: fc.nat(12) }), { maxLength: 60 }), (events) => {
      const { ledger, held } = ledgerOf(0);
      for (const { what, frame } of events) {
        const committed = ledger.committed.position90k;
        if (what === 'keep') ledger.keep(at(ledger.newest.position90k / FRAME + 1));
        else if (what === 'rewind') ledger.rewindTo(frame * FRAME);
        else ledger.commitTo(frame * FRAME);
        assert.ok(ledger.committed.position90k >= committed, 'the committed position never goes back');
        assert.equal(held.size, ledger.size);
      }
      ledger.clear();
      assert.equal(held.size, 0);
    }),
  );
});

test('a frame that was seen is shown by the first version that reaches its end, also once that is of the past', () => {
  const { ledger } = ledgerOf(5);
  ledger.commitTo(3 * FRAME);
  assert.equal(ledger.reaching(2 * FRAME + 1)?.position90k, 3 * FRAME);
  assert.equal(ledger.reaching(5 * FRAME + 1), undefined);
  const remembering = new VersionLedger<ProgramState>(at(0), { retain: () => undefined, release: () => undefined }, 2);
  for (let frame = 1; frame <= 5; frame++) remembering.keep(at(frame));
  remembering.commitTo(3 * FRAME);
  assert.equal(remembering.reaching(FRAME + 1)?.position90k, 2 * FRAME);
});
