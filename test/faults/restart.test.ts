/** kill -9 while somebody drives, and the server started again on what is on disk: single cases; at random moments: `killed.test.ts`. No browser: the same protocol over a WebSocket. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import type { SessionView } from '../../src/protocol/rest.ts';
import { ApiClient } from '../e2e/api_client.ts';
import { StreamClient, type ServerMessage } from '../e2e/StreamClient.ts';
import { TestServer } from '../e2e/server.ts';

/** What a busy machine may add to any one step. */
const BUSY_MS = 20_000;

interface Memory {
  readonly turns: readonly { readonly requestId: string | null; readonly prompt: string | null; readonly plan: string; readonly outcome: string }[];
}

describe('a server that is killed and started again', () => {
  let directory: string;
  let server: TestServer;
  let api: ApiClient;
  const start = async (): Promise<void> => {
    server = await TestServer.start({ env: { SEGUE_STORAGE_DIRECTORY: directory, SEGUE_STORAGE_SNAPSHOT_CHUNKS: '8', SEGUE_ENGINE_ADMISSION_BOUND: '1' } });
    api = new ApiClient(server);
  };

  before(async () => {
    directory = mkdtempSync(join(tmpdir(), 'segue-restart-'));
    await start();
  });
  after(async () => {
    await server?.kill();
    rmSync(directory, { recursive: true, force: true });
  });

  const committed = async (id: string): Promise<SessionView> => api.session(id);
  const untilCommitted = async (id: string, atLeast90k: number): Promise<SessionView> => {
    const deadline = performance.now() + BUSY_MS;
    for (;;) {
      const view = await committed(id);
      if (view.committed90k >= atLeast90k) return view;
      assert.ok(performance.now() < deadline, `committed ${view.committed90k} of ${atLeast90k}\n${server.tail()}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  };
  const memory = async (id: string): Promise<Memory> => (await api.call('GET', `/v1/sessions/${id}/memory`)).body as Memory;

  it('the client comes back to the same world, where it was committed, with what was said and answered', async (t) => {
    const created = await api.createSessionInLine({ prompt: 'a forest at noon', seed: 11 });
    const first = await StreamClient.join(server.url, created.id, created.clientToken);
    await untilCommitted(created.id, 60_000);
    const redirect = { type: 'redirect', id: 'night', prompt: 'make it night' } as const;
    const answer = await first.request(redirect, BUSY_MS);
    assert.equal(answer.type, 'applied');
    const view = await untilCommitted(created.id, (answer as { media90k: number }).media90k + 45_000);
    const remembered = await memory(created.id);
    await server.kill();
    await first.close().catch(() => undefined);

    await start();
    const dormant = await api.session(created.id);
    assert.equal(dormant.state, 'orphaned');
    assert.ok(dormant.committed90k >= view.committed90k, `nothing that was reported as committed is lost: ${dormant.committed90k} of ${view.committed90k}`);
    const begun = performance.now();
    const again = await StreamClient.join(server.url, created.id, created.clientToken);
    await again.untilPicture('a picture', undefined, undefined, BUSY_MS);
    t.diagnostic(`back with a picture after ${Math.round(performance.now() - begun)} ms, at ${(dormant.committed90k / 90_000).toFixed(2)} s of the story`);
    const ready = again.messages.find((message) => message.type === 'ready');
    assert.ok(ready?.type === 'ready' && ready.epoch > view.epoch, 'above every epoch of before');
    const frame = (await again.until('a frame', (message) => message.type === 'frame', BUSY_MS)) as ServerMessage & { media90k?: number };
    assert.equal(frame.media90k, dormant.committed90k, 'the story goes on where it was committed');

    const back = await memory(created.id);
    assert.deepEqual(back.turns.map(({ requestId, prompt, plan, outcome }) => [requestId, prompt, plan, outcome]), remembered.turns.map(({ requestId, prompt, plan, outcome }) => [requestId, prompt, plan, outcome]));
    const repeated = await again.request(redirect, BUSY_MS);
    assert.deepEqual({ ...repeated, at: 0 }, { ...answer, at: 0 }, 'the same id has the same answer');
    assert.equal((await memory(created.id)).turns.length, back.turns.length, 'and is not done again');
    const log = await readEvents(server, created.id);
    assert.ok(log.some(({ type }) => type === 'session.resumed'));
    log.slice(1).forEach(({ sequence }, index) => assert.equal(sequence, log[index]!.sequence + 1, 'event numbers go on'));
    const resumed = log.find(({ type }) => type === 'session.resumed')!;
    assert.equal(resumed['exact'], true);
    await untilCommitted(created.id, dormant.committed90k + 30_000);
    await again.close();
    const removed = await api.call('DELETE', `/v1/sessions/${created.id}`);
    assert.equal(removed.status, 200);
  });

  it('a redirect that was accepted and not yet shown is carried out after the restart, and answered once', async () => {
    const created = await api.createSessionInLine({ prompt: 'a forest at noon', seed: 12 });
    const first = await StreamClient.join(server.url, created.id, created.clientToken);
    await untilCommitted(created.id, 45_000);
    first.send({ type: 'redirect', id: 'desert', prompt: 'desert at night' });
    await first.until('applied', (message) => message.type === 'applied' && message.re === 'desert', BUSY_MS);
    await server.kill();

    await start();
    const again = await StreamClient.join(server.url, created.id, created.clientToken);
    const told = (await again.until('its plan', (message) => (message.type === 'text.complete' || message.type === 'text.delta') && message.stream === 'plan' && /desert/.test(message.text), BUSY_MS)) as ServerMessage;
    assert.ok(told);
    await again.untilPicture('a picture', undefined, undefined, BUSY_MS);
    const { turns } = await memory(created.id);
    assert.deepEqual(turns.map(({ requestId }) => requestId), [null, 'desert']);
    await again.close();
    await api.close(created.id);
  });

  it('a session that was deleted is gone for good', async () => {
    const created = await api.createSessionInLine({ seed: 13 });
    const client = await StreamClient.join(server.url, created.id, created.clientToken);
    await untilCommitted(created.id, 15_000);
    await client.close();
    await api.call('DELETE', `/v1/sessions/${created.id}`);
    await server.kill();
    await start();
    assert.equal((await api.call('GET', `/v1/sessions/${created.id}`)).status, 404);
  });

  it('told to stop, it ends in order, and the session can be come back to all the same', async () => {
    const created = await api.createSessionInLine({ prompt: 'a forest at noon', seed: 15 });
    const client = await StreamClient.join(server.url, created.id, created.clientToken);
    await untilCommitted(created.id, 45_000);
    const exit = await server.stop();
    assert.deepEqual([exit.code, exit.signal], [0, null], server.tail());
    await start();
    const { state, committed90k } = await api.session(created.id);
    assert.equal(state, 'orphaned');
    const again = await StreamClient.join(server.url, created.id, created.clientToken);
    const frame = (await again.until('a frame', (message) => message.type === 'frame', BUSY_MS)) as ServerMessage & { media90k?: number };
    assert.equal(frame.media90k, committed90k);
    await again.close();
    await client.close().catch(() => undefined);
    await api.close(created.id);
  });

  it('two servers on one directory: the second says why it does not start', async () => {
    await assert.rejects(TestServer.start({ env: { SEGUE_STORAGE_DIRECTORY: directory } }), /in use by another process/);
  });
});

async function readEvents(server: TestServer, id: string): Promise<({ readonly type: string; readonly sequence: number } & Record<string, unknown>)[]> {
  const abort = new AbortController();
  const response = await fetch(`${server.url}/v1/sessions/${id}/events`, { headers: { authorization: `Bearer ${server.apiKey}`, 'last-event-id': '0' }, signal: abort.signal });
  const decoder = new TextDecoder();
  let text = '';
  const timer = setTimeout(() => abort.abort(), 1_000);
  try {
    for await (const part of response.body!) text += decoder.decode(part as Uint8Array, { stream: true });
  } catch {
    // read for a second
  }
  clearTimeout(timer);
  return text.split('\n').flatMap((line) => (line.startsWith('data: ') ? [JSON.parse(line.slice(6)) as { type: string; sequence: number }] : []));
}
