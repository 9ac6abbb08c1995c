/** Every row of the table of requests, by WebSocket and by REST, on the real server with the real model: its answers, once each, and what it does to what leaves. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import type { Static } from 'typebox';
import type { Applied, ControlMessage, FrameNotice, SessionRequest } from '../../src/protocol/channel.ts';
import type { ForkedSession } from '../../src/protocol/rest.ts';
import { ApiClient } from '../e2e/api_client.ts';
import { TestServer } from '../e2e/server.ts';
import { StreamClient } from '../e2e/StreamClient.ts';

type Answer = Static<typeof Applied>;

/** The most that any wait of a request may take. */
const SETTLE_MS = 5_000;
const PROMPTS = ['desert at day', 'coast at dawn', 'forest at night', 'city at dusk', 'snowy mountains at day'];

/** One session and its driver; requests go the way that is tested, media always by the WebSocket. */
class Drive {
  readonly id: string;
  readonly client: StreamClient;
  readonly #api: ApiClient;
  readonly #way: 'WebSocket' | 'REST';
  #count = 0;

  private constructor(id: string, client: StreamClient, api: ApiClient, way: 'WebSocket' | 'REST') {
    this.id = id;
    this.client = client;
    this.#api = api;
    this.#way = way;
  }

  static async begin(server: TestServer, api: ApiClient, way: 'WebSocket' | 'REST'): Promise<Drive> {
    const { id, clientToken } = await api.createSessionInLine({ seed: 5 });
    const client = await StreamClient.join(server.url, id, clientToken);
    await client.untilPicture('a first picture');
    await delay(800);
    return new Drive(id, client, api, way);
  }

  get prompt(): string {
    return PROMPTS[this.#count % PROMPTS.length]!;
  }

  get epoch(): Promise<number> {
    return this.#api.session(this.id).then(({ epoch }) => epoch);
  }

  get sent90k(): Promise<number> {
    return this.#api.session(this.id).then(({ sent90k }) => sent90k);
  }

  /** Asks, twice under one id: the second time changes nothing and gets the same answer. */
  async ask(body: SessionRequest extends infer R ? (R extends unknown ? Omit<R, 'id'> : never) : never): Promise<Answer> {
    const message = { ...body, id: `row.${++this.#count}` } as SessionRequest;
    const answers = this.#way === 'WebSocket' ? await this.#overWebSocket(message) : await this.#overRest(message);
    assert.equal(answers[0]!.type, 'applied', JSON.stringify(answers[0]));
    assert.deepEqual(answers[1], answers[0]);
    const told = this.client.messages.filter((answer) => 're' in answer && answer.re === message.id && ['accepted', 'applied', 'superseded', 'error'].includes(answer.type)).map(({ type }) => type);
    if (this.#way === 'WebSocket') assert.deepEqual(told, ['accepted', 'applied', 'accepted', 'applied'], 'once, and once more for who asks once more');
    return answers[0]!;
  }

  /** Another session that begins at an earlier moment; asked once, as each answer is another session. */
  async fork(media90k: number): Promise<{ readonly id: string; readonly clientToken: string }> {
    if (this.#way === 'REST') {
      const { body, status } = await this.#api.call('POST', `/v1/sessions/${this.id}/fork`, { body: { media90k } });
      assert.equal(status, 201, JSON.stringify(body));
      const { id, clientToken, from } = body as ForkedSession;
      assert.deepEqual(from, { session: this.id, media90k });
      return { id, clientToken };
    }
    const id = `row.${++this.#count}`;
    this.client.send({ type: 'fork', id, media90k });
    const forked = await this.client.until('the fork', (message) => 're' in message && message.re === id && message.type !== 'accepted', SETTLE_MS);
    assert.ok(forked.type === 'forked' && forked.media90k === media90k, JSON.stringify(forked));
    return { id: forked.session, clientToken: forked.clientToken };
  }

  async notice(what: string, matches: (notice: FrameNotice) => boolean): Promise<FrameNotice> {
    return (await this.client.until(what, (message) => message.type === 'frame' && matches(message), SETTLE_MS)) as FrameNotice;
  }

  async end(): Promise<void> {
    await this.client.close();
    await this.#api.close(this.id);
  }

  async #overWebSocket(message: ControlMessage): Promise<Answer[]> {
    const answer = (await this.client.request(message, SETTLE_MS)) as Answer & { at?: number };
    const before = this.client.messages.length;
    this.client.send(message);
    const again = (await this.client.until('the same answer', (other) => this.client.messages.indexOf(other as never) >= before && other.type === 'applied' && other.re === message.id, SETTLE_MS)) as Answer & { at?: number };
    const { at: _first, ...one } = answer;
    const { at: _second, ...two } = again;
    return [one, two] as Answer[];
  }

  async #overRest({ type, ...body }: SessionRequest): Promise<Answer[]> {
    const call = async (): Promise<Answer> => {
      const { status, body: answer } = await this.#api.call('POST', `/v1/sessions/${this.id}/${type}?wait=applied`, { body });
      assert.equal(status, 200, JSON.stringify(answer));
      return answer as Answer;
    };
    return [await call(), await call()];
  }
}

for (const way of ['WebSocket', 'REST'] as const) {
  describe(`requests by ${way}`, () => {
    let server: TestServer;
    let api: ApiClient;
    let drive: Drive;

    before(async () => {
      server = await TestServer.start();
      api = new ApiClient(server);
      drive = await Drive.begin(server, api, way);
    });

    after(async () => {
      await drive?.end();
      const exit = await server?.stop();
      assert.equal(exit?.code, 0, server?.tail());
    });

    it('interrupt fences and holds, a redirect goes on from there', async () => {
      const epoch = await drive.epoch;
      const interrupted = await drive.ask({ type: 'interrupt' });
      assert.deepEqual([interrupted.how, interrupted.epoch], ['interrupted', epoch + 1]);
      await delay(1_200);
      assert.ok(!drive.client.messages.some((message) => message.type === 'frame' && message.epoch === interrupted.epoch), 'no new frame');
      const now = performance.now();
      assert.ok(drive.client.pictures(now - 1_100, now).length >= 1, 'the held picture is repeated');
      const redirected = await drive.ask({ type: 'redirect', prompt: drive.prompt });
      assert.deepEqual([redirected.how, redirected.epoch], ['restart', epoch + 2]);
      const first = await drive.notice('the new turn', (notice) => notice.epoch === redirected.epoch);
      assert.equal(first.media90k, interrupted.media90k, 'where the picture was held');
    });

    it('rewind fences and goes on from the very frame of before, under what was in force there; a fork begins there beside it, without a fence', async () => {
      await delay(2_000);
      const { presented90k, prompt } = await api.session(drive.id);
      const to90k = Math.floor((presented90k - 90_000) / 7_500) * 7_500;
      const epoch = await drive.epoch;
      const fork = await drive.fork(to90k);
      assert.equal(await drive.epoch, epoch, 'the parent never notices');
      const joined = await StreamClient.join(server.url, fork.id, fork.clientToken);
      const first = (await joined.until('the fork’s first frame', ({ type }) => type === 'frame', SETTLE_MS)) as FrameNotice;
      assert.equal(first.media90k, to90k);
      assert.equal((await api.session(fork.id)).prompt, prompt);
      await joined.close();
      await api.close(fork.id);
      const back = await drive.ask({ type: 'rewind', media90k: to90k + 100 });
      assert.deepEqual([back.how, back.epoch, back.media90k], ['rewind', epoch + 1, to90k]);
      const notice = await drive.notice('the new future', (frame) => frame.epoch === back.epoch);
      assert.equal(notice.media90k, to90k);
      assert.ok(drive.client.messages.some((message) => message.type === 'session.rewound' && message.media90k === to90k));
    });

    it('hold stops and release goes on exactly there, under the same epoch', async () => {
      const epoch = await drive.epoch;
      const held = await drive.ask({ type: 'hold' });
      assert.deepEqual([held.how, held.epoch], ['held', epoch]);
      await delay(400);
      const sent90k = await drive.sent90k;
      await delay(800);
      assert.equal(await drive.sent90k, sent90k, 'nothing leaves');
      const released = await drive.ask({ type: 'release' });
      assert.deepEqual([released.how, released.epoch], ['released', epoch]);
      await delay(1_000);
      const moved = (await drive.sent90k) - sent90k;
      assert.ok(moved > 45_000 && moved <= 120_000, `${moved / 7500} frames in a second after the release`);
      assert.equal(await drive.epoch, epoch);
    });

    it('a hold that nobody ends is released after 2 s, and told', async () => {
      const since = performance.now();
      const { re } = await drive.ask({ type: 'hold' });
      const expired = await drive.client.until('its end', (message) => message.type === 'hold.expired' && message.re === re, SETTLE_MS);
      const took = expired.at - since;
      assert.ok(took >= 1_900 && took < 3_500, `${took} ms`);
      const sent90k = await drive.sent90k;
      await delay(1_000);
      assert.ok((await drive.sent90k) > sent90k + 45_000);
    });

    it('hold then interrupt commits to the position held', async () => {
      await drive.ask({ type: 'hold' });
      await delay(600);
      const sent90k = await drive.sent90k;
      const interrupted = await drive.ask({ type: 'interrupt' });
      // What is told of the position is told four times a second: it may lag by as much.
      const ahead = (interrupted.media90k - sent90k) / 7500;
      assert.ok(ahead >= -1 && ahead <= 4, `held ${ahead} frames after what was told to be sent`);
      const resumed = await drive.ask({ type: 'resume' });
      assert.equal(resumed.how, 'resumed');
      await drive.notice('it goes on', (notice) => notice.epoch === interrupted.epoch && notice.media90k >= interrupted.media90k);
    });

    it('a seamless redirect changes what flows, without a fence', async () => {
      const epoch = await drive.epoch;
      const answer = await drive.ask({ type: 'redirect', prompt: drive.prompt, seamless: true });
      assert.ok(['steer', 'restart', 'continue'].includes(answer.how), answer.how);
      assert.equal(answer.epoch, epoch);
      await drive.notice('the new words', (notice) => notice.conditioningVersion === answer.conditioningVersion);
    });

    it('cut begins a new shot from the start bank', async () => {
      const epoch = await drive.epoch;
      const answer = await drive.ask({ type: 'cut', prompt: drive.prompt });
      assert.deepEqual([answer.how, answer.epoch], ['cut', epoch + 1]);
      assert.ok(answer.predictedMs !== null && answer.predictedMs > 0);
      const first = await drive.notice('the new shot', (notice) => notice.epoch === answer.epoch);
      assert.deepEqual([first.origin, first.media90k], ['seed', answer.media90k]);
      await drive.notice('what is made from it', (notice) => notice.epoch === answer.epoch && notice.origin === 'generated');
    });

    it('blend goes over by degrees, and says when it is done', async () => {
      const epoch = await drive.epoch;
      const answer = await drive.ask({ type: 'blend', prompt: drive.prompt, chunks: 6 });
      assert.deepEqual([answer.how, answer.epoch], ['blend', epoch]);
      assert.ok(answer.predictedMs !== null && answer.predictedMs > 0);
      const done = await drive.client.until('its end', (message) => message.type === 'request.completed' && message.re === answer.re, SETTLE_MS);
      assert.ok(done.type === 'request.completed' && done.chunk === answer.chunk + 5 && done.epoch === epoch);
      const first = await drive.notice('its first frame', (notice) => notice.conditioningVersion === answer.conditioningVersion);
      assert.equal(first.media90k, answer.media90k);
    });

    it('pause holds, resume goes on', async () => {
      assert.equal((await drive.ask({ type: 'pause' })).how, 'paused');
      assert.equal((await api.session(drive.id)).state, 'paused');
      await delay(500);
      const sent90k = await drive.sent90k;
      await delay(700);
      assert.equal(await drive.sent90k, sent90k);
      assert.equal((await drive.ask({ type: 'resume' })).how, 'resumed');
      assert.equal((await api.session(drive.id)).state, 'active');
      await delay(1_000);
      assert.ok((await drive.sent90k) > sent90k);
    });

    it('an action shows in what flows, without an answer and without a fence', async () => {
      const epoch = await drive.epoch;
      const action = { type: 'action', sequence: 77, steer: 1, speed: 2, leftPresses: 0, rightPresses: 1 } as const;
      if (way === 'WebSocket') drive.client.input(action);
      else assert.equal((await api.call('POST', `/v1/sessions/${drive.id}/inputs`, { body: action })).status, 202);
      await drive.notice('the action', (notice) => notice.actionSequence === 77 && notice.epoch === epoch);
    });

    it('what is not understood is refused once, and the session goes on as it was', async () => {
      const before = await drive.epoch;
      for (const type of ['redirect', 'cut', 'blend'] as const) {
        const id = `nonsense.${type}`;
        if (way === 'WebSocket') {
          const answer = await drive.client.request({ type, id, prompt: 'xyzzy' }, SETTLE_MS);
          assert.ok(answer.type === 'error' && answer.error.code === 'prompt_not_understood');
        } else {
          const { status, error } = await api.call('POST', `/v1/sessions/${drive.id}/${type}`, { body: { id, prompt: 'xyzzy' } });
          assert.deepEqual([status, error?.code], [422, 'prompt_not_understood']);
        }
      }
      const epoch = await drive.epoch;
      assert.equal(epoch, way === 'REST' ? before : before + 2, 'by a channel a fence has come before the reading');
      const answer = await drive.ask({ type: 'redirect', prompt: drive.prompt });
      // Nothing was seen since the last fence: a chunk that is in flight there may be steered.
      assert.ok(answer.how === 'restart' || answer.how === 'steer', answer.how);
    });

    it('is counted by kind, and leaves nothing open', async () => {
      const metrics = await server.metrics();
      for (const kind of ['interrupt', 'redirect', 'cut', 'blend', 'hold', 'flow']) assert.ok(metrics.sum('segue_session_request_duration_seconds_count', { kind, answer: 'applied' }) >= 1, kind);
      assert.equal(metrics.sum('segue_media_stale_packets_total'), 0);
    });
  });
}
