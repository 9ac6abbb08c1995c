import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { SegueError } from '../../src/protocol/errors.ts';
import { importedTurns, openingOf, type Turn } from '../../src/sessions/memory_turn.ts';
import { MAX_TURNS, PromptMemory, type MemoryListener } from '../../src/sessions/PromptMemory.ts';

const turn = (requestId: string | null, prompt: string | null | undefined) => ({ requestId, prompt, at: '2026-01-01T00:00:00Z', presented90k: 0, epoch: 0 });
const code = (expected: string) => (error: unknown) => error instanceof SegueError && error.code === expected;

/** What a storage would have of it. */
class Copy implements MemoryListener {
  readonly rows = new Map<number, Turn>();
  readonly condensations: number[] = [];

  turn(ordinal: number, kept: Turn): void {
    this.rows.set(ordinal, kept);
  }

  turns(changes: Parameters<MemoryListener['turns']>[0]): void {
    for (const { ordinal, turn: kept } of changes) {
      if (kept === null) this.rows.delete(ordinal);
      else this.rows.set(ordinal, kept);
    }
  }

  condensed(_ordinal: number, { standsFor }: Turn): void {
    this.condensations.push(standsFor);
  }
}

describe('prompt memory', () => {
  it('the prompt in force is that of the last turn that is not void', () => {
    const memory = new PromptMemory();
    memory.append(turn(null, 'desert'));
    memory.append(turn('r1', 'city'));
    assert.equal(memory.prompt, 'city');
    memory.settle('r1', 'superseded');
    assert.equal(memory.prompt, 'desert');
    memory.settle('r1', 'applied');
    assert.equal(memory.turns[1]?.outcome, 'superseded', 'an outcome is final');
  });

  it('too many turns: the oldest become one, with what was in force at their end and how many they are; nothing is dropped in silence', () => {
    const copy = new Copy();
    const memory = new PromptMemory(copy);
    for (let at = 0; at < MAX_TURNS + 1; at++) {
      memory.append(turn(`r${at}`, `p${at}`));
      memory.write(`r${at}`, 'plan', `plan ${at}`, { time: `t${at}` });
      memory.shown(`r${at}`, at * 1000);
      memory.settle(`r${at}`, at === 63 ? 'failed' : 'applied');
      memory.present(at * 1000 + 500);
    }
    const [first, second] = memory.turns;
    assert.deepEqual([memory.turns.length, first?.standsFor, first?.prompt, first?.plan, first?.attributes, first?.ordinal], [MAX_TURNS + 1 - 63, 64, 'p62', 'plan 62', { time: 't62' }, 63]);
    assert.deepEqual([first?.presented, second?.prompt], [{ start90k: 0, end90k: 64_000 }, 'p64']);
    assert.deepEqual(copy.condensations, [64]);
    for (let at = 0; at < 1_000; at++) memory.append(turn(`q${at}`, `q${at}`));
    assert.ok(memory.turns.length <= MAX_TURNS);
    assert.equal(memory.turns.reduce((sum, { standsFor }) => sum + standsFor, 0), MAX_TURNS + 1 + 1_000);
    assert.deepEqual([...copy.rows.keys()], memory.turns.map(({ ordinal }) => ordinal), 'and the copy on disk is as small');
    memory.write('q999', 'narration', 'x'.repeat(10_000));
    assert.equal(memory.turns.at(-1)?.narration.length, 2_000);
    memory.write('r0', 'plan', 'for nobody');
  });

  it('what was presented of a turn: from its first frame to the next one’s; what a rewind takes back is no part of it', () => {
    const memory = new PromptMemory();
    memory.append({ ...turn(null, 'desert'), from90k: 0 });
    memory.present(30_000);
    memory.append(turn('r1', 'city'));
    memory.shown('r1', 45_000);
    memory.present(40_000);
    const ranges = (): unknown[] => memory.turns.map(({ presented }) => presented && [presented.start90k, presented.end90k]);
    assert.deepEqual(ranges(), [[0, 40_000], null], 'made, and not seen yet');
    memory.present(60_000);
    assert.deepEqual(ranges(), [[0, 45_000], [45_000, 60_000]]);
    memory.append(turn('r2', undefined));
    memory.shown('r2', 60_000);
    memory.present(75_000);
    assert.deepEqual(ranges(), [[0, 45_000], [45_000, 60_000], [60_000, 75_000]]);
    memory.rewind(50_000);
    assert.deepEqual(ranges(), [[0, 45_000], [45_000, 50_000], null]);
    memory.present(52_000);
    assert.deepEqual(ranges(), [[0, 45_000], [45_000, 52_000], null]);
  });

  it('ranges never overlap, never lie, and end where the presented position is', () => {
    const steps = fc.array(fc.record({ kind: fc.constantFrom('ask', 'play', 'rewind'), by: fc.integer({ min: 1, max: 20 }) }), { maxLength: 60 });
    fc.assert(
      fc.property(steps, (all) => {
        const memory = new PromptMemory();
        memory.append({ ...turn(null, 'x'), from90k: 0 });
        let generated = 0;
        let presented = 0;
        all.forEach(({ kind, by }, index) => {
          if (kind === 'ask') {
            memory.append(turn(`r${index}`, 'y'));
            memory.shown(`r${index}`, generated);
          } else if (kind === 'play') {
            generated += by;
            presented = Math.max(presented, generated - (by % 5));
            memory.present(presented);
          } else {
            presented = generated = Math.max(0, presented - by);
            memory.rewind(presented);
          }
        });
        const ranges = memory.turns.flatMap((held) => (held.presented === null ? [] : [held.presented]));
        let end = 0;
        for (const range of ranges) {
          assert.ok(range.start90k === end && range.end90k > range.start90k, JSON.stringify(ranges));
          end = range.end90k;
        }
        assert.equal(end, presented);
      }),
      { numRuns: 500 },
    );
  });

  it('the past can be corrected and forgotten, the present can’t', () => {
    const copy = new Copy();
    const memory = new PromptMemory(copy);
    memory.append(turn(null, 'desert'));
    memory.append(turn('r1', 'city'));
    memory.settle('r1', 'applied');
    assert.throws(() => memory.edit(1, { prompt: 'town' }, 'now'), code('conflict'));
    assert.throws(() => memory.forget(1), code('conflict'));
    assert.throws(() => memory.edit(7, { prompt: 'town' }, 'now'), code('turn_not_found'));
    memory.edit(0, { prompt: 'dunes', narration: '' }, 'now');
    assert.deepEqual([memory.turns[0]?.prompt, memory.turns[0]?.edited, copy.rows.get(0)?.prompt], ['dunes', 'now', 'dunes']);
    memory.forget(0);
    assert.deepEqual([memory.turns.map(({ ordinal }) => ordinal), [...copy.rows.keys()]], [[1], [1]]);
    memory.append(turn('r2', 'forest'));
    assert.equal(memory.turns.at(-1)?.ordinal, 2, 'numbers are not used again');
    assert.throws(() => memory.forget(2), code('conflict'), 'asked for, and not shown yet');
  });

  it('an import takes the place of the past; what is in force goes on behind it; its requests are nobody’s here', () => {
    const copy = new Copy();
    const memory = new PromptMemory(copy);
    memory.append(turn(null, 'desert'));
    memory.append(turn('r1', null));
    memory.import(importedTurns({ turns: [{ requestId: 'r1', prompt: 'a forest', attributes: { place: 'forest' } }] }, 'then'), 'r1');
    assert.deepEqual(memory.turns.map(({ prompt, imported, ordinal }) => [prompt, imported, ordinal]), [['a forest', true, 2], ['a forest', false, 3]]);
    memory.write('r1', 'plan', 'said');
    assert.deepEqual(memory.turns.map(({ plan }) => plan), ['', 'said']);
    assert.deepEqual([...copy.rows.keys()], [2, 3]);
    const back = new PromptMemory();
    back.restore([...copy.rows].map(([ordinal, kept]) => ({ ordinal, turn: kept })));
    assert.deepEqual(back.turns, memory.turns);
    back.append(turn('r2', 'x'));
    assert.equal(back.turns.at(-1)?.ordinal, 4);
    memory.import(importedTurns({ turns: Array.from({ length: MAX_TURNS }, (_, at) => ({ prompt: `i${at}` })) }, 'then'), null);
    memory.append(turn('r3', 'x'));
    assert.deepEqual([memory.turns.length, memory.turns[0]?.standsFor], [MAX_TURNS, 3], 'with room for what comes');
  });

  it('what was in force: attributes of the last plan, and the words that no plan is known of', () => {
    const opening = (...turns: Parameters<typeof importedTurns>[0]['turns']) => {
      const { attributes, prompt } = openingOf({ turns }, importedTurns({ turns }, 'then'));
      return [attributes, prompt];
    };
    assert.deepEqual(opening({ prompt: 'a forest', attributes: { place: 'forest' } }), [{ place: 'forest' }, null]);
    assert.deepEqual(opening({ prompt: 'a forest' }, { prompt: 'at night' }, { prompt: 'at night' }), [null, 'a forest, at night']);
    assert.deepEqual(opening({ prompt: 'x', attributes: { place: 'forest' } }, { prompt: 'at night', outcome: 'failed' }, { prompt: 'rain' }), [{ place: 'forest' }, 'rain']);
    assert.deepEqual(opening({ prompt: 'y'.repeat(990) }, { prompt: 'z'.repeat(20) }), [null, 'z'.repeat(20)], 'the newest, where there is no room for all');
  });
});
