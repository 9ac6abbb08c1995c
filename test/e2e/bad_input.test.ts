/** What nobody should send. A neighbour drives on throughout, and must not notice. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { CreatedSession } from '../../src/protocol/rest.ts';
import { ApiClient } from './api_client.ts';
import { StreamClient } from './StreamClient.ts';
import { TestServer } from './server.ts';

/** Long enough to join with, short enough to see it expire. */
const TOKEN_TTL_MS = 3_000;
const EIGHT_MIB = 8 * 2 ** 20;
/** Three frame times, and what a loaded two-core machine delays any one delivery. */
const MAX_GAP_MS = 400;
const MAX_GROWTH_MIB = 64;

describe('bad input', () => {
  let server: TestServer;
  let api: ApiClient;
  let neighbour: StreamClient;
  let neighbourId: string;
  let victim: CreatedSession;
  let client: StreamClient;
  let watchedFrom: number;

  before(async () => {
    server = await TestServer.start({ env: { SEGUE_AUTH_TOKEN_TTL_MS: String(TOKEN_TTL_MS), SEGUE_ENGINE_ADMISSION_BOUND: '1' } });
    api = new ApiClient(server);
    const created = await api.createSession({ seed: 1 });
    neighbourId = created.id;
    neighbour = await StreamClient.join(server.url, created.id, created.clientToken);
    await neighbour.untilPicture('a first picture');
    victim = await api.createSession({ seed: 2 });
    client = await StreamClient.join(server.url, victim.id, victim.clientToken);
    await client.untilPicture('a first picture');
    await delay(1_000);
    watchedFrom = performance.now();
  });

  after(async () => {
    await client?.close();
    await neighbour?.close();
    const exit = await server?.stop();
    assert.equal(exit?.code, 0, server?.tail());
  });

  async function goesOn(): Promise<void> {
    await client.untilPicture('a picture after all that');
    const view = await api.session(victim.id);
    assert.equal(view.state, 'active');
  }

  /** `watch`: of somebody who may look on; another driver would take the victim's place. */
  async function freshToken(sessionId: string, roles?: readonly ['watch']): Promise<string> {
    const { status, body } = await api.call('POST', `/v1/sessions/${sessionId}/tokens`, { body: roles === undefined ? {} : { roles } });
    assert.equal(status, 201);
    return (body as { clientToken: string }).clientToken;
  }

  it('by REST is refused with the right code', async () => {
    const path = `/v1/sessions/${victim.id}`;
    const own = await freshToken(victim.id);
    const other = await freshToken(neighbourId);
    const cases: readonly { readonly name: string; readonly run: () => ReturnType<ApiClient['call']>; readonly status: number; readonly code: string }[] = [
      { name: 'malformed JSON', run: () => api.call('POST', '/v1/sessions', { body: '{"prompt":' }), status: 400, code: 'bad_json' },
      { name: 'an array for an object', run: () => api.call('POST', '/v1/sessions', { body: '[1,2]' }), status: 400, code: 'bad_request' },
      { name: 'a number for a string', run: () => api.call('POST', '/v1/sessions', { body: { prompt: 7 } }), status: 400, code: 'bad_request' },
      { name: 'an unknown field', run: () => api.call('POST', '/v1/sessions', { body: { promt: 'x' } }), status: 400, code: 'bad_request' },
      { name: 'an empty prompt', run: () => api.call('POST', `${path}/redirect`, { body: { prompt: '' } }), status: 400, code: 'bad_request' },
      { name: 'a prompt beyond its length', run: () => api.call('POST', `${path}/redirect`, { body: { prompt: 'x'.repeat(1001) } }), status: 400, code: 'bad_request' },
      { name: 'a prompt with only unknown words', run: () => api.call('POST', `${path}/redirect`, { body: { prompt: 'qwertz zyxwv' } }), status: 422, code: 'prompt_not_understood' },
      { name: 'a text input with only unknown words', run: () => api.call('POST', `${path}/inputs`, { body: { type: 'text', text: 'qwertz zyxwv' } }), status: 422, code: 'prompt_not_understood' },
      { name: 'a first prompt with only unknown words', run: () => api.call('POST', '/v1/sessions', { body: { prompt: 'qwertz zyxwv' } }), status: 422, code: 'prompt_not_understood' },
      { name: 'headers of 64 KiB', run: () => api.call('GET', path, { headers: { 'x-long': 'x'.repeat(64 * 1024) } }), status: 431, code: 'headers_too_large' },
      { name: 'an RTP time out of range', run: () => api.call('POST', `${path}/interrupt`, { body: { heldVideoRtp: -1 } }), status: 400, code: 'bad_request' },
      { name: 'another content type', run: () => api.call('POST', '/v1/sessions', { body: '<a/>', headers: { 'content-type': 'text/xml' } }), status: 415, code: 'unsupported_media_type' },
      { name: 'an 8 MiB body', run: () => api.post('/v1/sessions', EIGHT_MIB), status: 413, code: 'payload_too_large' },
      { name: 'an unknown model', run: () => api.call('POST', '/v1/sessions', { body: { model: 'nothing' } }), status: 404, code: 'model_not_found' },
      { name: 'an unknown session', run: () => api.call('GET', '/v1/sessions/ses_nothing'), status: 404, code: 'session_not_found' },
      { name: 'an unknown connection', run: () => api.call('PATCH', `${path}/connections/con_nothing`, { body: { candidate: null }, token: own }), status: 404, code: 'connection_not_found' },
      { name: 'an unknown path', run: () => api.call('GET', '/v1/nothing'), status: 404, code: 'not_found' },
      { name: 'another method', run: () => api.call('PUT', '/v1/sessions', { body: {} }), status: 405, code: 'method_not_allowed' },
      { name: 'no credentials', run: () => api.call('GET', path, { token: null }), status: 401, code: 'unauthorized' },
      { name: 'a wrong key', run: () => api.call('GET', path, { token: 'wrong-key-0123456789' }), status: 401, code: 'unauthorized' },
      { name: 'a token that was tampered with', run: () => api.call('GET', path, { token: `${own.slice(0, -4)}AAAA` }), status: 401, code: 'unauthorized' },
      { name: "another session's token", run: () => api.call('GET', path, { token: other }), status: 403, code: 'forbidden' },
      { name: 'a client token where a key is needed', run: () => api.call('POST', '/v1/sessions', { body: {}, token: own }), status: 403, code: 'forbidden' },
      { name: 'an offer that is not SDP', run: () => api.call('POST', `${path}/connections`, { body: { type: 'offer', sdp: 'hello' }, token: own }), status: 400, code: 'bad_sdp' },
      { name: 'an offer that only begins as SDP', run: () => api.call('POST', `${path}/connections`, { body: { type: 'offer', sdp: 'v=0\r\nm=video x\r\n' }, token: own }), status: 400, code: 'bad_sdp' },
      { name: 'an answer for an offer', run: () => api.call('POST', `${path}/connections`, { body: { type: 'answer', sdp: 'v=0\r\n' }, token: own }), status: 400, code: 'bad_sdp' },
    ];
    const wrong: string[] = [];
    for (const { name, run, status, code } of cases) {
      const answer = await run().catch((error: unknown) => ({ status: 0, error: null, body: String(error) }));
      if (answer.status !== status || answer.error?.code !== code) wrong.push(`${name}: ${answer.status} ${JSON.stringify(answer.body).slice(0, 200)}, expected ${status} ${code}`);
    }
    assert.deepEqual(wrong, []);
    const expired = await freshToken(victim.id);
    await delay(TOKEN_TTL_MS + 1_100); // a second more: the token's own times are whole seconds
    const late = await api.call('GET', path, { token: expired });
    assert.deepEqual([late.status, late.error?.code], [401, 'token_expired']);
    await goesOn();
  });

  it('on the channels is answered with the right code', async () => {
    const cases: readonly { readonly text: string; readonly code: string }[] = [
      { text: '{"channel":"control","message":', code: 'bad_json' },
      { text: '{"channel":"control","message":{"type":"redirect","id":"w1","prompt":5}}', code: 'bad_request' },
      { text: '{"channel":"control","message":{"type":"dance","id":"w2"}}', code: 'bad_request' },
      { text: '{"channel":"control","message":{"type":"interrupt"}}', code: 'bad_request' },
      { text: '{"channel":"nowhere","message":{"type":"ping","id":"w3"}}', code: 'bad_request' },
      { text: '{"channel":"input","message":{"type":"action","sequence":-1,"steer":9}}', code: 'bad_request' },
      { text: 'null', code: 'bad_request' },
      { text: '{"channel":"control","message":{"type":"redirect","id":"w4","prompt":"qwertz zyxwv"}}', code: 'prompt_not_understood' },
    ];
    for (const { text, code } of cases) {
      const from = client.messages.length;
      client.raw(text);
      await client.until(`an error for ${text.slice(0, 80)}`, (message) => client.messages.indexOf(message as never) >= from && message.type === 'error', 5_000);
      const answer = client.messages.slice(from).find((message) => message.type === 'error');
      assert.ok(answer?.type === 'error');
      assert.equal(answer.error.code, code, text);
      assert.ok(!client.messages.slice(from).some(({ type }) => type === 'accepted'), `${text} was accepted first`);
    }
    await goesOn();
  });

  it('an unknown protocol is refused with what is spoken here', async () => {
    const stranger = await StreamClient.connect(server.url, victim.id, await freshToken(victim.id, ['watch']));
    stranger.send({ type: 'hello', id: 'h', protocol: 99 });
    const answer = await stranger.until('a refusal', ({ type }) => type === 'error');
    assert.ok(answer.type === 'error');
    assert.equal(answer.error.code, 'unsupported_protocol');
    await stranger.close();
    await goesOn();
  });

  it('a WebSocket with a wrong or foreign token does not open', async () => {
    const foreign = await freshToken(neighbourId);
    for (const token of ['nonsense', foreign, '']) {
      await assert.rejects(StreamClient.connect(server.url, victim.id, token), token);
    }
    await goesOn();
  });

  it('an 8 MiB message closes its own connection only, and memory stays flat', async () => {
    const attack = async (): Promise<void> => {
      const stranger = await StreamClient.connect(server.url, victim.id, await freshToken(victim.id, ['watch']));
      const closed = once(stranger.socket, 'close');
      stranger.raw(JSON.stringify({ channel: 'control', message: { type: 'redirect', id: 'big', prompt: 'x'.repeat(EIGHT_MIB) } }));
      await closed;
      assert.equal(stranger.closedWith, 1009);
    };
    await attack();
    const before = residentMiB(server.pid);
    for (let turn = 0; turn < 6; turn++) await attack();
    await delay(500);
    const grown = residentMiB(server.pid) - before;
    assert.ok(grown < MAX_GROWTH_MIB, `${grown.toFixed(0)} MiB more after 48 MiB of refused messages`);
    await goesOn();
  });

  it('a client that lies about its position, or never tells it, is committed past and piles up nothing', async () => {
    await api.close(victim.id); // its place is needed
    const liar = await api.createSessionInLine({ seed: 3 });
    const lying = await StreamClient.join(server.url, liar.id, liar.clientToken, { reports: false });
    await lying.untilPicture('a first picture');
    const before = residentMiB(server.pid);
    const lies = setInterval(() => {
      const rtp = lying.packets.at(-1)?.rtp ?? 0;
      for (const videoRtp of [0, 0xffffffff, (rtp + 90_000 * 3600) % 2 ** 32, (rtp + 2 ** 31) % 2 ** 32]) lying.input({ type: 'position', videoRtp, audioRtp: 0 });
    }, 50);
    await delay(4_000);
    clearInterval(lies);
    const lied = await api.session(liar.id);
    assert.ok(lied.presented90k <= lied.sent90k, `presented ${lied.presented90k} beyond sent ${lied.sent90k}`);
    await delay(3_000); // silent now
    const silent = await api.session(liar.id);
    assert.ok(silent.committed90k > lied.committed90k + 90_000, `committed ${lied.committed90k} → ${silent.committed90k} in 3 s of silence`);
    assert.ok(silent.committed90k <= silent.sent90k);
    const answer = await lying.request({ type: 'redirect', id: lying.nextId(), prompt: 'desert at day', heldVideoRtp: 12345, heldAudioRtp: 0xfffffff0 });
    assert.equal(answer.type, 'applied', JSON.stringify(answer));
    const grown = residentMiB(server.pid) - before;
    assert.ok(grown < MAX_GROWTH_MIB, `${grown.toFixed(0)} MiB more after 7 s`);
    await lying.close();
    await api.close(liar.id);
  });

  it('left the neighbour alone', async () => {
    const pictures = neighbour.pictures(watchedFrom, performance.now());
    const gaps = pictures.slice(1).map((packet, at) => packet.at - pictures[at]!.at);
    const errors = neighbour.messages.filter(({ type }) => type === 'error' || type === 'closed');
    assert.deepEqual(errors, []);
    assert.ok(pictures.length > 100, `${pictures.length} pictures`);
    assert.ok(Math.max(...gaps) < MAX_GAP_MS, `longest gap ${Math.round(Math.max(...gaps))} ms`);
    const answer = await neighbour.request({ type: 'redirect', id: neighbour.nextId(), prompt: 'city at night' });
    assert.equal(answer.type, 'applied');
  });
});

/** Resident memory of a process, MiB. */
function residentMiB(pid: number): number {
  const [, kib] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  if (kib === undefined) throw new Error(`no VmRSS of ${pid}`);
  return Number(kib) / 1024;
}
