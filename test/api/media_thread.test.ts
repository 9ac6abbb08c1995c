/** The server with the real media thread; only the engine is scripted. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, describe, it } from 'node:test';
import { MessageChannel } from 'node:worker_threads';
import { WebSocket } from 'ws';
import { DEFAULT_CONFIG, type Config } from '../../src/api/config_schema.ts';
import { mediaOptions } from '../../src/api/media_options.ts';
import { Server } from '../../src/api/Server.ts';
import { ThreadLink } from '../../src/api/ThreadLink.ts';
import { createLogger } from '../../src/observe/log.ts';
import type { ControlToMedia, MediaToControl } from '../../src/streams/messages.ts';
import { PROMPTS, ScriptedEngine } from '../sessions/scripted_links.ts';
import { KEY } from './server_rig.ts';

describe('server and media thread', () => {
  const engine = new ScriptedEngine();
  const { port1, port2 } = new MessageChannel();
  let server: Server;

  before(async () => {
    const log = createLogger({ level: 'silent' });
    const config: Config = { ...DEFAULT_CONFIG, port: 0, logLevel: 'silent', auth: { ...DEFAULT_CONFIG.auth, apiKeys: [KEY] }, drain: { deadlineMs: 5_000 } };
    const media = new ThreadLink<ControlToMedia, MediaToControl>({ name: 'media', url: new URL('../../src/media/media_thread.ts', import.meta.url), workerData: { enginePort: port2, options: mediaOptions(config) }, transferList: [port2], log });
    server = await Server.start({ config, root: '.', log, links: { engine, media, programs: ['drive'], prompts: PROMPTS } });
  });

  after(async () => {
    assert.equal(await server.close('the test is over'), true, 'did not end in order');
    port1.close();
  });

  async function call(method: string, path: string, body: unknown, token = KEY): Promise<{ status: number; body: { [key: string]: unknown } }> {
    const response = await fetch(server.url + path, { method, headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' }, body: JSON.stringify(body) });
    return { status: response.status, body: (await response.json()) as { [key: string]: unknown } };
  }

  it('fences, answers and closes over a WebSocket', async () => {
    const { body: created } = await call('POST', '/v1/sessions', {});
    const socket = new WebSocket(`${server.url.replace('http', 'ws')}/v1/sessions/${created['id'] as string}/stream?token=${created['clientToken'] as string}`);
    const texts: Record<string, unknown>[] = [];
    let wake = (): void => undefined;
    socket.on('message', (data, binary) => {
      if (!binary) texts.push((JSON.parse((data as Buffer).toString()) as { message: Record<string, unknown> }).message);
      wake();
    });
    const message = async (type: string, re?: string): Promise<Record<string, unknown>> => {
      for (;;) {
        const found = texts.find((text) => text['type'] === type && (re === undefined || text['re'] === re));
        if (found) return found;
        await new Promise<void>((woken) => (wake = woken));
      }
    };
    await once(socket, 'open');
    const send = (channel: string, text: unknown): void => socket.send(JSON.stringify({ channel, message: text }));
    send('control', { type: 'hello', id: 'h', protocol: 1 });
    assert.equal((await message('ready'))['epoch'], 0);
    send('input', { type: 'interrupt', id: 'i1' });
    send('control', { type: 'interrupt', id: 'i1' });
    assert.equal((await message('accepted', 'i1'))['epoch'], 1);
    assert.equal((await message('applied', 'i1'))['how'], 'interrupted');
    const rest = await call('POST', `/v1/sessions/${created['id'] as string}/redirect?wait=applied`, { prompt: 'city' });
    assert.deepEqual([rest.status, rest.body['type'], rest.body['epoch']], [200, 'applied', 2]);
    send('input', { type: 'action', sequence: -1 });
    const error = await message('error');
    assert.equal((error['error'] as { code: string }).code, 'bad_request');
    const closed = once(socket, 'close');
    await call('DELETE', `/v1/sessions/${created['id'] as string}`, {});
    const [code] = (await closed) as [number];
    assert.deepEqual([code, texts.at(-1)?.['type']], [1000, 'closed']);
    assert.equal(texts.filter(({ type, re }) => type === 'accepted' && re === 'i1').length, 1);
  });

  it('an offer that only begins as SDP is refused, and the session stays', async () => {
    const { body: created } = await call('POST', '/v1/sessions', {});
    const path = `/v1/sessions/${created['id'] as string}`;
    for (const sdp of ['v=0', 'v=0\r\nm=video x\r\n', `v=0\r\n${'a=x\r\n'.repeat(5_000)}`]) {
      const { status, body } = await call('POST', `${path}/connections`, { type: 'offer', sdp });
      assert.deepEqual([status, (body['error'] as { code: string }).code], [400, 'bad_sdp'], sdp.slice(0, 40));
    }
    const view = (await (await fetch(server.url + path, { headers: { authorization: `Bearer ${KEY}` } })).json()) as { state: string };
    assert.equal(view.state, 'connecting');
  });
});
