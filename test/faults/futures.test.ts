/** kill -9 right after somebody was told of a rewind or a fork: both futures are there, and whatever was told of either. The real server; the same protocol over a WebSocket. */
import assert from 'node:assert/strict';
import { after, before, describe, it, type TestContext } from 'node:test';
import type { FrameReceipt } from '../../src/protocol/frame_receipt.ts';
import type { CreatedSession, ForkedSession, SessionView } from '../../src/protocol/rest.ts';
import { segue } from '../cli/segue.ts';
import { StreamClient, type ServerMessage } from '../e2e/StreamClient.ts';
import { EventReader } from './EventReader.ts';
import { RestartableServer } from './RestartableServer.ts';

/** What a busy machine may add to any one step. */
const BUSY_MS = 20_000;
const FRAME_90K = 7_500;
const CHUNK_90K = 2 * FRAME_90K;

type Applied = Extract<ServerMessage, { type: 'applied' }>;

describe('a server that is killed when a future has just begun', { timeout: 300_000 }, () => {
  let rig: RestartableServer;
  before(async () => {
    rig = await RestartableServer.start();
  });
  after(() => rig?.close());

  const until = async (id: string, what: string, holds: (view: SessionView) => boolean): Promise<SessionView> => {
    const deadline = performance.now() + BUSY_MS;
    for (;;) {
      const view = await rig.api.session(id);
      if (holds(view)) return view;
      assert.ok(performance.now() < deadline, `${what}: ${JSON.stringify(view)}\n${rig.server.tail()}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  };
  const join = ({ id, clientToken }: Pick<CreatedSession, 'id' | 'clientToken'>) => StreamClient.join(rig.server.url, id, clientToken);
  const turns = async (id: string): Promise<readonly unknown[]> =>
    ((await rig.api.call('GET', `/v1/sessions/${id}/memory`)).body as { turns: readonly Record<string, unknown>[] }).turns.map(({ requestId, prompt, plan, outcome }) => [requestId, prompt, plan, outcome]);
  const events = async (id: string, type: string) => (await EventReader.all(rig.server.url, rig.server.apiKey, id)).filter((event) => event.type === type);

  const receipt = async (id: string, media90k: number, branch?: number): Promise<FrameReceipt> => {
    const { status, body } = await rig.api.call('GET', `/v1/sessions/${id}/frames/${media90k}/receipt${branch === undefined ? '' : `?branch=${branch}`}`);
    assert.equal(status, 200, JSON.stringify(body));
    return body as FrameReceipt;
  };

  /** All that is kept of a branch is what the model makes of it, at least as far as was told. */
  const replays = async (t: TestContext, id: string, branch: number, to90k: number): Promise<void> => {
    const { code, out, err } = await segue('replay', id, '--branch', String(branch), '--storage', rig.directory);
    t.diagnostic(`branch ${branch}: ${out.trim().replaceAll('\n', '; ')}`);
    assert.equal(code, 0, out + err);
    const chunks = Number(/^(\d+) chunks, bit-equal/m.exec(out)?.[1]);
    assert.ok(chunks * CHUNK_90K >= to90k, `branch ${branch}: ${chunks} chunks are there, ${to90k / CHUNK_90K} were told`);
    assert.doesNotMatch(out, /more are kept/);
  };

  it('after a rewind was told as applied: the story is in the new future, and the one that was left can be computed again', async (t) => {
    const created = await rig.api.createSessionInLine({ prompt: 'a forest at noon', seed: 21 });
    const first = await join(created);
    await until(created.id, 'something to go back in', ({ committed90k }) => committed90k >= 120_000);
    assert.equal((await first.request({ type: 'redirect', id: 'night', prompt: 'make it night' }, BUSY_MS)).type, 'applied');
    let left90k = 0;
    let client = first;
    for (const [round, to90k] of [97_500, 45_000, 0].entries()) {
      const before = await until(created.id, 'it has gone on', ({ committed90k }) => committed90k >= 120_000);
      const request = { type: 'rewind', id: `back${round}`, media90k: to90k } as const;
      const answer = (await client.request(request, BUSY_MS)) as Applied & { readonly at: number };
      assert.deepEqual([answer.type, answer.how, answer.media90k], ['applied', 'rewind', to90k]);
      const told = (await rig.api.session(created.id)).committed90k;
      await rig.killAndStart(() => client.close().catch(() => undefined));
      if (round === 0) left90k = before.committed90k;

      const dormant = await rig.api.session(created.id);
      assert.equal(dormant.state, 'orphaned');
      if (told <= to90k) assert.ok(dormant.committed90k >= told, `${told} was told as committed, ${dormant.committed90k} is there`);
      client = await join(created);
      const again = (await client.request(request, BUSY_MS)) as Applied & { readonly at: number };
      assert.deepEqual({ ...again, at: 0 }, { ...answer, at: 0 }, 'the same id has the same answer');
      await client.untilPicture('a picture', undefined, undefined, BUSY_MS);
      const rewound = (await events(created.id, 'session.rewound')).at(-1)!;
      assert.deepEqual([rewound['re'], rewound['branch']], [request.id, round + 1]);
      const went = client.messages.flatMap((message) => (message.type === 'frame' ? [message.media90k] : []));
      assert.ok(went[0]! <= to90k && went[0]! > to90k - CHUNK_90K, `goes on at ${went[0]}, was gone back to ${to90k}`);
      // The first chunk of a story is given, and the same in each.
      const later = Math.max(went[0]!, CHUNK_90K);
      await until(created.id, 'a chunk of the new future', ({ committed90k, presented90k }) => Math.min(committed90k, presented90k) >= later + CHUNK_90K);
      const [mine, theirs] = await Promise.all([receipt(created.id, later), receipt(created.id, later, round)]);
      assert.deepEqual([mine.branch, theirs.branch], [round + 1, 0], 'what was left is there from before it was gone back in, too');
      assert.notEqual(mine.latents.sha256, theirs.latents.sha256, 'another future than the one that was left');
    }
    // Of what was asked for in the future that was left there is nothing in this one.
    assert.deepEqual((await turns(created.id)).map((turn) => (turn as unknown[])[3]), ['open', 'rewound']);
    const { committed90k } = await until(created.id, 'it goes on', (view) => view.committed90k >= 90_000);
    await rig.killAndStart(async () => {
      await client.close().catch(() => undefined);
      await replays(t, created.id, 0, left90k);
      await replays(t, created.id, 3, committed90k);
    });
    await rig.api.call('DELETE', `/v1/sessions/${created.id}`);
  });

  it('after a fork was answered: either goes on from where it was committed, with the same past, and neither knows what becomes of the other', async () => {
    const parent = await rig.api.createSessionInLine({ prompt: 'a forest at noon', seed: 22 });
    const first = await join(parent);
    await until(parent.id, 'something to fork', ({ committed90k }) => committed90k >= 90_000);
    assert.equal((await first.request({ type: 'redirect', id: 'night', prompt: 'make it night' }, BUSY_MS)).type, 'applied');
    const before = await until(parent.id, 'it has gone on', ({ presented90k, committed90k }) => committed90k >= 120_000 && presented90k >= 150_000);
    const at90k = Math.floor((before.presented90k - 15_000) / FRAME_90K) * FRAME_90K;
    const { status, body } = await rig.api.call('POST', `/v1/sessions/${parent.id}/fork`, { body: { media90k: at90k } });
    const fork = body as ForkedSession;
    assert.deepEqual([status, fork.from], [201, { session: parent.id, media90k: at90k }]);
    const told = { parent: await rig.api.session(parent.id), fork: await rig.api.session(fork.id), turns: await turns(parent.id) };
    await rig.killAndStart(() => first.close().catch(() => undefined));

    const dormant = { parent: await rig.api.session(parent.id), fork: await rig.api.session(fork.id) };
    for (const who of ['parent', 'fork'] as const) {
      assert.equal(dormant[who].state, 'orphaned', who);
      assert.ok(dormant[who].committed90k >= told[who].committed90k, `${who}: ${told[who].committed90k} was told as committed, ${dormant[who].committed90k} is there`);
    }
    assert.ok(dormant.fork.committed90k > at90k - CHUNK_90K && dormant.fork.committed90k <= at90k, `${dormant.fork.committed90k} of a fork at ${at90k}`);
    assert.equal(dormant.fork.seed, 22);
    const clients = [await join(parent), await join(fork)];
    for (const [index, who] of (['parent', 'fork'] as const).entries()) {
      const frame = (await clients[index]!.until(`a frame of the ${who}`, ({ type }) => type === 'frame', BUSY_MS)) as Extract<ServerMessage, { type: 'frame' }>;
      assert.equal(frame.media90k, dormant[who].committed90k, `${who} goes on where it was committed`);
    }
    const [forked] = await events(fork.id, 'session.forked');
    assert.deepEqual([forked?.['from'], forked?.['media90k']], [parent.id, at90k]);
    assert.deepEqual(await turns(fork.id), told.turns, 'what was said is said in both');
    for (const media90k of [0, 60_000, dormant.fork.committed90k - FRAME_90K]) assert.equal((await receipt(fork.id, media90k)).latents.sha256, (await receipt(parent.id, media90k)).latents.sha256, `frame ${media90k}`);
    // Either has a future of its own.
    const answer = (await clients[1]!.request({ type: 'redirect', id: 'desert', prompt: 'a desert at dawn' }, BUSY_MS)) as Applied;
    assert.equal(answer.type, 'applied');
    assert.deepEqual(await turns(parent.id), told.turns);
    await until(parent.id, 'the parent goes on', ({ committed90k, presented90k }) => Math.min(committed90k, presented90k) >= dormant.parent.committed90k + CHUNK_90K);
    await until(fork.id, 'the fork goes on', ({ committed90k, presented90k }) => Math.min(committed90k, presented90k) >= answer.media90k + CHUNK_90K);
    const later = dormant.fork.committed90k + FRAME_90K;
    assert.notEqual((await receipt(fork.id, later)).latents.sha256, (await receipt(parent.id, later)).latents.sha256, 'another future');
    for (const client of clients) await client.close();
    await rig.api.call('DELETE', `/v1/sessions/${parent.id}`);
    assert.ok((await receipt(fork.id, 60_000)).latents.sha256, 'its past is its own');
    await rig.api.call('DELETE', `/v1/sessions/${fork.id}`);
  });
});
