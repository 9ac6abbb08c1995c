/**
 * kill -9 at random moments, while two sessions are redirected, cut, blended, interrupted, held and typed to: what was told as committed is there, the same tokens come
 * back, answers by id stay as they were, events go on by number, and the database opens whole. `SEGUE_SOAK_KILLS`: how often.
 */
import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { seededRandom } from '../interruption/seeded_random.ts';
import { LiveStory } from './LiveStory.ts';
import { RestartableServer } from './RestartableServer.ts';

const ROUNDS = Number(process.env['SEGUE_SOAK_KILLS'] ?? 20);
const SEED = Number(process.env['SEGUE_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
const SESSIONS = 2;
/** From that everybody is there to the kill: from within the first requests to after several snapshots. */
const LIVE_MS = { least: 50, most: 1_500 };

describe(`a server that is killed ${ROUNDS} times (seed ${SEED})`, () => {
  const random = seededRandom(SEED);
  let rig: RestartableServer;

  before(async () => {
    rig = await RestartableServer.start();
  });
  after(() => rig?.close());

  it('loses nothing that it has told', async (t) => {
    const stories: LiveStory[] = [];
    for (let index = 0; index < SESSIONS; index++) stories.push(await LiveStory.begin(rig.api, SEED + index, random));
    await Promise.all(stories.map((story) => story.join(rig.server)));
    for (let round = 1; round <= ROUNDS; round++) {
      const forMs = LIVE_MS.least + random() * (LIVE_MS.most - LIVE_MS.least);
      await Promise.all(stories.map((story) => story.beRestless(forMs, rig.api)));
      await rig.killAndStart(async () => {
        await Promise.all(stories.map((story) => story.lost()));
        checkDatabase(rig.directory);
      });
      const dormant = await Promise.all(stories.map(({ id }) => rig.api.session(id)));
      assert.deepEqual(dormant.map(({ state }) => state), stories.map(() => 'orphaned'));
      await Promise.all(stories.map((story) => story.join(rig.server)));
      await Promise.all(stories.map((story, index) => story.check(rig.server, dormant[index]!.committed90k, `round ${round}, session ${index}`)));
    }
    for (const { answered, readEvents, committed90k } of stories) {
      t.diagnostic(`${answered} answers, ${readEvents} events, ${(committed90k / 90_000).toFixed(1)} s committed`);
      assert.ok(answered > ROUNDS && readEvents > ROUNDS && committed90k > 0, 'there was something to lose');
    }
    for (const story of stories) await story.lost();
  });
});

/** As the next server will find it: all of it, with what is only in the log. On a copy, so that the server still has that to do. */
function checkDatabase(directory: string): void {
  assert.deepEqual(readdirSync(directory).filter((name) => /damaged|corrupt/.test(name)), [], 'none was put aside');
  const copy = mkdtempSync(join(tmpdir(), 'segue-copy-'));
  try {
    cpSync(directory, copy, { recursive: true });
    const database = new DatabaseSync(join(copy, 'segue.db'));
    assert.deepEqual({ ...database.prepare('PRAGMA integrity_check').get() }, { integrity_check: 'ok' });
    database.close();
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}
