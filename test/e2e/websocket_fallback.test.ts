/** The same visit where WebRTC can't connect: everything over one WebSocket. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { audibleShare, framesPerSecond, isEpochOrLater, oldMediaAfter, pressToGlass } from '../../probe/derive.ts';
import { Probe } from '../../probe/Probe.ts';
import { DrivePage } from './DrivePage.ts';
import { TestServer } from './server.ts';

describe('without WebRTC', () => {
  let server: TestServer;
  let probe: Probe;
  let page: DrivePage;

  before(async () => {
    server = await TestServer.start(); // alone: it measures its costs while it starts
    probe = await Probe.launch();
  });

  after(async () => {
    await page?.close();
    await probe?.close();
    const exit = await server?.stop();
    assert.equal(exit?.code, 0, server?.tail());
  });

  it('joins over the WebSocket and paints and sounds as ever', async () => {
    page = await DrivePage.open(probe, server, { query: 'transport=websocket&stamp=1&seed=5' });
    await page.join();
    assert.equal(await page.transport(), 'websocket');
    await delay(1_500);
    const from = await page.probe.now();
    await delay(8_000);
    await page.probe.drain();
    const rate = framesPerSecond(page.probe.samples, from, from + 8_000);
    assert.ok(rate >= 11, `${rate.toFixed(2)} pictures a second`);
    assert.ok(audibleShare(page.probe.samples, from, from + 8_000) >= 0.97);
  });

  it('shows and plays nothing old after an interrupt, and goes on with the next prompt', async () => {
    const { press, epoch } = await page.interrupt();
    await delay(500);
    const sent = await page.prompt('city at night');
    await page.probe.until('a picture of the new turn', (samples) => pressToGlass(samples, press, (paint) => isEpochOrLater(paint, sent.epoch)) ?? undefined);
    await delay(500);
    await page.probe.drain();
    const old = oldMediaAfter(page.probe.samples, press, epoch);
    assert.equal(old.frames.length, 0, JSON.stringify(old.frames));
    assert.equal(old.blocks.length, 0, JSON.stringify(old.blocks.slice(0, 3)));
  });
});
