import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { MAX_EVENTS, MAX_READERS } from '../../src/sessions/SessionEventLog.ts';
import { EventReader } from './server_sent_events.ts';
import { ServerRig, type Created } from './server_rig.ts';

describe('server-sent events', () => {
  let rig: ServerRig;
  let session: Created;
  const headers = (more: Record<string, string> = {}): Record<string, string> => ({ authorization: `Bearer ${session.clientToken}`, ...more });

  before(async () => {
    rig = await ServerRig.start();
    session = await rig.create();
    await rig.join(session);
  });
  after(async () => assert.equal(await rig.close(), true));

  it('tell what happens, and resume where they were cut off without gap or repeat', async () => {
    const url = `${rig.url}/v1/sessions/${session.id}/events`;
    const first = await EventReader.open(url, headers());
    await rig.call('POST', `/v1/sessions/${session.id}/redirect?wait=applied`, { body: { prompt: 'city', id: 'r1' } });
    const applied = await first.until(({ type }) => type === 'request.applied');
    assert.equal(applied.data['re'], 'r1');
    const at = first.events.indexOf(applied);
    await first.close();
    await rig.call('POST', `/v1/sessions/${session.id}/interrupt?wait=applied`, { body: { id: 'i1' } });
    const second = await EventReader.open(url, headers({ 'last-event-id': applied.id! }));
    await second.until(({ type, data }) => type === 'request.applied' && data['re'] === 'i1');
    const ids = [...first.events.slice(0, at + 1), ...second.events].map(({ id }) => Number(id));
    assert.deepEqual(ids, Array.from({ length: ids.length }, (_, index) => index + 1));
    await second.close();
  });

  it('say how many are lost when the ring has gone on', async () => {
    for (let count = 0; count < MAX_EVENTS + 10; count++) rig.media.emit({ type: 'media.flowing', sessionId: session.id, epoch: 0, media90k: count });
    const reader = await EventReader.open(`${rig.url}/v1/sessions/${session.id}/events?since=1&token=${session.clientToken}`, {});
    const missed = await reader.until(({ type }) => type === 'events.missed');
    const next = await reader.until(({ id }) => id !== null);
    assert.equal(Number(missed.data['missed']), Number(next.id) - 2);
    await reader.close();
  });

  it('an API key is not taken from the address, and a nonsense id is refused', async () => {
    assert.equal((await rig.call('GET', `/v1/sessions/${session.id}/events?token=test-key-0123456789abcdef`, { token: null })).code, 'unauthorized');
    assert.equal((await rig.call('GET', `/v1/sessions/${session.id}/events`, { headers: { 'last-event-id': 'x' } })).code, 'bad_request');
  });

  it('readers are bounded, and one who leaves makes room', async () => {
    const url = `${rig.url}/v1/sessions/${session.id}/events`;
    const readers = await Promise.all(Array.from({ length: MAX_READERS }, () => EventReader.open(url, headers())));
    assert.equal((await rig.call('GET', `/v1/sessions/${session.id}/events`)).code, 'rate_limited');
    await Promise.all(readers.map((reader) => reader.close()));
    const deadline = performance.now() + 5_000;
    for (;;) {
      const reader = await EventReader.open(url, headers()).catch(() => null);
      if (reader) {
        await reader.close();
        break;
      }
      assert.ok(performance.now() < deadline, 'no room after all have left');
    }
  });

  it('end with the reason when the session closes', async () => {
    const short = await rig.create();
    const reader = await EventReader.open(`${rig.url}/v1/sessions/${short.id}/events?token=${short.clientToken}`, {});
    await rig.call('DELETE', `/v1/sessions/${short.id}`);
    await reader.untilEnd();
    assert.deepEqual([reader.events.at(-1)?.type, reader.events.at(-1)?.data['reason']], ['session.closed', 'closed by the API']);
    const late = await EventReader.open(`${rig.url}/v1/sessions/${short.id}/events?token=${short.clientToken}`, {});
    await late.untilEnd();
    assert.equal(late.events.at(-1)?.type, 'session.closed', 'who comes late still reads what happened');
  });
});
