/** kill -9 while somebody drives, and the server started again on what is on disk: single cases; at random moments: `killed.test.ts`. No browser: the same protocol over a WebSocket. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { SessionView } from '../../src/protocol/rest.ts';
import { StreamClient, type ServerMessage } from '../e2e/StreamClient.ts';
import { TestServer } from '../e2e/server.ts';
import { EventReader } from './EventReader.ts';
import { RestartableServer } from './RestartableServer.ts';

/** What a busy machine may add to any one step. */
const BUSY_MS = 20_000;

interface Memory {
  readonly turns: readonly { readonly requestId: string | null; readonly prompt: string | null; readonly plan: string; readonly outcome: string }[];
}

describe('a server that is killed and started again', () => {
  let rig: RestartableServer;

  before(async () => {
    rig = await RestartableServer.start();
  });
  after(() => rig?.close());

  const untilCommitted = async (id: string, atLeast90k: number): Promise<SessionView> => {
    const deadline = performance.now() + BUSY_MS;
    for (;;) {
      const view = await rig.api.session(id);
      if (view.committed90k >= atLeast90k) return view;
      assert.ok(performance.now() < deadline, `committed ${view.committed90k} of ${atLeast90k}\n${rig.server.tail()}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  };
  const memory = async (id: string): Promise<Memory> => (await rig.api.call('GET', `/v1/sessions/${id}/memory`)).body as Memory;

  it('the client comes back to the same world, where it was committed, with what was said and answered', async (t) => {
    const created = await rig.api.createSessionInLine({ prompt: 'a forest at noon', seed: 11 });
    const first = await StreamClient.join(rig.server.url, created.id, created.clientToken);
    await untilCommitted(created.id, 60_000);
    const redirect = { type: 'redirect', id: 'night', prompt: 'make it night' } as const;
    const answer = await first.request(redirect, BUSY_MS);
    assert.equal(answer.type, 'applied');
    const view = await untilCommitted(created.id, (answer as { media90k: number }).media90k + 45_000);
    const remembered = await memory(created.id);
    await rig.killAndStart(() => first.close().catch(() => undefined));

    const dormant = await rig.api.session(created.id);
    assert.equal(dormant.state, 'orphaned');
    assert.ok(dormant.committed90k >= view.committed90k, `nothing that was reported as committed is lost: ${dormant.committed90k} of ${view.committed90k}`);
    const begun = performance.now();
    const again = await StreamClient.join(rig.server.url, created.id, created.clientToken);
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
    const log = await EventReader.all(rig.server.url, rig.server.apiKey, created.id);
    assert.ok(log.some(({ type }) => type === 'session.resumed'));
    log.slice(1).forEach(({ sequence }, index) => assert.equal(sequence, log[index]!.sequence + 1, 'event numbers go on'));
    const resumed = log.find(({ type }) => type === 'session.resumed')!;
    assert.equal(resumed['exact'], true);
    await untilCommitted(created.id, dormant.committed90k + 30_000);
    await again.close();
    const removed = await rig.api.call('DELETE', `/v1/sessions/${created.id}`);
    assert.equal(removed.status, 200);
  });

  it('a redirect that was accepted and not yet shown is carried out after the restart, and answered once', async () => {
    const created = await rig.api.createSessionInLine({ prompt: 'a forest at noon', seed: 12 });
    const first = await StreamClient.join(rig.server.url, created.id, created.clientToken);
    await untilCommitted(created.id, 45_000);
    first.send({ type: 'redirect', id: 'desert', prompt: 'desert at night' });
    await first.until('applied', (message) => message.type === 'applied' && message.re === 'desert', BUSY_MS);
    await rig.killAndStart();

    const again = await StreamClient.join(rig.server.url, created.id, created.clientToken);
    const told = (await again.until('its plan', (message) => (message.type === 'text.complete' || message.type === 'text.delta') && message.stream === 'plan' && /desert/.test(message.text), BUSY_MS)) as ServerMessage;
    assert.ok(told);
    await again.untilPicture('a picture', undefined, undefined, BUSY_MS);
    const { turns } = await memory(created.id);
    assert.deepEqual(turns.map(({ requestId }) => requestId), [null, 'desert']);
    await again.close();
    await rig.api.close(created.id);
  });

  it('a session that was deleted is gone for good', async () => {
    const created = await rig.api.createSessionInLine({ seed: 13 });
    const client = await StreamClient.join(rig.server.url, created.id, created.clientToken);
    await untilCommitted(created.id, 15_000);
    await client.close();
    await rig.api.call('DELETE', `/v1/sessions/${created.id}`);
    await rig.killAndStart();
    assert.equal((await rig.api.call('GET', `/v1/sessions/${created.id}`)).status, 404);
  });

  it('told to stop, it ends in order, and the session can be come back to all the same', async () => {
    const created = await rig.api.createSessionInLine({ prompt: 'a forest at noon', seed: 15 });
    const client = await StreamClient.join(rig.server.url, created.id, created.clientToken);
    await untilCommitted(created.id, 45_000);
    const exit = await rig.server.stop();
    assert.deepEqual([exit.code, exit.signal], [0, null], rig.server.tail());
    await rig.start();
    const { state, committed90k } = await rig.api.session(created.id);
    assert.equal(state, 'orphaned');
    const again = await StreamClient.join(rig.server.url, created.id, created.clientToken);
    const frame = (await again.until('a frame', (message) => message.type === 'frame', BUSY_MS)) as ServerMessage & { media90k?: number };
    assert.equal(frame.media90k, committed90k);
    await again.close();
    await client.close().catch(() => undefined);
    await rig.api.close(created.id);
  });

  it('two servers on one directory: the second says why it does not start', async () => {
    await assert.rejects(TestServer.start({ env: { SEGUE_STORAGE_DIRECTORY: rig.directory } }), /in use by another process/);
  });
});
