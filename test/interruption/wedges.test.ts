/** What could leave a session stuck: each of it settles within the protocol's bound, and the next turn works. On the real server, by WebSocket. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { SessionRequest } from '../../src/protocol/channel.ts';
import { ApiClient } from '../e2e/api_client.ts';
import { TestServer } from '../e2e/server.ts';
import { StreamClient } from '../e2e/StreamClient.ts';
import { seededRandom } from './seeded_random.ts';

const SETTLE_MS = 5_000;
const SEED = Number(process.env['SEGUE_SEED'] ?? 20261130);
const PROMPTS = ['desert at day', 'coast at dawn', 'forest at night', 'city at dusk'];
const FINAL = ['applied', 'superseded', 'error'];

describe(`wedges (seed ${SEED})`, () => {
  const random = seededRandom(SEED);
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]!;
  const shuffled = <T>(list: readonly T[]): T[] => list.map((value) => ({ value, at: random() })).sort((a, b) => a.at - b.at).map(({ value }) => value);
  let server: TestServer;
  let api: ApiClient;

  before(async () => {
    server = await TestServer.start();
    api = new ApiClient(server);
  });

  after(async () => {
    const exit = await server?.stop();
    assert.equal(exit?.code, 0, server?.tail());
  });

  async function driving(use: (client: StreamClient, id: string, token: string) => Promise<void>, options: { readonly reports?: boolean } = {}): Promise<void> {
    const { id, clientToken } = await api.createSessionInLine({ seed: 9 });
    const client = await StreamClient.join(server.url, id, clientToken, options);
    try {
      await client.untilPicture('a first picture');
      await delay(600);
      await use(client, id, clientToken);
    } finally {
      await client.close();
      await api.close(id);
    }
  }

  async function nextTurn(client: StreamClient): Promise<void> {
    const answer = await client.request({ type: 'redirect', id: client.nextId(), prompt: pick(PROMPTS) }, SETTLE_MS);
    assert.equal(answer.type, 'applied', JSON.stringify(answer));
    assert.ok(answer.type === 'applied');
    await client.untilPicture('the next turn', ({ epoch }) => epoch >= answer.epoch, performance.now(), SETTLE_MS);
  }

  const answersTo = (client: StreamClient, id: string) => client.messages.filter((message) => 're' in message && message.re === id && FINAL.includes(message.type));

  async function settled(client: StreamClient, ids: readonly string[]): Promise<void> {
    // What cannot be shown, because a pause came behind it, is ended by its watchdog after as long.
    const deadline = performance.now() + SETTLE_MS + 1_000;
    for (const id of ids) {
      while (answersTo(client, id).length === 0) {
        assert.ok(performance.now() < deadline, `${id} has no last answer after ${SETTLE_MS} ms`);
        await delay(10);
      }
    }
  }

  function any(id: string): SessionRequest {
    const prompt = pick(PROMPTS);
    return pick<SessionRequest>([
      { type: 'interrupt', id },
      { type: 'hold', id },
      { type: 'release', id },
      { type: 'redirect', id, prompt },
      { type: 'redirect', id, prompt, seamless: true },
      { type: 'cut', id, prompt },
      { type: 'blend', id, prompt, chunks: 4 },
      { type: 'pause', id },
      { type: 'resume', id },
    ]);
  }

  it('a position that is never reported', () =>
    driving(async (client) => {
      for (const type of ['hold', 'interrupt', 'cut', 'blend', 'redirect'] as const) {
        const request = type === 'hold' || type === 'interrupt' ? ({ type, id: client.nextId() } as const) : ({ type, id: client.nextId(), prompt: pick(PROMPTS) } as const);
        client.send(request);
        await settled(client, [request.id]);
        await delay(150);
      }
      await nextTurn(client);
    }, { reports: false }));

  it('a client that lies about what it saw', () =>
    driving(async (client, id) => {
      const lie = () => Math.floor(random() * 2 ** 32);
      const lies = setInterval(() => client.input({ type: 'position', videoRtp: lie(), audioRtp: lie() }), 30);
      for (let round = 0; round < 6; round++) {
        const type = pick(['interrupt', 'redirect', 'cut'] as const);
        const held = { heldVideoRtp: lie(), heldAudioRtp: lie() };
        const request: SessionRequest = type === 'interrupt' ? { type, id: client.nextId(), ...held } : { type, id: client.nextId(), prompt: pick(PROMPTS), ...held };
        client.send({ type: 'hold', id: client.nextId() });
        client.send(request);
        await settled(client, [request.id]);
        const { presented90k, sent90k, committed90k } = await api.session(id);
        assert.ok(presented90k <= sent90k + 2 * 7500 && committed90k <= sent90k + 2 * 7500, `${presented90k}, ${committed90k} of ${sent90k}`);
        await delay(200);
      }
      clearInterval(lies);
      await nextTurn(client);
    }, { reports: false }));

  it('messages twice and out of order', () =>
    driving(async (client) => {
      for (let round = 0; round < 8; round++) {
        const requests = Array.from({ length: 5 }, () => any(client.nextId()));
        const copies = requests.flatMap((request) => [
          { channel: 'control', message: request },
          { channel: 'control', message: request },
          ...(request.type === 'interrupt' || request.type === 'cut' ? [1, 2, 3].map(() => ({ channel: 'input', message: request })) : []),
        ]);
        for (const copy of shuffled(copies)) client.raw(JSON.stringify(copy));
        await settled(client, requests.map(({ id }) => id));
        for (const { id } of requests) assert.equal(new Set(answersTo(client, id).map((answer) => JSON.stringify({ ...answer, at: 0 }))).size, 1, `${id} has one last answer`);
      }
      await nextTurn(client);
    }));

  it('more than any queue takes', () =>
    driving(async (client) => {
      const requests = Array.from({ length: 300 }, () => any(client.nextId()));
      for (const request of requests) client.send(request);
      await settled(client, requests.map(({ id }) => id));
      const codes = new Set(requests.flatMap(({ id }) => answersTo(client, id).map((answer) => (answer.type === 'error' ? answer.error.code : answer.type))));
      assert.ok(codes.has('rate_limited') && codes.has('superseded') && codes.has('applied'), [...codes].join(', '));
      await delay(1_000); // as the refusal says
      await nextTurn(client);
    }));

  it('what comes after the close brings nothing back, and costs the next session nothing', async () => {
    await driving(async (client, id) => {
      client.send({ type: 'cut', id: 'unanswered', prompt: pick(PROMPTS) });
      const closing = api.close(id);
      for (let late = 0; late < 20; late++) client.send(any(`late.${late}`));
      await closing;
      assert.equal((await api.session(id)).state, 'closed');
      const { status, error } = await api.call('POST', `/v1/sessions/${id}/hold`, { body: {} });
      assert.ok(status === 410 || status === 404, `${status} ${error?.code}`);
      assert.ok(answersTo(client, 'unanswered').length <= 1);
    });
    await driving(nextTurn);
  });

  it('a driver who vanishes in the midst of a request, and comes back to its one answer', () =>
    driving(async (client, id, token) => {
      for (const type of ['cut', 'redirect', 'interrupt'] as const) {
        const request = type === 'interrupt' ? ({ type, id: client.nextId() } as const) : ({ type, id: `v.${client.nextId()}`, prompt: pick(PROMPTS) } as const);
        const gone = await StreamClient.join(server.url, id, token);
        gone.send(request);
        await delay(random() * 60);
        gone.socket.terminate();
        await delay(random() * 400);
        const back = await StreamClient.join(server.url, id, token);
        const answer = await back.request(request, SETTLE_MS);
        assert.ok(FINAL.includes(answer.type), JSON.stringify(answer));
        const again = await back.request(request, SETTLE_MS);
        assert.deepEqual({ ...again, at: 0 }, { ...answer, at: 0 });
        await nextTurn(back);
        await back.close();
      }
    }));

  it('two drivers, one taking over from the other in the midst of its requests', () =>
    driving(async (client, id, token) => {
      let driver = client;
      for (let round = 0; round < 4; round++) {
        const asked = any(`o${round}`);
        driver.send(asked);
        const newer = await StreamClient.join(server.url, id, token);
        await delay(100);
        assert.ok(FINAL.includes((await newer.request(asked, SETTLE_MS)).type));
        await nextTurn(newer);
        if (driver !== client) await driver.close();
        driver = newer;
      }
      assert.equal((await api.session(id)).connections, 1, 'the newest alone');
      await driver.close();
    }));

  it('a client that does not read for a while loses pictures, and nothing else', () =>
    driving(async (client) => {
      for (let round = 0; round < 3; round++) {
        client.socket.pause();
        const request = { type: 'redirect', id: client.nextId(), prompt: pick(PROMPTS) } as const;
        client.send({ type: 'interrupt', id: client.nextId() });
        client.send(request);
        await delay(1_500);
        client.socket.resume();
        await settled(client, [request.id]);
        await nextTurn(client);
      }
    }));

  it('left nothing behind', async () => {
    const metrics = await server.metrics();
    assert.equal(metrics.sum('segue_media_stale_packets_total'), 0);
    assert.deepEqual((await api.sessions()).filter(({ state }) => !['closed', 'failed'].includes(state)), []);
    const failed = (await api.sessions()).filter(({ state }) => state === 'failed');
    assert.deepEqual(failed, []);
  });
});
