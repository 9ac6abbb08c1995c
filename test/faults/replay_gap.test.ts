/** A share link to a story that the disk could not follow for a while: the real server plays it up to the gap and on from behind it. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, it } from 'node:test';
import type { CreatedReplay, Share } from '../../src/protocol/rest.ts';
import { StreamClient, type ServerMessage } from '../e2e/StreamClient.ts';
import { RestartableServer } from './RestartableServer.ts';

/** What a busy machine may add to any one step. */
const BUSY_MS = 20_000;
const CHUNK_90K = 15_000;
/** Chunks that are missing: 4 to 79, more than is read ahead and more than anybody waits. */
const GAP = { first: 4, behind: 80 } as const;

let rig: RestartableServer;
before(async () => {
  rig = await RestartableServer.start();
});
after(() => rig?.close());

it('a replay goes on behind what is not kept at once, and says so', async () => {
  const created = await rig.api.createSessionInLine({ prompt: 'a forest at noon', seed: 31 });
  const driver = await StreamClient.join(rig.server.url, created.id, created.clientToken);
  const deadline = performance.now() + BUSY_MS;
  while ((await rig.api.session(created.id)).committed90k < 12 * CHUNK_90K) {
    assert.ok(performance.now() < deadline, rig.server.tail());
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  await rig.killAndStart(async () => {
    await driver.close().catch(() => undefined);
    moveBehind(join(rig.directory, 'segue.db'));
  });
  const share = (await rig.api.call('POST', `/v1/sessions/${created.id}/shares`, { body: {} })).body as Share;
  const { body, status } = await rig.api.call('POST', '/v1/replays', { token: share.token });
  assert.equal(status, 201, JSON.stringify(body));
  const replay = body as CreatedReplay;
  assert.deepEqual(replay.gaps, [{ from90k: GAP.first * CHUNK_90K, to90k: GAP.behind * CHUNK_90K }]);
  const viewer = await StreamClient.join(rig.server.url, replay.id, replay.clientToken);
  const told = (await viewer.until('the gap', ({ type }) => type === 'replay.gap', BUSY_MS)) as Extract<ServerMessage, { type: 'replay.gap' }> & { readonly at: number };
  assert.deepEqual([told.from90k, told.to90k], [GAP.first * CHUNK_90K, GAP.behind * CHUNK_90K]);
  const frames = () => viewer.messages.flatMap((message) => (message.type === 'frame' ? [message] : []));
  await viewer.until('the last frame', (message) => message.type === 'frame' && message.media90k >= (GAP.behind + 1) * CHUNK_90K, BUSY_MS);
  const behind = frames().find(({ media90k }) => media90k >= GAP.behind * CHUNK_90K)!;
  assert.equal(behind.media90k, GAP.behind * CHUNK_90K, 'with the first frame behind it');
  assert.ok(behind.at - told.at < 5_000, `${Math.round(behind.at - told.at)} ms, not the ${(GAP.behind - GAP.first) / 6} s that are missing`);
  const before = frames().filter(({ media90k }) => media90k < GAP.behind * CHUNK_90K).map(({ media90k }) => media90k);
  assert.ok(before.every((media90k) => media90k < GAP.first * CHUNK_90K));
  await viewer.untilPicture('pictures of it', ({ epoch }) => epoch === behind.epoch, told.at, BUSY_MS);
  await viewer.close();
});

/** All chunks from the gap's first on are as many later as if a long stretch before them had been left out. */
function moveBehind(file: string): void {
  const by = GAP.behind - GAP.first;
  const database = new DatabaseSync(file);
  database.exec('DELETE FROM snapshots');
  database.exec("DELETE FROM tensors WHERE owner = 'snapshot'");
  // Twice, over numbers that nobody has: a row must not meet one that is still to be moved.
  for (const [more, from] of [[1_000_000, GAP.first], [by - 1_000_000, 1_000_000]] as const) {
    database.exec(`UPDATE chunks SET chunk = chunk + ${more}, start_90k = start_90k + ${more * CHUNK_90K}, end_90k = end_90k + ${more * CHUNK_90K} WHERE chunk >= ${from}`);
    database.exec(`UPDATE tensors SET chunk = chunk + ${more} WHERE owner = 'chunk' AND chunk >= ${from}`);
  }
  database.close();
}
