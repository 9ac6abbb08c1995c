import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { AWAY_MS } from '../../src/sessions/SessionActivity.ts';
import type { Session } from '../../src/sessions/Session.ts';
import { SessionRig } from './session_rig.ts';

/** What was told of the session's activity, on the wire and in the event log. */
function told(rig: SessionRig, session: Session, connectionId: string): string[] {
  const logged = session.events.since(0).events.filter(({ type }) => type === 'activity').map(({ data }) => `${String(data['user'])} ${String(data['session'])}`);
  const sent = rig.media.texts(connectionId, 'state').filter(({ type }) => type === 'activity').map(({ user, session: state }) => `${String(user)} ${String(state)}`);
  assert.deepEqual(sent, logged.slice(logged.length - sent.length), 'the wire and the log say the same');
  return logged;
}

describe('activity', () => {
  it('follows a session from its first frame through requests, holds and pauses', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join();
    const flow = (epoch: number): void => rig.media.emit({ type: 'media.flowing', sessionId: session.id, epoch, media90k: 0 });
    const say = async (request: Record<string, unknown>): Promise<void> => {
      rig.media.arrive(session.id, connectionId, 'control', request);
      await rig.settle();
    };
    await rig.settle();
    flow(0);
    await say({ type: 'redirect', id: 'a', prompt: 'forest' });
    await rig.settle();
    await say({ type: 'hold', id: 'b' });
    await say({ type: 'release', id: 'c' });
    await say({ type: 'interrupt', id: 'd' });
    await say({ type: 'pause', id: 'e' });
    await say({ type: 'resume', id: 'f' });
    assert.deepEqual(told(rig, session, connectionId), ['listening thinking', 'listening generating', 'listening thinking', 'listening generating', 'listening holding', 'listening generating', 'listening interrupted', 'listening paused', 'listening generating']);
  });

  it('a person speaks, listens, goes away and comes back with a key', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join();
    await rig.settle();
    rig.media.emit({ type: 'voice.speaking', sessionId: session.id, speaking: true });
    await rig.after(2 * AWAY_MS);
    assert.equal(told(rig, session, connectionId).at(-1), 'speaking thinking', 'who speaks isn’t away');
    rig.media.emit({ type: 'voice.speaking', sessionId: session.id, speaking: false });
    await rig.after(AWAY_MS + 1);
    assert.equal(told(rig, session, connectionId).at(-1), 'away thinking');
    session.words.writeAction({ sequence: 9, steer: 1, speed: 2, leftPresses: 0, rightPresses: 1 });
    await rig.after(1000);
    assert.equal(told(rig, session, connectionId).at(-1), 'listening thinking');
  });

  it('without a connection the person is away and the session idle; closed, it leaves no timer', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join();
    await rig.settle();
    rig.media.emit({ type: 'connection.state', sessionId: session.id, connectionId, state: 'closed' });
    await rig.settle();
    assert.equal(session.events.since(0).events.findLast(({ type }) => type === 'activity')?.data['user'], 'away');
    assert.equal(session.events.since(0).events.findLast(({ type }) => type === 'activity')?.data['session'], 'idle');
    const closed = session.close('enough');
    await rig.after(10_000);
    await closed;
    assert.equal(rig.clock.pending, 0);
  });

  it('voice options reach the media thread, whoever may only watch doesn’t speak, and voices of a session without are refused', async () => {
    const rig = new SessionRig();
    const session = await rig.create({ voice: { minSpeechMs: 700 } });
    const opened = rig.media.sent.find((message) => message.type === 'session.open');
    assert.deepEqual(opened?.type === 'session.open' && opened.voice, { enabled: true, minSpeechMs: 700, releaseMs: 300, resumeMs: 2000, threshold: 0.5 });
    const watcher = await rig.connect(session, ['watch']);
    const speaker = await rig.connect(session, ['speak', 'watch']);
    const offers = rig.media.sent.flatMap((message) => (message.type === 'connection.offer' ? [[message.connectionId, message.drives, message.speaks]] : []));
    assert.deepEqual(offers, [[watcher, false, false], [speaker, false, true]]);
    assert.throws(() => session.hear(watcher, new Uint8Array(2)), { code: 'forbidden' });
    session.hear(speaker, Uint8Array.of(1, 2));
    assert.deepEqual(rig.media.sent.at(-1), { type: 'connection.voice', sessionId: session.id, connectionId: speaker, data: Uint8Array.of(1, 2) });
    const deaf = await rig.join({ voice: { enabled: false } });
    assert.throws(() => deaf.session.hear(deaf.connectionId, new Uint8Array(2)), { code: 'conflict' });
  });
});
