/** Two people on one instance, and a third at the door. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { framesPerSecond, painted, stalls } from '../../probe/derive.ts';
import { Probe } from '../../probe/Probe.ts';
import type { CreatedSession } from '../../src/protocol/rest.ts';
import { Classifier, majority } from '../oracle/Classifier.ts';
import { ApiClient } from './api_client.ts';
import { DrivePage } from './DrivePage.ts';
import { TestServer } from './server.ts';

const WATCH_MS = 15_000;
/** Two browsers and the server fill two cores: what else such a machine does for a moment may spoil one look, not three. */
const LOOKS = 3;

describe('two browsers on one instance', () => {
  let server: TestServer;
  let probes: Probe[];
  let classifier: Classifier;
  let api: ApiClient;
  const pages: DrivePage[] = [];

  before(async () => {
    server = await TestServer.start({ maxSessions: 2, env: { SEGUE_ENGINE_ADMISSION_BOUND: '1' } });
    api = new ApiClient(server);
    [classifier, ...probes] = await Promise.all([Classifier.load(), Probe.launch(), Probe.launch()]);
  });

  after(async () => {
    for (const page of pages) await page.close();
    for (const probe of probes ?? []) await probe.close();
    const exit = await server?.stop();
    assert.equal(exit?.code, 0, server?.tail());
  });

  it('gives each its own world, and neither misses pictures', async (t) => {
    pages.push(await DrivePage.open(probes[0]!, server, { ear: false, query: 'seed=1&prompt=desert+at+day+with+clear+sky' }));
    pages.push(await DrivePage.open(probes[1]!, server, { ear: false, query: 'seed=2&prompt=snowy+mountains+at+night+with+clear+sky' }));
    await Promise.all(pages.map((page) => page.join()));
    await delay(2_000);
    const rates: string[] = [];
    let kept = false;
    for (let look = 0; look < LOOKS && !kept; look++) {
      const froms = await Promise.all(pages.map((page) => page.probe.now()));
      await delay(WATCH_MS);
      kept = true;
      for (const [at, page] of pages.entries()) {
        await page.probe.drain();
        const from = froms[at]!;
        const rate = framesPerSecond(page.probe.samples, from, from + WATCH_MS);
        const gaps = stalls(painted(page.probe.samples).filter(({ t }) => t >= from), 250).map(({ durationMs }) => Math.round(durationMs));
        rates.push(`browser ${at + 1}: ${rate.toFixed(2)} pictures a second; gaps ${gaps.join(', ')}`);
        kept &&= rate >= 11;
      }
    }
    t.diagnostic(rates.join('; '));
    assert.ok(kept, rates.join('; '));
    const seen = await Promise.all(pages.map(async (page) => classifier.read(await page.pictures(12, 125))));
    assert.equal(majority(seen[0]!, 'place').value, 'desert');
    assert.equal(majority(seen[0]!, 'time').value, 'day');
    assert.equal(majority(seen[1]!, 'place').value, 'snowy mountains');
    assert.equal(majority(seen[1]!, 'time').value, 'night');
  });

  it('a change in one does not touch the other', async () => {
    const before = await pages[1]!.session();
    const { epoch } = await pages[0]!.interrupt();
    assert.ok(epoch >= 1);
    await pages[0]!.prompt('city at night with rain');
    const behind = await pages[1]!.session();
    assert.equal(behind.epoch, before.epoch);
    assert.equal(behind.conditioningVersion, before.conditioningVersion);
    assert.equal(majority(await classifier.read(await pages[1]!.pictures(8, 125)), 'place').value, 'snowy mountains');
  });

  it('refuses a third with its place in line, and lets it in when one leaves', async () => {
    const refused = await api.call('POST', '/v1/sessions', { body: {} });
    assert.equal(refused.status, 503);
    assert.equal(refused.error?.code, 'at_capacity');
    assert.equal(refused.error?.retryable, true);
    assert.equal(refused.error?.position, 1);
    assert.ok(Number(refused.headers.get('retry-after')) >= 1, 'Retry-After');
    const ticket = refused.error?.ticket;
    assert.equal(typeof ticket, 'string');

    const behind = await api.call('POST', '/v1/sessions', { body: {} });
    assert.equal(behind.error?.position, 2, 'a fourth stands behind the third');

    await pages[0]!.leave();
    const deadline = performance.now() + 10_000;
    for (;;) {
      const answer = await api.call('POST', '/v1/sessions', { body: { ticket } });
      if (answer.status < 300) {
        await api.close((answer.body as CreatedSession).id);
        break;
      }
      assert.equal(answer.error?.code, 'at_capacity', JSON.stringify(answer.body));
      assert.ok(performance.now() < deadline, 'the third never got in');
      await delay(250);
    }
  });
});
