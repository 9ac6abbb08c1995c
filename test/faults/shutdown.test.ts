/** SIGTERM while people are connected. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Probe } from '../../probe/Probe.ts';
import { ApiClient } from '../e2e/api_client.ts';
import { DrivePage } from '../e2e/DrivePage.ts';
import { TestServer } from '../e2e/server.ts';
import { StreamClient } from '../e2e/StreamClient.ts';

const DRAIN_MS = 4_000;

describe('SIGTERM with live sessions', () => {
  let server: TestServer;
  let probe: Probe;

  before(async () => {
    server = await TestServer.start({ drainMs: DRAIN_MS, env: { SEGUE_ENGINE_ADMISSION_BOUND: '1' } }); // alone: it measures its costs while it starts
    probe = await Probe.launch();
  });

  after(async () => {
    await probe?.close();
    await server?.kill();
  });

  it('says goaway, ends the streams in order and exits 0 within the drain limit', async () => {
    const page = await DrivePage.open(probe, server);
    await page.join();
    const created = await new ApiClient(server).createSession({ prompt: 'city at night' });
    const client = await StreamClient.join(server.url, created.id, created.clientToken);
    await client.untilPicture('a picture over the WebSocket');

    const stopping = server.stop();
    const goaway = await client.until('goaway', ({ type }) => type === 'goaway', DRAIN_MS);
    assert.ok(goaway.type === 'goaway' && goaway.deadlineMs <= DRAIN_MS);
    await client.until('closed', ({ type }) => type === 'closed', DRAIN_MS + 2_000).catch((error: unknown) => {
      // The socket may close in the same tick in which it says so.
      if (client.closedWith === null) throw error;
    });
    await page.event('goaway in the browser', ({ event }) => event === 'goaway' || event === 'closed', DRAIN_MS);
    const exit = await stopping;

    assert.deepEqual({ code: exit.code, signal: exit.signal }, { code: 0, signal: null }, server.tail());
    assert.ok(exit.tookMs < DRAIN_MS + 2_000, `took ${Math.round(exit.tookMs)} ms of ${DRAIN_MS}`);
    const types = client.messages.map(({ type }) => type);
    assert.ok(types.indexOf('goaway') >= 0 && types.lastIndexOf('closed') > types.indexOf('goaway'), `order: ${types.slice(-6).join(', ')}`);
    assert.notEqual(client.closedWith, 1006, 'the socket was torn, not closed');
    await assert.rejects(fetch(`${server.url}/healthz`), 'something still listens');
    await page.close();
  });

  it('refuses new sessions while it drains', async () => {
    const draining = await TestServer.start({ drainMs: DRAIN_MS });
    const api = new ApiClient(draining);
    const created = await api.createSession({});
    const client = await StreamClient.join(draining.url, created.id, created.clientToken);
    await client.untilPicture('a picture');
    const stopping = draining.stop();
    await client.until('goaway', ({ type }) => type === 'goaway', DRAIN_MS);
    const refused = await api.call('POST', '/v1/sessions', { body: {} }).catch(() => null);
    // Either the port is closed already, or it says so.
    if (refused !== null) assert.deepEqual([refused.status, refused.error?.code], [503, 'draining']);
    assert.equal((await stopping).code, 0, draining.tail());
  });
});
