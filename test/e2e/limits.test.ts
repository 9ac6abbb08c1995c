/** What ends a session by itself is announced on every channel, ends it in order, and frees its place at once. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Probe } from '../../probe/Probe.ts';
import type { CreatedSession, WaitingPlace } from '../../src/protocol/rest.ts';
import { EventReader } from '../faults/EventReader.ts';
import { ApiClient } from './api_client.ts';
import { DrivePage } from './DrivePage.ts';
import { TestServer } from './server.ts';
import { StreamClient } from './StreamClient.ts';

/** What a busy machine may add. */
const BUSY_MS = 20_000;
const WAIT = { headers: { prefer: 'respond-async' } };

describe('limits of a session', () => {
  let server: TestServer;
  let api: ApiClient;

  before(async () => {
    server = await TestServer.start({ maxSessions: 1, env: { SEGUE_SESSIONS_IDLE_MS: '8000', SEGUE_SESSIONS_IDLE_WARNING_MS: '6000' } });
    api = new ApiClient(server);
  });

  after(async () => {
    const exit = await server?.stop();
    assert.equal(exit?.code, 0, server?.tail());
  });

  it('device time: used, warned of, and at an end; whoever waits gets the place', async (t) => {
    const { id, clientToken } = await api.createSessionInLine({ seed: 1, limits: { deviceMs: 1_500 } });
    const client = await StreamClient.join(server.url, id, clientToken);
    const reader = new EventReader(server.url, server.apiKey, id, 0);
    const present = setInterval(() => client.send({ type: 'resume', id: client.nextId() }), 2_000); // a fast device takes longer than the idle time to use its budget
    t.after(() => clearInterval(present));
    const { status, body } = await api.call('POST', '/v1/sessions', { body: {}, ...WAIT });
    const { ticket, position } = body as WaitingPlace;
    assert.deepEqual([status, position], [202, 1]);
    const warning = await client.until('a warning', ({ type }) => type === 'budget', BUSY_MS);
    assert.ok(warning.type === 'budget' && warning.resource === 'deviceMs' && warning.used >= 1_200 && warning.limit === 1_500, JSON.stringify(warning));
    const closed = await client.until('the end', ({ type }) => type === 'closed', BUSY_MS);
    assert.ok(closed.type === 'closed' && closed.code === 'budget_exhausted', JSON.stringify(closed));
    const view = await api.session(id);
    assert.deepEqual([view.state === 'closed' || view.state === 'closing', view.code], [true, 'budget_exhausted']);
    assert.ok(view.usage!.deviceMs >= 1_500 && view.usage!.sentBytes > 10_000 && view.usage!.wallMs > 1_000, JSON.stringify(view.usage));
    const entered = await api.call('POST', '/v1/sessions', { body: { ticket }, ...WAIT });
    assert.equal(entered.status, 201, JSON.stringify(entered.body));
    await api.close((entered.body as CreatedSession).id);
    await reader.stop();
    const types = reader.events.map(({ type }) => type);
    assert.ok(types.includes('session.budget') && types.at(-1) === 'session.closed', types.join(', '));
    await client.close();
  });

  it('nobody does anything: told on the WebSocket and in the event log, and whoever answers stays', async () => {
    const { id, clientToken } = await api.createSessionInLine({ seed: 3, limits: { idleMs: 4_000 } });
    const client = await StreamClient.join(server.url, id, clientToken);
    const reader = new EventReader(server.url, server.apiKey, id, 0);
    await client.until('a warning', ({ type }) => type === 'idle', BUSY_MS);
    await client.request({ type: 'resume', id: 'here' });
    await delay(2_500);
    assert.equal((await api.session(id)).state, 'active');
    const closed = await client.until('the end', ({ type }) => type === 'closed', BUSY_MS);
    assert.match(closed.type === 'closed' ? closed.reason : '', /idle for 4 s/);
    await reader.stop();
    assert.ok(reader.events.filter(({ type }) => type === 'session.idle').length >= 2);
    await client.close();
  });

  it('in a browser, over WebRTC: asked whether somebody is there, and a press is enough', async () => {
    const probe = await Probe.launch();
    try {
      const page = await DrivePage.open(probe, server, { query: 'seed=4', ear: false });
      await page.join();
      await page.probe.page.getByText('Still there?').waitFor({ timeout: BUSY_MS });
      await page.probe.page.getByRole('button', { name: 'I’m here' }).click();
      await delay(4_000);
      assert.equal((await page.session()).state, 'active');
      await page.probe.page.getByText('Idle for 8 s').waitFor({ timeout: BUSY_MS });
      assert.deepEqual(page.probe.errors, []);
      await page.close();
    } finally {
      await probe.close();
    }
  });
});
