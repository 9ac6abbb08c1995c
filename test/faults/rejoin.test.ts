/**
 * One session that is left and come back to from two browsers, at random gaps: closed windows, crashed tabs, the other browser taking over. It is the same world with the
 * same memory every time, on one connection, and nobody is refused within the grace period. `SEGUE_SOAK_REJOINS`: how often (6).
 */
import assert from 'node:assert/strict';
import { fileURLToPath } from 'node:url';
import { after, before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { bundle } from '../../probe/bundle.ts';
import { Probe } from '../../probe/Probe.ts';
import type { CreatedSession } from '../../src/protocol/rest.ts';
import { ApiClient } from '../e2e/api_client.ts';
import { DrivePage } from '../e2e/DrivePage.ts';
import { TestServer } from '../e2e/server.ts';
import { seededRandom } from '../interruption/seeded_random.ts';
import { Classifier, majority } from '../oracle/Classifier.ts';

const COUNT = Number(process.env['SEGUE_SOAK_REJOINS'] ?? 6);
const SEED = Number(process.env['SEGUE_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
const ORPHAN_MS = 60_000;
/** Joining on a busy machine takes seconds, too: all of it within the grace period. */
const MAX_GAP_MS = 5_000;
const PLACES = ['desert', 'forest', 'coast', 'city'] as const;

interface Memory {
  readonly turns: readonly Readonly<Record<'requestId' | 'prompt' | 'plan' | 'narration' | 'outcome', string | null>>[];
}

describe(`left and come back to ${COUNT} times (seed ${SEED})`, () => {
  const random = seededRandom(SEED);
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]!;
  let server: TestServer;
  let api: ApiClient;
  let probes: Probe[];
  let classifier: Classifier;
  let html: string;
  let session: CreatedSession;

  before(async () => {
    server = await TestServer.start();
    api = new ApiClient(server);
    [classifier, ...probes] = await Promise.all([Classifier.load(), Probe.launch(), Probe.launch()]);
    const script = await bundle(fileURLToPath(new URL('../../probe/page/plain_client.ts', import.meta.url)));
    html = `<!doctype html><title>plain</title><body><canvas width="224" height="128"></canvas><input type="text"><button>Join</button><script>${script}</script>`;
    session = await api.createSession({ seed: 5, prompt: `${PLACES[0]} at day`, limits: { orphanMs: ORPHAN_MS } });
  });

  after(async () => {
    for (const probe of probes ?? []) await probe.close();
    const exit = await server?.stop();
    assert.equal(exit?.code, 0, server?.tail());
  });

  async function enter(): Promise<DrivePage> {
    const page = await DrivePage.open(pick(probes), server, { ear: false, path: '/plain', query: `session=${session.id}&token=${encodeURIComponent(session.clientToken)}`, html });
    await page.join();
    return page;
  }

  const vanish = async (page: DrivePage): Promise<void> => {
    // A crashed tab says no word; one that is closed may.
    if (random() < 0.5) {
      const devtools = await page.probe.page.context().newCDPSession(page.probe.page);
      void devtools.send('Page.crash').catch(() => undefined);
      await page.probe.page.context().close();
    }
    await page.close();
  };

  async function untilAlone(round: number): Promise<void> {
    const deadline = performance.now() + 10_000;
    for (;;) {
      const connections = (await server.metrics()).sum('segue_media_connections');
      if (connections === 1 && (await api.session(session.id)).connections === 1) return;
      assert.ok(performance.now() < deadline, `round ${round}: ${connections} connections`);
      await delay(50);
    }
  }

  const turns = async (): Promise<Memory['turns']> =>
    ((await api.call('GET', `/v1/sessions/${session.id}/memory`)).body as Memory).turns.map(({ requestId, prompt, plan, narration, outcome }) => ({ requestId, prompt, plan, narration, outcome }));

  it('is the same world with the same memory, on one connection, and refuses nobody', async (t) => {
    let page = await enter();
    let place: string = PLACES[0];
    let right = 0;
    const gaps: number[] = [];
    for (let round = 1; round <= COUNT; round++) {
      await delay(300 + random() * 1_000);
      const [left, remembered] = [await api.session(session.id), await turns()];
      const leftAt = performance.now();
      if (random() < 0.3) {
        // Whoever comes takes over from whoever is there.
        const other = await enter();
        await page.close();
        page = other;
      } else {
        await vanish(page);
        const gapMs = random() * MAX_GAP_MS;
        gaps.push(gapMs);
        await delay(gapMs);
        page = await enter();
      }
      await untilAlone(round);
      const back = await api.session(session.id);
      assert.equal(back.state, 'active', `round ${round}`);
      assert.deepEqual([back.seed, back.prompt, back.epoch], [left.seed, left.prompt, left.epoch], `round ${round}`);
      assert.deepEqual(await turns(), remembered, `round ${round}: the same memory`);
      const awayMs = performance.now() - leftAt;
      assert.ok(back.presented90k >= left.presented90k && back.presented90k - left.presented90k <= (awayMs + 2_000) * 90, `round ${round}: from ${left.presented90k} to ${back.presented90k} in ${Math.round(awayMs)} ms`);
      const seen = majority(await classifier.read(await page.pictures(6, 90)), 'place').value;
      right += Number(seen === place);
      if (round % 4 !== 0) continue;
      place = pick(PLACES);
      const { status, body } = await api.call('POST', `/v1/sessions/${session.id}/redirect?wait=applied`, { body: { prompt: `${place} at day` } });
      assert.equal(status, 200, JSON.stringify(body));
      await delay(1_500);
    }
    t.diagnostic(`gaps ${gaps.map((gap) => (gap / 1000).toFixed(1)).join(', ')} s; the place was right ${right} of ${COUNT} times`);
    // The classifier itself is right in most pictures, not in all.
    assert.ok(right >= 0.8 * COUNT, `${right} of ${COUNT}`);
    await page.close();
  });
});
