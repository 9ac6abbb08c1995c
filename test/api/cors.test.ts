import assert from 'node:assert/strict';
import { request } from 'node:http';
import { after, before, describe, it } from 'node:test';
import { KEY, ServerRig, type Created } from './server_rig.ts';

const PAGE = 'https://play.example.com';

/** What a browser sends before a call that needs to be asked for. */
const preflight = (origin: string, method: string) => ({ token: null, headers: { origin, 'access-control-request-method': method, 'access-control-request-headers': 'authorization,content-type' } });

describe('a page of another origin', () => {
  let rig: ServerRig;
  let session: Created;
  before(async () => {
    rig = await ServerRig.start({ cors: { origins: [PAGE, 'http://localhost:5173'] } });
    session = await rig.create();
  });
  after(() => rig.close());

  it('that is on the list may ask first, and is told what it may send', async () => {
    const { status, headers } = await rig.call('OPTIONS', `/v1/sessions/${session.id}/redirect`, preflight(PAGE, 'POST'));
    assert.equal(status, 204);
    assert.equal(headers.get('access-control-allow-origin'), PAGE);
    assert.match(headers.get('access-control-allow-methods') ?? '', /\bPOST\b/);
    assert.match(headers.get('access-control-allow-headers') ?? '', /authorization.*content-type/);
    assert.ok(Number(headers.get('access-control-max-age')) > 0);
    assert.match(headers.get('vary') ?? '', /origin/i);
    assert.equal(headers.get('access-control-allow-credentials'), null, 'tokens, no cookies');
  });

  it('that is on the list may read answers and errors', async () => {
    const path = `/v1/sessions/${session.id}`;
    for (const [token, status] of [[session.clientToken, 200], ['nonsense', 401]] as const) {
      const answer = await rig.call('GET', path, { token, headers: { origin: 'http://localhost:5173' } });
      assert.deepEqual([answer.status, answer.headers.get('access-control-allow-origin')], [status, 'http://localhost:5173']);
      assert.match(answer.headers.get('access-control-expose-headers') ?? '', /retry-after/);
    }
  });

  it('that is on the list may read the events', async () => {
    const headers = await new Promise<NodeJS.Dict<string | string[]>>((resolve, reject) => {
      const asking = request(`${rig.url}/v1/sessions/${session.id}/events`, { agent: false, headers: { origin: PAGE, authorization: `Bearer ${KEY}` } }, (response) => {
        resolve(response.headers);
        asking.destroy();
      });
      asking.on('error', reject).end();
    });
    assert.deepEqual([headers['access-control-allow-origin'], headers['content-type']], [PAGE, 'text/event-stream; charset=utf-8']);
  });

  it('that is not on the list is let read nothing', async () => {
    for (const origin of ['https://evil.example.com', 'http://play.example.com', `${PAGE}.evil.com`, 'null']) {
      const asked = await rig.call('OPTIONS', `/v1/sessions/${session.id}`, preflight(origin, 'GET'));
      assert.deepEqual([asked.status, asked.headers.get('access-control-allow-origin')], [405, null], origin);
      const read = await rig.call('GET', `/v1/sessions/${session.id}`, { headers: { origin } });
      assert.equal(read.headers.get('access-control-allow-origin'), null, origin);
    }
  });

  it('a preflight for what is not there is told nothing', async () => {
    assert.equal((await rig.call('OPTIONS', '/v1/nothing', preflight(PAGE, 'GET'))).status, 404);
  });

  it('without a list none may, as before', async () => {
    const closed = await ServerRig.start();
    const asked = await closed.call('OPTIONS', '/v1/sessions', preflight(PAGE, 'POST'));
    assert.deepEqual([asked.status, asked.headers.get('access-control-allow-origin'), asked.headers.get('vary')], [405, null, null]);
    await closed.close();
  });

  it('a list of everybody is possible', async () => {
    const open = await ServerRig.start({ cors: { origins: ['*'] } });
    const answer = await open.call('GET', '/v1/models', { headers: { origin: 'https://anybody.example' } });
    assert.equal(answer.headers.get('access-control-allow-origin'), 'https://anybody.example');
    await open.close();
  });
});
