/** A share link, from the drive that it shares to its end: the real server, a client without a browser. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { FrameReceipt } from '../../src/protocol/frame_receipt.ts';
import type { MemoryView } from '../../src/protocol/prompt_memory.ts';
import type { CreatedSession, SessionView, Share } from '../../src/protocol/rest.ts';
import { ApiClient } from './api_client.ts';
import { StreamClient } from './StreamClient.ts';
import { TestServer } from './server.ts';

const BUSY_MS = 30_000;

describe('a share link', { timeout: 240_000 }, () => {
  let server: TestServer;
  let api: ApiClient;
  let driven: CreatedSession;
  let share: Share;
  let replay: CreatedSession & { readonly from90k: number; readonly to90k: number };
  let viewer: StreamClient;

  const until = async <T>(what: string, look: () => Promise<T | null>): Promise<T> => {
    const deadline = performance.now() + BUSY_MS;
    for (;;) {
      const found = await look();
      if (found !== null) return found;
      assert.ok(performance.now() < deadline, `${what}\n${server.tail()}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  };
  const picture = async (id: string, media90k: number, token: string): Promise<Buffer> => {
    const response = await fetch(`${server.url}/v1/sessions/${id}/frames/${media90k}`, { headers: { authorization: `Bearer ${token}` } });
    assert.equal(response.status, 200, await response.clone().text());
    return Buffer.from(await response.arrayBuffer());
  };

  before(async () => {
    server = await TestServer.start();
    api = new ApiClient(server);
    driven = await api.createSession({ prompt: 'a forest at noon', seed: 11 });
    const driver = await StreamClient.join(server.url, driven.id, driven.clientToken);
    await until('three seconds', async () => ((await api.session(driven.id)).committed90k > 3 * 90_000 ? true : null));
    assert.equal((await driver.request({ type: 'redirect', id: 'night', prompt: 'make it night' }, BUSY_MS)).type, 'applied');
    const from = (await api.session(driven.id)).committed90k;
    await until('two more', async () => ((await api.session(driven.id)).committed90k > from + 2 * 90_000 ? true : null));
    assert.equal((await driver.request({ type: 'interrupt', id: 'stop' }, BUSY_MS)).type, 'applied');
    await driver.close();
  });
  after(async () => {
    await viewer?.close().catch(() => undefined);
    await server?.kill();
  });

  it('is made by who drives, for what was seen', async () => {
    const answer = await api.call('POST', `/v1/sessions/${driven.id}/shares`, { token: driven.clientToken, body: { expiresInMs: 600_000 } });
    assert.equal(answer.status, 201, JSON.stringify(answer.body));
    share = answer.body as Share;
    const { presented90k } = await api.session(driven.id);
    assert.ok(share.from90k === 0 && share.to90k > 4 * 90_000 && share.to90k <= presented90k, JSON.stringify(share));
    assert.equal(share.url, `/#share=${share.token}`);
    for (const [body, code] of [[{ from90k: 5, to90k: 5 }, 'bad_request'], [{ from90k: presented90k + 90_000 }, 'not_kept'], [{ expiresInMs: 1 }, 'bad_request']] as const) {
      assert.equal((await api.call('POST', `/v1/sessions/${driven.id}/shares`, { body })).error?.code, code);
    }
    const { body } = await api.call('POST', `/v1/sessions/${driven.id}/tokens`, { body: { roles: ['watch'] } });
    assert.equal((await api.call('POST', `/v1/sessions/${driven.id}/shares`, { token: (body as { clientToken: string }).clientToken })).error?.code, 'forbidden');
  });

  it('opens nothing else', async () => {
    for (const [method, path] of [['GET', ''], ['GET', '/memory'], ['GET', '/frames/0'], ['POST', '/connections'], ['POST', '/interrupt'], ['POST', '/shares'], ['DELETE', '']] as const) {
      const answer = await api.call(method, `/v1/sessions/${driven.id}${path}`, { token: share.token, ...(method === 'POST' ? { body: {} } : {}) });
      assert.equal(answer.error?.code, 'unauthorized', `${method} ${path}`);
    }
    for (const token of [driven.clientToken, server.apiKey, `${share.token}x`, null]) assert.equal((await api.call('POST', '/v1/replays', { token })).error?.code, 'unauthorized');
  });

  it('plays it as a session of its own: from the beginning, from any moment, with its words and its frames', async () => {
    const answer = await api.call('POST', '/v1/replays', { token: share.token });
    assert.equal(answer.status, 201, JSON.stringify(answer.body));
    replay = answer.body as typeof replay;
    assert.deepEqual([replay.from90k, replay.to90k], [share.from90k, share.to90k]);
    viewer = await StreamClient.join(server.url, replay.id, replay.clientToken);
    await until('pictures and sound', async () => (['video', 'audio'].every((kind) => viewer.packets.some((packet) => packet.kind === kind)) ? true : null));
    const view = await api.session(replay.id);
    assert.deepEqual([view.program, view.replay], ['replay', { session: driven.id, from90k: share.from90k, to90k: share.to90k }]);
    const { turns } = (await api.call('GET', `/v1/sessions/${replay.id}/memory`, { token: replay.clientToken })).body as MemoryView;
    assert.deepEqual(turns.map(({ prompt }) => prompt), ['a forest at noon', 'make it night']);
    assert.ok(turns[1]!.presented !== null && turns[1]!.presented.start90k > 2 * 90_000);
    const to90k = turns[1]!.presented.start90k + 15_000;
    const sought = await viewer.request({ type: 'rewind', id: 'on', media90k: to90k }, BUSY_MS);
    assert.ok(sought.type === 'applied' && sought.how === 'rewind' && Math.abs(sought.media90k - to90k) <= 15_000, JSON.stringify(sought));
    assert.equal((await viewer.request({ type: 'pause', id: 'p' }, BUSY_MS)).type, 'applied');
    assert.equal((await viewer.request({ type: 'resume', id: 'r' }, BUSY_MS)).type, 'applied');
    const words = await viewer.request({ type: 'redirect', id: 'words', prompt: 'snow' }, BUSY_MS);
    assert.ok(words.type === 'error' && words.error.code === 'conflict', JSON.stringify(words));
    const [theirs, own] = await Promise.all([picture(replay.id, 90_000, replay.clientToken), picture(driven.id, 90_000, driven.clientToken)]);
    assert.ok(theirs.equals(own));
  });

  it('shares frames that have their receipts, to the last', async () => {
    const answer = await api.call('GET', `/v1/sessions/${driven.id}/frames/${share.to90k - 1}/receipt`, { token: driven.clientToken });
    const receipt = answer.body as FrameReceipt;
    assert.equal(answer.status, 200, JSON.stringify(answer.body));
    assert.match(receipt.plan.words, /night/);
    assert.deepEqual([receipt.seed, receipt.requests.active, receipt.latents.shape.length > 0], [11, ['night'], true]);
    const view = (await api.call('GET', `/v1/sessions/${driven.id}`)).body as SessionView;
    assert.equal(view.weightVersions?.length, 1);
  });

  it('ends with the session', async () => {
    const removed = await api.call('DELETE', `/v1/sessions/${driven.id}`);
    assert.equal(removed.status, 200, JSON.stringify(removed.body));
    await until('the replay to end', async () => (viewer.closedWith === null ? null : true));
    const again = await api.call('POST', '/v1/replays', { token: share.token });
    assert.ok(again.error?.code === 'not_kept' || again.error?.code === 'session_not_found', JSON.stringify(again.body));
  });
});
