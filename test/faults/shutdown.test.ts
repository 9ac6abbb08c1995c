/** SIGTERM while people are connected. One session a server: what a loaded machine has room for isn't what is tested. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Probe } from '../../probe/Probe.ts';
import { ApiClient } from '../e2e/api_client.ts';
import { DrivePage } from '../e2e/DrivePage.ts';
import { TestServer } from '../e2e/server.ts';
import { StreamClient } from '../e2e/StreamClient.ts';

const DRAIN_MS = 4_000;
/** What a busy machine may add to any one step. */
const BUSY_MS = 6_000;

describe('SIGTERM with live sessions', () => {
  it('says goaway, ends the stream in order, refuses new sessions meanwhile, and exits 0 within the drain limit', async () => {
    const server = await TestServer.start({ drainMs: DRAIN_MS });
    try {
      const api = new ApiClient(server);
      const created = await api.createSession({ prompt: 'city at night' });
      const client = await StreamClient.join(server.url, created.id, created.clientToken);
      await client.untilPicture('a picture over the WebSocket', undefined, undefined, BUSY_MS + 10_000);

      const stopping = server.stop();
      const goaway = await told(client, 'goaway');
      assert.ok(goaway.type === 'goaway' && goaway.deadlineMs <= DRAIN_MS);
      const refused = await api.call('POST', '/v1/sessions', { body: {} }).catch(() => null);
      // Either the port is closed already, or it says so.
      if (refused !== null) assert.deepEqual([refused.status, refused.error?.code], [503, 'draining']);
      await told(client, 'closed');
      const exit = await stopping;

      assert.deepEqual({ code: exit.code, signal: exit.signal }, { code: 0, signal: null }, server.tail());
      assert.ok(exit.tookMs < DRAIN_MS + BUSY_MS, `took ${Math.round(exit.tookMs)} ms of ${DRAIN_MS}`);
      const types = client.messages.map(({ type }) => type);
      assert.ok(types.indexOf('goaway') >= 0 && types.lastIndexOf('closed') > types.indexOf('goaway'), `order: ${types.slice(-6).join(', ')}`);
      assert.notEqual(client.closedWith, 1006, 'the socket was torn, not closed');
      await assert.rejects(fetch(`${server.url}/healthz`), 'something still listens');
    } finally {
      await server.kill();
    }
  });

  it('tells the page, whose picture comes by WebRTC, and exits 0 within the drain limit', async () => {
    const server = await TestServer.start({ drainMs: DRAIN_MS }); // alone: it measures its costs while it starts
    const probe = await Probe.launch();
    try {
      const page = await DrivePage.open(probe, server);
      await page.join(30_000);
      const stopping = server.stop();
      await page.event('goaway in the browser', ({ event }) => event === 'goaway' || event === 'closed', DRAIN_MS + BUSY_MS);
      const exit = await stopping;
      assert.deepEqual({ code: exit.code, signal: exit.signal }, { code: 0, signal: null }, server.tail());
      assert.ok(exit.tookMs < DRAIN_MS + BUSY_MS, `took ${Math.round(exit.tookMs)} ms of ${DRAIN_MS}`);
      await page.close();
    } finally {
      await probe.close();
      await server.kill();
    }
  });
});

/** The socket may close in the same tick in which it says so: what it said counts. */
async function told(client: StreamClient, type: 'goaway' | 'closed') {
  const find = () => client.messages.find((message) => message.type === type);
  await client.until(type, (message) => message.type === type, DRAIN_MS + BUSY_MS).catch((error: unknown) => {
    if (client.closedWith === null || find() === undefined) throw error;
  });
  return find()!;
}
