import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { CELL_90K, TimelineCells } from '../../web-client/page/timeline_cells.ts';

const seen = ({ cells }: TimelineCells) => cells.map(({ from90k, to90k, abandoned, branch }) => `${from90k / 90_000}-${to90k / 90_000}${abandoned ? ' left' : ''} ${branch}`);

describe('cells of a timeline', () => {
  it('grow with what was seen, from where it begins', () => {
    const cells = new TimelineCells();
    assert.equal(cells.reach(0), true);
    assert.equal(cells.reach(CELL_90K - 1), true);
    assert.deepEqual(seen(cells), ['0-3 0']);
    cells.reach(2 * CELL_90K);
    assert.equal(cells.reach(2 * CELL_90K + 1), false);
    assert.deepEqual(seen(cells), ['0-3 0', '3-6 0', '6-9 0']);
    const later = new TimelineCells();
    later.reach(CELL_90K, CELL_90K / 3);
    assert.deepEqual(seen(later), ['1-3 0', '3-6 0']);
  });

  it('keep what was left behind where it was seen, and go on after it', () => {
    const cells = new TimelineCells();
    cells.reach(3 * CELL_90K);
    cells.rewind(4 * 90_000, 1);
    assert.deepEqual(seen(cells), ['0-3 0', '3-4 0', '6-9 left 0', '9-12 left 0', '4-6 1']);
    cells.reach(7 * 90_000);
    cells.rewind(0, 2);
    assert.deepEqual(seen(cells), ['0-3 left 0', '3-4 left 0', '6-9 left 0', '9-12 left 0', '4-6 left 1', '6-9 left 1', '0-3 2']);
    assert.equal(cells.at(90_000)?.branch, 2);
    assert.equal(cells.at(4 * 90_000), undefined);
  });

  it('are those of whoever was there, for whoever comes later', () => {
    const there = new TimelineCells();
    there.reach(3 * CELL_90K - 1);
    there.rewind(4 * 90_000, 1);
    there.reach(7 * 90_000 - 1);
    there.rewind(0, 2);
    const later = TimelineCells.of([{ branch: 1, from90k: 4 * 90_000, left90k: 3 * CELL_90K }, { branch: 2, from90k: 0, left90k: 7 * 90_000 }]);
    assert.deepEqual(seen(later), seen(there));
    assert.equal(later.branch, 2);
    assert.deepEqual(seen(TimelineCells.of([])), []);
  });

  it('say what was asked for in them; what was left keeps its words', () => {
    const cells = new TimelineCells();
    cells.reach(CELL_90K);
    cells.tell([{ from90k: 0, words: 'a forest' }, { from90k: CELL_90K + 5, words: 'night' }]);
    assert.deepEqual(cells.cells.map(({ words }) => words), ['a forest', 'night']);
    cells.rewind(90_000, 1);
    cells.tell([{ from90k: 0, words: 'a forest' }, { from90k: 90_000, words: 'snow' }]);
    assert.deepEqual(cells.cells.map(({ words }) => words), ['a forest', 'night', 'snow']);
  });
});
