import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { ClientTokens } from '../../src/api/ClientTokens.ts';
import { ERRORS } from '../../src/protocol/errors.ts';
import { KEY, OFFER, ServerRig, type Created } from './server_rig.ts';

const SECRET = 'a-secret-of-at-least-32-characters';

describe('REST', () => {
  let rig: ServerRig;
  let session: Created;
  let other: Created;

  before(async () => {
    rig = await ServerRig.start({ auth: { tokenSecret: SECRET } });
    [session, other] = [await rig.create({ prompt: 'desert' }), await rig.create()];
    await rig.join(session);
  });
  after(async () => assert.equal(await rig.close(), true));

  it('creates, lists, reads and closes sessions', async () => {
    const { status, body } = await rig.call('GET', `/v1/sessions/${session.id}`);
    assert.deepEqual([status, body['state'], body['prompt'], body['connections']], [200, 'active', 'desert', 1]);
    const list = await rig.call('GET', '/v1/sessions');
    assert.deepEqual((list.body['sessions'] as unknown as Created[]).map(({ id }) => id), [session.id, other.id]);
    const own = await rig.call('GET', `/v1/sessions/${session.id}/memory`, { token: session.clientToken });
    assert.equal((own.body['turns'] as unknown as { prompt: string }[])[0]?.prompt, 'desert');
  });

  it('every error of every kind has the form of the table', async () => {
    const path = `/v1/sessions/${session.id}`;
    const token = session.clientToken;
    const { token: expired } = await new ClientTokens({ secret: SECRET, ttlMs: -10_000 }).issue({ sessionId: session.id, roles: ['drive'] });
    const cases: readonly (readonly [name: string, method: string, path: string, options: Parameters<ServerRig['call']>[2], code: keyof typeof ERRORS, param?: string])[] = [
      ['malformed JSON', 'POST', '/v1/sessions', { body: '{"prompt":' }, 'bad_json'],
      ['an empty body', 'POST', '/v1/sessions', { body: '' }, 'bad_json'],
      ['an array', 'POST', '/v1/sessions', { body: '[1]' }, 'bad_request'],
      ['a prototype in the body', 'POST', '/v1/sessions', { body: '{"__proto__":{"x":1}}' }, 'bad_json'],
      ['a wrong type', 'POST', '/v1/sessions', { body: { prompt: 7 } }, 'bad_request', 'prompt'],
      ['an unknown key', 'POST', '/v1/sessions', { body: { promt: 'x' } }, 'bad_request', 'promt'],
      ['a nested fault', 'POST', '/v1/sessions', { body: { limits: { idleMs: 1 } } }, 'bad_request', 'limits.idleMs'],
      ['a budget of nothing', 'POST', '/v1/sessions', { body: { limits: { deviceMs: 0 } } }, 'bad_request', 'limits.deviceMs'],
      ['a budget that is no number', 'POST', '/v1/sessions', { body: { limits: { sentBytes: '1' } } }, 'bad_request', 'limits.sentBytes'],
      ['a budget of something else', 'POST', '/v1/sessions', { body: { limits: { gold: 1 } } }, 'bad_request', 'limits.gold'],
      ['a missing key', 'POST', `${path}/redirect`, { body: {} }, 'bad_request', 'prompt'],
      ['an unknown adapter', 'POST', '/v1/sessions', { body: { adapter: { id: 'sepia' } } }, 'adapter_not_usable', 'adapter.id'],
      ['an adapter that is too strong', 'POST', '/v1/sessions', { body: { adapter: { id: 'noir', scale: 1.6 } } }, 'adapter_not_usable', 'adapter.scale'],
      ['an unknown adapter of a redirect', 'POST', `${path}/redirect`, { body: { adapter: { id: 'sepia' } } }, 'adapter_not_usable', 'adapter.id'],
      ['an adapter that is not an object', 'POST', `${path}/redirect`, { body: { adapter: 7 } }, 'bad_request', 'adapter'],
      ['a wrong query', 'POST', `${path}/interrupt?wait=forever`, { body: {} }, 'bad_request', 'wait'],
      ['a bad request id', 'POST', `${path}/interrupt`, { body: { id: 'a b' } }, 'bad_request', 'id'],
      ['a wrong content type', 'POST', '/v1/sessions', { body: '<a/>', headers: { 'content-type': 'text/xml' } }, 'unsupported_media_type'],
      ['plain text', 'POST', '/v1/sessions', { body: '{}', headers: { 'content-type': 'text/plain' } }, 'unsupported_media_type'],
      ['8 MiB', 'POST', '/v1/sessions', { body: { prompt: 'x'.repeat(8 * 1024 * 1024) } }, 'payload_too_large'],
      ['an unknown model', 'POST', '/v1/sessions', { body: { model: 'none' } }, 'model_not_found', 'model'],
      ['an unknown program', 'POST', '/v1/sessions', { body: { program: 'none' } }, 'program_not_found', 'program'],
      ['a stamp outside test mode', 'POST', '/v1/sessions', { body: { stamp: true } }, 'not_found', 'stamp'],
      ['no credentials', 'GET', path, { token: null }, 'unauthorized'],
      ['a wrong key', 'GET', path, { token: 'not-the-key-0123456' }, 'unauthorized'],
      ['a forged token', 'GET', path, { token: `${token.slice(0, -5)}AAAAA` }, 'unauthorized'],
      ['an unsigned token', 'GET', path, { token: `${Buffer.from('{"alg":"none"}').toString('base64url')}.${token.split('.')[1]}.` }, 'unauthorized'],
      ['an expired token', 'GET', path, { token: expired }, 'token_expired'],
      ["another session's token", 'GET', path, { token: other.clientToken }, 'forbidden'],
      ["another session's token on a connection", 'POST', `${path}/connections`, { body: OFFER, token: other.clientToken }, 'forbidden'],
      ['a token where a key is needed', 'POST', '/v1/sessions', { body: {}, token }, 'forbidden'],
      ['an unknown session', 'GET', '/v1/sessions/ses_none', {}, 'session_not_found'],
      ['an unknown connection', 'PATCH', `${path}/connections/none`, { body: { candidate: null }, token }, 'connection_not_found'],
      ['a rejoin of an unknown connection', 'PUT', `${path}/connections/none`, { body: OFFER, token }, 'connection_not_found'],
      ['an offer that is no SDP', 'POST', `${path}/connections`, { body: { type: 'offer', sdp: 'hello' }, token }, 'bad_sdp'],
      ['an offer that the peer refuses', 'POST', `${path}/connections`, { body: { type: 'offer', sdp: 'v=0' }, token }, 'bad_sdp'],
      ['an answer for an offer', 'POST', `${path}/connections`, { body: { type: 'answer', sdp: 'v=0' }, token }, 'bad_sdp'],
      ['an unknown path', 'GET', '/v1/none', {}, 'not_found'],
      ['another method', 'PUT', '/v1/sessions', { body: {} }, 'method_not_allowed'],
      ['another method on a path with an id', 'DELETE', `${path}/interrupt`, {}, 'method_not_allowed'],
      ['a test route outside test mode', 'POST', '/v1/test/block', { body: { ms: 1 } }, 'not_found'],
      ['a path that is not well encoded', 'GET', '/v1/sessions/%E0%A4%A', {}, 'bad_request'],
    ];
    // Time passes all the same.
    const untouched = async () => ({ ...(await rig.call('GET', `/v1/sessions/${session.id}`)).body, usage: null });
    const before = await untouched();
    const wrong: string[] = [];
    for (const [name, method, at, options, code, param] of cases) {
      const answer = await rig.call(method, at, options);
      const error = answer.body['error'] as unknown as { message?: unknown; retryable?: unknown; param?: string } | undefined;
      const told = `${name}: ${answer.status} ${JSON.stringify(answer.body)}`;
      if (answer.code !== code || answer.status !== ERRORS[code].status) wrong.push(`${told}, expected ${code}`);
      else if (typeof error?.message !== 'string' || error.retryable !== ERRORS[code].retryable) wrong.push(`${told}, not of the table's form`);
      else if (param !== undefined && error.param !== param) wrong.push(`${told}, expected param ${param}`);
    }
    assert.deepEqual(wrong, []);
    assert.deepEqual(await untouched(), before, 'bad input touched the session');
  });

  it('what is not HTTP gets an error and a closed socket', async () => {
    const socket = connect(Number(new URL(rig.url).port), '127.0.0.1');
    socket.write('nonsense\r\n\r\n');
    const chunks: Buffer[] = [];
    socket.on('data', (chunk: Buffer) => chunks.push(chunk));
    await once(socket, 'close');
    assert.match(Buffer.concat(chunks).toString(), /^HTTP\/1.1 400 .*"code":"bad_request"/s);
  });

  it('requests are answered, once per id, and by whoever may drive', async () => {
    const path = `/v1/sessions/${session.id}`;
    const accepted = await rig.call('POST', `${path}/interrupt`, { body: { id: 'i1' }, token: session.clientToken });
    assert.deepEqual([accepted.status, accepted.body['type'], accepted.body['re']], [200, 'accepted', 'i1']);
    const again = await rig.call('POST', `${path}/interrupt`, { body: { id: 'i1' } });
    assert.deepEqual(again.body, accepted.body);
    const applied = await rig.call('POST', `${path}/redirect?wait=applied`, { body: { prompt: 'snowy mountains' } });
    assert.deepEqual([applied.body['type'], applied.body['how'], applied.body['epoch']], ['applied', 'restart', 2]);
    const noBody = await rig.call('POST', `${path}/pause`);
    assert.equal(noBody.body['type'], 'accepted');
    assert.equal((await rig.call('GET', path)).body['state'], 'paused');
    assert.equal((await rig.call('POST', `${path}/inputs?wait=applied`, { body: { type: 'text', text: 'city' } })).body['type'], 'applied');
    assert.equal((await rig.call('POST', `${path}/inputs`, { body: { type: 'action', sequence: 1, steer: 1, speed: 2, leftPresses: 0, rightPresses: 1 } })).status, 202);
    assert.equal(rig.media.sent.filter((message) => message.type === 'channel.inject' && message.channel === 'input').length, 1);
  });

  it('a watcher reads and may not drive, nor make itself a driver', async () => {
    const path = `/v1/sessions/${session.id}`;
    const { body } = await rig.call('POST', `${path}/tokens`, { body: { roles: ['watch'] } });
    const token = body['clientToken'] as unknown as string;
    assert.equal((await rig.call('GET', path, { token })).status, 200);
    assert.equal((await rig.call('POST', `${path}/interrupt`, { token })).code, 'forbidden');
    assert.equal((await rig.call('DELETE', path, { token })).code, 'forbidden');
    assert.equal((await rig.call('POST', `${path}/tokens`, { body: { roles: ['drive'] }, token })).code, 'forbidden');
  });

  it('too many requests by REST are told to wait', async () => {
    const codes = await Promise.all(Array.from({ length: 40 }, () => rig.call('POST', `/v1/sessions/${session.id}/interrupt`)));
    const limited = codes.find(({ code }) => code === 'rate_limited');
    assert.ok(limited);
    assert.ok(Number(limited.headers.get('retry-after')) >= 1);
  });

  it('trickles, rejoins and leaves', async () => {
    const path = `/v1/sessions/${other.id}/connections`;
    const token = other.clientToken;
    const first = await rig.join(other);
    assert.equal((await rig.call('PATCH', `${path}/${first}`, { body: { candidate: { candidate: 'candidate:1', sdpMid: '0', sdpMLineIndex: 0 } }, token })).status, 204);
    const second = (await rig.call('PUT', `${path}/${first}`, { body: OFFER, token })).body['id'] as unknown as string;
    assert.notEqual(second, first);
    assert.equal((await rig.call('DELETE', `${path}/${first}`, { token })).code, 'connection_not_found');
    assert.equal((await rig.call('DELETE', `${path}/${second}`, { token })).status, 204);
    assert.equal((await rig.call('GET', `/v1/sessions/${other.id}`)).body['state'], 'orphaned');
  });

  it('gives ICE servers, with TURN credentials that expire', async () => {
    const turn = await ServerRig.start({ ice: { servers: [{ urls: ['stun:stun.test'] }], turnUrls: ['turn:turn.test'], turnSecret: 's3cret' } });
    const { body } = await turn.call('GET', '/v1/ice-servers');
    const [stun, relay] = body['iceServers'] as unknown as { urls: string[]; username?: string; credential?: string }[];
    assert.deepEqual(stun, { urls: ['stun:stun.test'] });
    assert.ok(Number(relay?.username?.split(':')[0]) > Date.now() / 1000);
    assert.match(relay?.credential ?? '', /^[A-Za-z0-9+/]{27}=$/);
    await turn.close();
  });

  it('describes itself: models, programs, card, schemas, OpenAPI with every path', async () => {
    assert.equal(((await rig.call('GET', '/v1/models', { token: session.clientToken })).body['models'] as unknown as { id: string }[])[0]?.id, 'drive');
    assert.deepEqual((await rig.call('GET', '/v1/programs')).body['programs'], [{ id: 'drive', model: 'drive', takesVideo: false, interruption: {} }]);
    assert.equal((await rig.call('GET', '/v1/card')).body['fingerprint'], 'test');
    const schema = (await rig.call('GET', '/schema', { token: null })).body as unknown as { protocol: number; channels: { control: { fromClient: { anyOf: unknown[] } } } };
    assert.equal(schema.protocol, 1);
    assert.equal(schema.channels.control.fromClient.anyOf.length, 13);
    const { paths } = (await rig.call('GET', '/openapi.json', { token: null })).body as unknown as { paths: Record<string, Record<string, unknown>> };
    for (const path of ['/v1/sessions', '/v1/sessions/{id}', '/v1/sessions/{id}/interrupt', '/v1/sessions/{id}/hold', '/v1/sessions/{id}/release', '/v1/sessions/{id}/cut', '/v1/sessions/{id}/blend', '/v1/sessions/{id}/rewind', '/v1/sessions/{id}/connections/{connectionId}', '/v1/sessions/{id}/events', '/v1/ice-servers', '/metrics']) assert.ok(paths[path], path);
    assert.deepEqual(Object.keys(paths['/v1/sessions']!).toSorted(), ['get', 'post']);
  });

  it('serves a trace that Perfetto reads', async () => {
    rig.engine.emit({ type: 'trace', events: [{ type: 'trace.step', name: 'denoise', atMs: 10, durationMs: 5, sessionId: session.id, loopId: 'video', step: 2 }, { type: 'trace.scheduler', name: 'admit', atMs: 9, sessionId: session.id }] });
    const { body } = await rig.call('GET', `/v1/traces/${session.id}`);
    const events = body['traceEvents'] as unknown as { name: string; ph: string; ts: number; dur?: number }[];
    assert.deepEqual(events.filter(({ ph }) => ph !== 'M').map(({ name, ph, ts, dur }) => [name, ph, ts, dur]), [['denoise', 'X', 10_000, 5_000], ['admit', 'i', 9_000, undefined]]);
    assert.ok(events.some(({ ph, name }) => ph === 'M' && name === 'thread_name'));
  });

  it('has metrics, and probes', async () => {
    rig.engine.emit({ type: 'engine.stats', stats: { sessions: 2, unitsExecuted: 7, unitsDiscarded: 1, unitsFailed: 0, deadlinesMissed: 0, executorTakeovers: 0, deviceBusyMs: 5, blocksLive: 3, blockBytes: 10 } });
    const text = (await rig.call('GET', '/metrics', { token: null })).body['text'] as unknown as string;
    for (const line of [/^segue_engine_units_executed_total 7$/m, /^segue_engine_blocks_live 3$/m, /^segue_engine_device_busy_seconds_total 0.005$/m, /^segue_sessions_created_total 2$/m, /^segue_event_loop_delay_seconds\{quantile="0.99"\} [\d.]+$/m, /^segue_sessions\{state="active"\} \d$/m, /^segue_session_request_duration_seconds_count\{kind="interrupt",answer="applied"\} \d+$/m, /^segue_http_request_duration_seconds_count\{method="GET",route="\/v1\/sessions\/:id",status="200"\} \d+$/m]) assert.match(text, line);
    for (const [, name] of text.matchAll(/^# TYPE (\S+) /gm)) {
      assert.match(text, new RegExp(`^# HELP ${name} [A-Z][a-z].{10,}$`, 'm'), `${name} has no help`);
      assert.doesNotMatch(name!, /_ms\b|_ms_|milli/, `${name} is not in seconds`);
    }
    for (const [, name] of text.matchAll(/^# TYPE (\S+) counter$/gm)) assert.match(name!, /_total$/);
    assert.equal((await rig.call('GET', '/healthz', { token: null })).status, 200);
    assert.equal((await rig.call('GET', '/readyz', { token: null })).status, 200);
  });

  it('serves the page, and nothing outside its folder', async () => {
    const page = await rig.call('GET', '/', { token: null });
    assert.match(String(page.body['text']), /<title>page/);
    assert.match(page.headers.get('content-security-policy') ?? '', /default-src 'self'/);
    assert.equal((await rig.call('GET', '/%2e%2e/%2e%2e/etc/passwd', { token: null })).status, 404);
  });

  it('a closed session is gone for requests, and can still be read', async () => {
    const { status, body } = await rig.call('DELETE', `/v1/sessions/${other.id}`);
    assert.deepEqual([status, body['state'], body['reason']], [200, 'closed', 'closed by the API']);
    assert.equal((await rig.call('DELETE', `/v1/sessions/${other.id}`)).status, 200, 'closing twice is harmless');
    assert.equal((await rig.call('POST', `/v1/sessions/${other.id}/interrupt`)).code, 'session_closed');
    assert.equal((await rig.call('GET', `/v1/sessions/${other.id}`)).body['state'], 'closed');
    assert.equal((await rig.call('GET', `/v1/sessions/${session.id}`)).body['state'], 'active');
  });
});

describe('admission by REST', () => {
  it('503 with Retry-After, position and ticket; the ticket enters when one leaves', async () => {
    const rig = await ServerRig.start({}, 1);
    const first = await rig.create();
    const refused = await rig.call('POST', '/v1/sessions', { body: {} });
    const { position, ticket, retryAfterMs } = refused.body['error'] as unknown as { position: number; ticket: string; retryAfterMs: number };
    assert.deepEqual([refused.status, refused.code, position], [503, 'at_capacity', 1]);
    assert.equal(refused.headers.get('retry-after'), String(Math.ceil(retryAfterMs / 1000)));
    const still = await rig.call('POST', '/v1/sessions', { body: { ticket } });
    assert.equal((still.body['error'] as unknown as { ticket: string }).ticket, ticket);
    await rig.call('DELETE', `/v1/sessions/${first.id}`);
    assert.equal((await rig.call('POST', '/v1/sessions', { body: { ticket } })).status, 201);
    await rig.close();
  });
});

describe('waiting by REST', () => {
  it('who prefers to wait is told 202 and a place; the ticket enters when one leaves', async () => {
    const rig = await ServerRig.start({}, 1);
    const wait = { headers: { Prefer: 'return=representation, Respond-Async; x=1' } };
    const first = await rig.create({ limits: { wallMs: 60_000 } });
    const told = await rig.call('POST', '/v1/sessions', { body: {}, ...wait });
    const { ticket, position, retryAfterMs, estimateMs } = told.body as unknown as { ticket: string; position: number; retryAfterMs: number; estimateMs: number };
    assert.deepEqual([told.status, position, told.headers.get('preference-applied'), told.headers.get('retry-after')], [202, 1, 'respond-async', String(Math.ceil(retryAfterMs / 1000))]);
    assert.ok(estimateMs > 50_000 && estimateMs <= 60_000, `${estimateMs}`);
    const again = await rig.call('POST', '/v1/demo/sessions', { body: { ticket }, token: null, ...wait });
    assert.deepEqual([again.status, again.body['ticket'] as unknown], [202, ticket], 'on the demo route, too');
    assert.equal((await rig.call('POST', '/v1/sessions', { body: { ticket } })).code, 'at_capacity', 'others are told an error');
    assert.equal((await rig.call('POST', '/v1/sessions', { body: { model: 'none' }, ...wait })).code, 'model_not_found', 'what can never be is refused');
    await rig.call('DELETE', `/v1/sessions/${first.id}`);
    assert.equal((await rig.call('POST', '/v1/sessions', { body: { ticket }, ...wait })).status, 201);
    await rig.close();
  });

  it('a full line tells when to ask again, and no place', async () => {
    const rig = await ServerRig.start({ sessions: { maxWaiting: 0 } }, 1);
    await rig.create();
    const { status, body } = await rig.call('POST', '/v1/sessions', { body: {}, headers: { Prefer: 'respond-async' } });
    assert.deepEqual([status, Object.keys(body)], [202, ['retryAfterMs']]);
    await rig.close();
  });
});

describe('the demo', () => {
  it('needs no key, is limited per address, and its session ends when its visitor leaves', async () => {
    const rig = await ServerRig.start({ demo: { perMinute: 2 } }, 8);
    const { status, body } = await rig.call('POST', '/v1/demo/sessions', { body: {}, token: null });
    assert.equal(status, 201);
    const created = body as unknown as Created;
    const connectionId = await rig.join(created);
    assert.equal((await rig.call('DELETE', `/v1/sessions/${created.id}/connections/${connectionId}`, { token: created.clientToken })).status, 204);
    assert.equal((await rig.call('GET', `/v1/sessions/${created.id}`)).body['state'] !== 'orphaned', true);
    assert.equal((await rig.call('POST', '/v1/demo/sessions', { body: {}, token: null })).status, 201);
    assert.equal((await rig.call('POST', '/v1/demo/sessions', { body: {}, token: null })).code, 'rate_limited');
    await rig.close();
  });

  it('is not there when it is off', async () => {
    const rig = await ServerRig.start({ demo: { enabled: 'never' } });
    assert.equal((await rig.call('POST', '/v1/demo/sessions', { body: {}, token: null })).code, 'not_found');
    await rig.close();
  });
});

describe('test mode', () => {
  it('blocks the control thread after the answer, and forwards faults', async () => {
    const rig = await ServerRig.start({ test: { enabled: true } });
    const { id } = await rig.create({ stamp: true });
    assert.equal((await rig.call('POST', '/v1/test/fault', { body: { session: id, fault: 'executor_hang' }, token: null })).status, 200);
    assert.equal(rig.engine.sent.at(-1)?.type, 'fault.inject');
    assert.equal((await rig.call('POST', '/v1/test/fault', { body: { session: 'none', fault: 'executor_hang' }, token: null })).code, 'session_not_found');
    assert.equal((await rig.call('POST', '/v1/test/block', { body: { ms: 20 }, token: null })).status, 200);
    assert.equal((await rig.call('GET', '/healthz', { token: KEY })).status, 200);
    await rig.close();
  });
});
