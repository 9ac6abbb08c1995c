import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { MAX_TURNS, PromptMemory } from '../../src/sessions/PromptMemory.ts';

const turn = (requestId: string | null, prompt: string | null) => ({ requestId, prompt, at: '2026-01-01T00:00:00Z', presented90k: 0, epoch: 0 });

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

  it('is bounded in turns and in words', () => {
    const memory = new PromptMemory();
    for (let at = 0; at < MAX_TURNS + 5; at++) memory.append(turn(`r${at}`, `p${at}`));
    assert.deepEqual([memory.turns.length, memory.dropped, memory.turns[0]?.prompt], [MAX_TURNS, 5, 'p5']);
    memory.write(`r${MAX_TURNS}`, 'narration', 'x'.repeat(10_000));
    assert.equal(memory.turns.find(({ requestId }) => requestId === `r${MAX_TURNS}`)?.narration.length, 2_000);
    memory.write('r0', 'plan', 'for nobody');
  });
});
