import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { ActionState, type Steer } from '../../web-client/sdk/ActionState.ts';

describe('ActionState', () => {
  it('sends all that is held, under a sequence that counts the changes', () => {
    const state = new ActionState(2);
    assert.deepEqual(state.message(), { type: 'action', sequence: 0, steer: 0, speed: 2, leftPresses: 0, rightPresses: 0 });
    assert.equal(state.set({ steer: -1 }), true);
    assert.deepEqual(state.message(), { type: 'action', sequence: 1, steer: -1, speed: 2, leftPresses: 1, rightPresses: 0 });
    assert.deepEqual(state.message(), state.message());
  });

  it('can tell that somebody is there without changing anything', () => {
    const state = new ActionState(2);
    state.touch();
    assert.deepEqual(state.message(), { type: 'action', sequence: 1, steer: 0, speed: 2, leftPresses: 0, rightPresses: 0 });
  });

  it('shows a tap that was over before the next message', () => {
    const state = new ActionState(2);
    state.set({ steer: 1 });
    state.set({ steer: 0 });
    assert.deepEqual(state.message(), { type: 'action', sequence: 2, steer: 0, speed: 2, leftPresses: 0, rightPresses: 1 });
  });

  it('tells what did not change', () => {
    const state = new ActionState(2);
    assert.equal(state.set({ steer: 0, speed: 2 }), false);
    assert.equal(state.set({ speed: 3 }), true);
  });

  it('refuses values that mean nothing, and keeps the old ones', () => {
    const state = new ActionState(1);
    assert.throws(() => state.set({ steer: 2 as Steer }), TypeError);
    assert.throws(() => state.set({ speed: -1 as 0 }), TypeError);
    assert.equal(state.speed, 1);
  });

  it('property: the counters count exactly the changes into a direction', () => {
    fc.assert(fc.property(fc.array(fc.constantFrom<Steer>(-1, 0, 1)), (steers) => {
      const state = new ActionState(0);
      for (const steer of steers) state.set({ steer });
      const into = (wanted: Steer): number => steers.filter((steer, i) => steer === wanted && steer !== (steers[i - 1] ?? 0)).length;
      const message = state.message();
      assert.equal(message.leftPresses, into(-1));
      assert.equal(message.rightPresses, into(1));
    }));
  });
});
