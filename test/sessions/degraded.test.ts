import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { SessionRig } from './session_rig.ts';

describe('a session whose device is too slow', () => {
  it('tells every client, the event log and the API what it goes without, and when it does no more', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join();
    const watcher = await rig.connect(session, ['watch']);
    const degraded = { level: 2, rung: 'look_ahead', reason: '3 pictures were late within 2 s' } as const;
    rig.engine.emit({ type: 'session.degraded', sessionId: session.id, degraded });
    await rig.settle();
    for (const connection of [connectionId, watcher]) assert.deepEqual(rig.media.texts(connection, 'state').at(-1)?.['degraded'], degraded);
    assert.deepEqual(session.view.degraded, degraded);
    const logged = session.events.since(0).events.at(-1)!;
    assert.deepEqual([logged.type, logged.data['degraded']], ['session.updated', degraded]);
    rig.engine.emit({ type: 'session.degraded', sessionId: session.id, degraded: null });
    await rig.settle();
    assert.equal('degraded' in rig.media.texts(connectionId, 'state').at(-1)!, false);
    assert.equal('degraded' in session.view, false);
    await session.close('enough');
  });
});
