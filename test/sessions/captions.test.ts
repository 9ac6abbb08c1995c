import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { SessionCaptions } from '../../src/sessions/SessionCaptions.ts';
import type { Session } from '../../src/sessions/Session.ts';
import { SessionRig } from './session_rig.ts';

function speaker(rig: SessionRig, session: Session) {
  return (stream: 'plan' | 'narration', text: string, { complete = false, requestId = null as string | null } = {}) =>
    rig.engine.emit({ type: 'text', sessionId: session.id, requestId, stream, text, complete, epoch: session.words.epoch });
}

/** What a connection was told of the model's words. */
function captions(rig: SessionRig, connectionId: string) {
  return rig.media.texts(connectionId, 'state').filter(({ type }) => String(type).startsWith('text.'));
}

describe('captions', () => {
  it('a session that was opened without a prompt tells its plan to whoever connects, and again to whoever comes back', async () => {
    const rig = new SessionRig();
    const session = await rig.create();
    speaker(rig, session)('plan', 'a road through a forest', { complete: true });
    for (let times = 0; times < 2; times++) {
      const connectionId = await rig.connect(session);
      rig.media.arrive(session.id, connectionId, 'control', { type: 'hello', id: 'h', protocol: 1 });
      assert.deepEqual(captions(rig, connectionId), [{ type: 'text.complete', stream: 'plan', text: 'a road through a forest' }]);
      session.disconnect(connectionId, 'away');
    }
  });

  it('who comes in the middle of the narration is told it so far, and then what is new', async () => {
    const rig = new SessionRig();
    const { session, connectionId: first } = await rig.join();
    const say = speaker(rig, session);
    say('plan', 'desert', { complete: true, requestId: 'r1' });
    say('narration', 'sand ', { requestId: 'r1' });
    say('narration', 'and ', { requestId: 'r1' });
    const second = await rig.connect(session, ['watch']);
    rig.media.arrive(session.id, second, 'control', { type: 'hello', id: 'h', protocol: 1 });
    say('narration', 'sun', { complete: true, requestId: 'r1' });
    assert.deepEqual(captions(rig, second), [
      { type: 'text.complete', stream: 'plan', text: 'desert', re: 'r1' },
      { type: 'text.delta', stream: 'narration', text: 'sand and ', re: 'r1', soFar: true },
      { type: 'text.complete', stream: 'narration', text: 'sand and sun', re: 'r1' },
    ]);
    assert.deepEqual(captions(rig, first).map(({ text }) => text), ['desert', 'sand ', 'and ', 'sand and sun']);
    assert.equal(session.memory.turns[0]?.narration, '', 'words of a request are not the opening’s');
  });

  it('a complete text is whole although its last piece is empty', () => {
    const captions = new SessionCaptions();
    captions.take({ requestId: null, stream: 'narration', text: 'we roll on', complete: false });
    assert.deepEqual(captions.take({ requestId: null, stream: 'narration', text: '', complete: true }), { type: 'text.complete', stream: 'narration', text: 'we roll on' });
  });

  it('a new plan ends the story of the one before, and text without end is cut', () => {
    const captions = new SessionCaptions();
    captions.take({ requestId: 'r1', stream: 'plan', text: 'forest', complete: true });
    captions.take({ requestId: 'r1', stream: 'narration', text: 'x'.repeat(5_000), complete: false });
    assert.equal(captions.messages()[1]?.text.length, 2_000);
    captions.take({ requestId: 'r2', stream: 'plan', text: 'city', complete: true });
    assert.deepEqual(captions.messages(), [{ type: 'text.complete', stream: 'plan', text: 'city', re: 'r2' }]);
  });
});
