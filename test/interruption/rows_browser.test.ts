/** Hold and release, cut, blend, rewind and fork as a person has them: by the page's keys and controls, judged by what the page painted. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { frameDistance, isEpochOrLater, oldMediaAfter, stamped } from '../../probe/derive.ts';
import { Probe } from '../../probe/Probe.ts';
import { DrivePage } from '../e2e/DrivePage.ts';
import { TestServer } from '../e2e/server.ts';

/** The smallest windows have no room for the choice of how the world changes. */
const VIEWPORT = { width: 480, height: 640 };
/** What is on its way at a press: encoder, jitter buffer, compositor of a loaded machine. */
const ON_ITS_WAY_MS = 600;
/** A busy page passes pictures over: four at most. */
const MAX_SKIPPED = 5;
const FRAME_90K = 90_000 / 12;

describe('rows in a browser', () => {
  let server: TestServer;
  let probe: Probe;
  let page: DrivePage;

  before(async () => {
    server = await TestServer.start(); // alone: it measures its costs while it starts
    probe = await Probe.launch();
    page = await DrivePage.open(probe, server, { query: 'stamp=1&seed=3', viewport: VIEWPORT });
    await page.join();
    await page.probe.until('stamped pictures', (samples) => stamped(samples)[10]);
  });

  after(async () => {
    await page?.close();
    await probe?.close();
    const exit = await server?.stop();
    assert.equal(exit?.code, 0, server?.tail());
  });

  const how = (value: string) => page.probe.page.getByRole('combobox').selectOption(value);

  it('H held down stops the picture, and let go it goes on with the very next one', async () => {
    const { keyboard } = page.probe.page;
    await page.probe.page.locator('body').click({ position: { x: 200, y: 40 } });
    const since = await page.probe.now();
    await keyboard.down('h');
    await page.event('held', (event) => event.event === 'applied' && event.how === 'held' && event.t >= since);
    assert.equal(await page.probe.page.getByTestId('status').innerText().then((text) => text.startsWith('On hold')), true);
    await delay(1_200);
    await keyboard.up('h');
    const released = await page.event('released', (event) => event.event === 'applied' && event.how === 'released' && event.t >= since);
    await delay(1_200);
    await page.probe.drain();
    const frames = stamped(page.probe.samples).filter(({ t }) => t >= since);
    const stood = frames.filter(({ t }) => t > since + ON_ITS_WAY_MS && t < released.t - 50);
    assert.ok(new Set(stood.map(({ stamp }) => stamp.frame)).size <= 1, `${JSON.stringify(stood.map(({ stamp }) => stamp))} were painted while on hold`);
    assert.equal(new Set(frames.map(({ stamp }) => stamp.epoch)).size, 1, 'no fence');
    const shown = frames.map(({ stamp }) => stamp.frame).filter((frame, at, all) => frame !== all[at - 1]);
    const steps = shown.slice(1).map((frame, at) => frameDistance(frame, shown[at]!));
    assert.ok(steps.every((step) => step >= 1 && step <= MAX_SKIPPED), `in order, and none lost but what the page passed over: ${steps.join(' ')}`);
    assert.ok(frames.some(({ t }) => t > released.t), 'it goes on');
  });

  it('Cut paints nothing old after the press, and goes on from the held frame in a new shot', async () => {
    await how('cut');
    const since = await page.typePrompt('coast at night');
    const press = await page.press('submit:prompt-form', since);
    const applied = await page.event('the cut', (event) => event.event === 'applied' && event.how === 'cut' && event.t >= since);
    assert.ok(applied.event === 'applied');
    await page.probe.until('the new shot', (samples) => stamped(samples).find((paint) => paint.t >= press.t && isEpochOrLater(paint, applied.epoch)));
    await delay(400);
    await page.probe.drain();
    const old = oldMediaAfter(page.probe.samples, press, applied.epoch);
    assert.deepEqual([old.frames.length, old.blocks.length], [0, 0]);
  });

  it('Blend flows on, without a fence, until it is wholly there', async () => {
    await how('blend');
    const { epoch } = await page.session();
    const done = page.probe.page.evaluate('new Promise((resolve) => globalThis.segue.once("completed", (notice) => resolve(notice)))') as Promise<{ readonly re: string }>;
    const since = await page.typePrompt('desert at day');
    const applied = await page.event('the blend', (event) => event.event === 'applied' && event.how === 'blend' && event.t >= since);
    assert.ok(applied.event === 'applied' && applied.epoch === epoch);
    assert.equal((await done).re, applied.re);
    await page.probe.drain();
    const frames = stamped(page.probe.samples).filter(({ t }) => t >= since);
    assert.equal(new Set(frames.map(({ stamp }) => stamp.epoch)).size, 1);
    assert.ok(frames.length >= 12, `${frames.length} pictures while it blended`);
  });

  it('a press on the timeline paints nothing of what was left, and goes on with the very frame that was pressed', async () => {
    const cell = page.probe.page.getByTestId('timeline-cell').nth(1);
    const from90k = Number(await cell.getAttribute('data-from'));
    const since = await page.probe.now();
    await cell.click();
    const applied = await page.event('the rewind', (event) => event.event === 'applied' && event.how === 'rewind' && event.t >= since);
    assert.ok(applied.event === 'applied');
    const press = await page.probe.until('its press', () => page.probe.presses.find(({ t, what }) => t >= since && what.startsWith('click:Go back')));
    const first = await page.probe.until('the new future', (samples) => stamped(samples).find((paint) => paint.t >= press.t && isEpochOrLater(paint, applied.epoch)));
    const step = frameDistance(first.stamp.frame, from90k / FRAME_90K);
    assert.ok(step >= 0 && step <= MAX_SKIPPED, `pressed ${from90k / FRAME_90K}, painted ${first.stamp.frame} first`);
    await delay(400);
    await page.probe.drain();
    const old = oldMediaAfter(page.probe.samples, press, applied.epoch);
    assert.deepEqual([old.frames.length, old.blocks.length], [0, 0]);
  });

  it('a fork is painted beside it from its very frame, and what was forked flows on under its epoch', async () => {
    const { epoch } = await page.session();
    const since = await page.probe.now();
    await page.probe.page.getByTestId('timeline-cell').first().focus();
    await page.probe.page.keyboard.press('f');
    // Its epochs begin anew, so what is painted says which of the two it is of.
    const first = await page.probe.until('the fork', (samples) => stamped(samples).find(({ t, stamp }) => t >= since && stamp.epoch === 0));
    assert.ok(epoch >= 2 && first.stamp.frame <= MAX_SKIPPED, `epoch ${epoch}, first of the fork ${first.stamp.frame}`);
    await delay(1_500);
    await page.probe.drain();
    for (const future of [0, epoch]) {
      const shown = stamped(page.probe.samples).filter(({ t, stamp }) => t >= since && stamp.epoch === future).map(({ stamp }) => stamp.frame).filter((frame, at, all) => frame !== all[at - 1]);
      const steps = shown.slice(1).map((frame, at) => frameDistance(frame, shown[at]!));
      // A page that opens a second picture passes some of the first over; what it paints is in order.
      assert.ok(shown.length >= 8 && steps.every((step) => step >= 1), `epoch ${future}: ${shown.join(' ')}`);
    }
    assert.equal((await page.session()).epoch, epoch, 'no fence');
    await page.probe.page.getByTestId('side-close').click();
    assert.deepEqual(page.probe.errors, []);
  });
});
