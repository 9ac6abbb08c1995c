/** What happens to a browser, or to its network, in the midst of a request: the session settles within the protocol's bound, and the next turn works. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Probe } from '../../probe/Probe.ts';
import { ApiClient } from '../e2e/api_client.ts';
import { DrivePage } from '../e2e/DrivePage.ts';
import { TestServer } from '../e2e/server.ts';
import { StreamClient } from '../e2e/StreamClient.ts';
import { LossyPath } from './LossyPath.ts';
import { seededRandom } from './seeded_random.ts';

const SETTLE_MS = 5_000;
/** How late a timer of a busy page may be. */
const TIMER_MS = 500;
const LOSS = 0.1;

describe('wedges in a browser', () => {
  let server: TestServer;
  let api: ApiClient;
  let probe: Probe;

  before(async () => {
    server = await TestServer.start(); // alone: it measures its costs while it starts
    api = new ApiClient(server);
    probe = await Probe.launch();
  });

  after(async () => {
    await probe?.close();
    const exit = await server?.stop();
    assert.equal(exit?.code, 0, server?.tail());
  });

  it(`with ${LOSS * 100} % of all packets lost, every request settles in time, and the next turn is painted`, async (t) => {
    const path = await LossyPath.open(seededRandom(7));
    const page = await DrivePage.open(probe, server, { query: 'seed=3', ear: false });
    try {
      await path.between(page.probe.page);
      await page.join();
      await page.probe.page.waitForFunction(`globalThis.segue.transport === 'webrtc'`, undefined, { timeout: 10_000 });
      path.loss = LOSS;
      const all: Settled[] = [];
      for (let round = 0; round < 8; round++) {
        await delay(150);
        const settled = await page.probe.page.evaluate(askInTurn, round);
        assert.ok(settled.length === 3 && settled.every(({ tookMs }) => tookMs < SETTLE_MS + TIMER_MS), JSON.stringify(settled));
        all.push(...settled);
      }
      t.diagnostic(`${path.lost} of ${path.lost + path.passed} packets lost; slowest answer ${Math.round(Math.max(...all.map(({ tookMs }) => tookMs)))} ms`);
      // A retransmission waits a second at least, and may be lost itself: a watchdog's answer is one, too, but not the rule.
      const answered = all.filter(({ outcome }) => outcome === 'applied' || outcome === 'superseded').length;
      assert.ok(answered >= 0.8 * all.length && all.every(({ outcome }) => ['applied', 'superseded', 'timed_out'].includes(outcome)), JSON.stringify(all));
      assert.ok(path.lost > 20, `${path.lost} packets were lost, ${path.passed} passed`);
      const turn = await page.prompt('city at night', SETTLE_MS);
      const shown = page.probe.page.waitForFunction(`globalThis.segue.state === 'live'`, undefined, { timeout: SETTLE_MS });
      await shown;
      assert.ok(turn.epoch >= 8);
    } finally {
      await page.close();
      path.close();
    }
  });

  it('a renderer that is killed while it clears: the session is held for whoever comes next, and takes its turn', async () => {
    const page = await DrivePage.open(probe, server, { query: 'seed=4', ear: false });
    await page.join();
    const id = await page.sessionId();
    const before = await api.session(id);
    const devtools = await page.probe.page.context().newCDPSession(page.probe.page);
    const { clientToken } = (await api.call('POST', `/v1/sessions/${id}/tokens`, { body: {} })).body as { readonly clientToken: string };
    await page.probe.page.keyboard.press('Escape');
    void devtools.send('Page.crash').catch(() => undefined);
    const client = await StreamClient.join(server.url, id, clientToken);
    const answer = await client.request({ type: 'redirect', id: 'after', prompt: 'desert at day' }, SETTLE_MS);
    assert.ok(answer.type === 'applied', JSON.stringify(answer));
    assert.ok(answer.epoch > before.epoch);
    await client.untilPicture('the next turn', ({ epoch }) => epoch >= answer.epoch, performance.now(), SETTLE_MS);
    await client.close();
    await api.close(id);
    // Its renderer is gone: whatever waits for an answer of it ends with the context.
    await page.probe.page.context().close();
    await page.close();
  });
});

interface Settled {
  readonly type: string;
  readonly outcome: string;
  readonly tookMs: number;
}

/** In the page: asks as a restless person would, and waits for all of it. */
async function askInTurn(round: number): Promise<Settled[]> {
  interface Handle {
    readonly applied: Promise<unknown>;
  }
  const client = (globalThis as unknown as { segue: Record<'hold' | 'release' | 'interrupt' | 'resume', () => Handle> & Record<'redirect' | 'cut' | 'blend', (prompt: string) => Handle> }).segue;
  const prompts = ['coast at dawn', 'desert at day', 'forest at night'];
  const prompt = prompts[round % prompts.length]!;
  const turns: readonly (readonly [string, () => Handle])[] = [
    ['hold', () => client.hold()],
    [round % 2 === 0 ? 'release' : 'interrupt', () => (round % 2 === 0 ? client.release() : client.interrupt())],
    [['redirect', 'cut', 'blend'][round % 3]!, () => client[(['redirect', 'cut', 'blend'] as const)[round % 3]!](prompt)],
  ];
  return Promise.all(
    turns.map(async ([type, ask]) => {
      const since = performance.now();
      const outcome = await ask().applied.then(
        () => 'applied',
        (error: { readonly code?: string }) => error.code ?? 'failed',
      );
      return { type, outcome, tookMs: performance.now() - since };
    }),
  );
}
