/** What is typed is shown as what it would become, before it is sent, and is there when it is. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Probe } from '../../probe/Probe.ts';
import { ApiClient } from './api_client.ts';
import { DrivePage } from './DrivePage.ts';
import { TestServer } from './server.ts';

describe('a draft while typing', () => {
  let server: TestServer;
  let probe: Probe;
  let page: DrivePage;

  before(async () => {
    server = await TestServer.start();
    probe = await Probe.launch();
    page = await DrivePage.open(probe, server, { ear: false, query: 'seed=3&prompt=forest+at+day' });
    await page.join();
  });

  after(async () => {
    await page?.close();
    await probe?.close();
    const exit = await server?.stop();
    assert.equal(exit?.code, 0, server?.tail());
  });

  it('tells what it would come to, and which words are not known, and changes nothing', async () => {
    const { page: tab } = page.probe;
    const before = await page.events();
    await tab.getByTestId('prompt').pressSequentially('desert at night with unicorns', { delay: 20 });
    await tab.waitForFunction("document.querySelector('#draft').textContent.includes('↵')", null, { timeout: 15_000 });
    const told = (await tab.getByTestId('draft').textContent()) ?? '';
    assert.match(told, /desert/i);
    assert.match(told, /night/i);
    assert.match(told, /unicorns/);
    assert.match((await tab.getByTestId('plan').textContent()) ?? '', /forest/i, 'what is shown is still the forest');
    assert.equal((await page.events()).length, before.length, 'no request was made');
  });

  it('is promoted by Enter', async (t) => {
    const { page: tab } = page.probe;
    const since = await page.probe.now();
    await tab.getByTestId('prompt').press('Enter');
    const applied = await page.event('applied', (event) => event.event === 'applied' && event.t >= since);
    assert.equal(await tab.getByTestId('draft').textContent(), '');
    const { body } = await new ApiClient(server).call('GET', `/v1/traces/${await page.sessionId()}`);
    const { traceEvents } = body as { traceEvents: { name: string; args?: Record<string, unknown> }[] };
    const promoted = traceEvents.filter(({ name }) => name === 'draft.promoted');
    assert.equal(promoted.length, 1, 'the redirect went on with the draft');
    t.diagnostic(`from ${String(promoted[0]!.args?.['from'])}, ${applied.event === 'applied' ? JSON.stringify(applied) : ''}`);
    await tab.waitForFunction("/desert/i.test(document.querySelector('#plan').textContent)", null, { timeout: 5_000 });
  });

  it('is taken back with the words', async () => {
    const { page: tab } = page.probe;
    await tab.getByTestId('prompt').fill('coast');
    await tab.waitForFunction("document.querySelector('#draft').textContent !== ''", null, { timeout: 15_000 });
    await tab.getByTestId('prompt').fill('');
    assert.equal(await tab.getByTestId('draft').textContent(), '');
  });
});
