import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { SESSION_STATES, type SessionStateName } from '../../src/protocol/rest.ts';
import { isEnding, isFinal, nextSessionState, type SessionTransition } from '../../src/sessions/session_state.ts';

const TRANSITIONS: readonly SessionTransition[] = ['open', 'opened', 'connected', 'paused', 'resumed', 'lost', 'close', 'closed', 'fail'];

// Written out in full, row by row, so that a change of the table is a change of this file. `.` keeps the state.
const EXPECTED: Readonly<Record<SessionStateName, string>> = {
  //           open      opened     connected paused    resumed   lost      close     closed    fail
  created: '   waiting   .          .         .         .         .         closing   .         failed',
  waiting: '   .         connecting .         .         .         .         closing   .         failed',
  connecting: '.         .          active    .         .         .         closing   .         failed',
  active: '    .         .          .         paused    .         orphaned  closing   .         failed',
  paused: '    .         .          .         .         active    orphaned  closing   .         failed',
  orphaned: '  .         .          active    .         .         .         closing   .         failed',
  closing: '   .         .          .         .         .         .         .         closed    failed',
  closed: '    .         .          .         .         .         .         .         .         .',
  failed: '    .         .          .         .         .         .         .         .         .',
};

describe('session state table', () => {
  for (const state of SESSION_STATES) {
    it(`from ${state}`, () => {
      const row = EXPECTED[state].trim().split(/\s+/);
      assert.deepEqual(
        TRANSITIONS.map((transition) => nextSessionState(state, transition) ?? '.'),
        row,
      );
    });
  }

  it('nothing leads out of a final state, and every other state can be closed or fail', () => {
    for (const state of SESSION_STATES) {
      const exits = TRANSITIONS.filter((transition) => nextSessionState(state, transition) !== null);
      if (isFinal(state)) assert.deepEqual(exits, []);
      else assert.ok(exits.includes('fail') && (exits.includes('close') || state === 'closing'));
      if (isFinal(state)) assert.ok(isEnding(state));
    }
  });
});
