/**
 * One person who interrupts one session over and over in a real browser: nothing old is painted or played, and what page and server hold stays as it is.
 * `SEGUE_SOAK_INTERRUPTS`: how often (40).
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { isEpochOrLater, oldMediaAfter, stamped } from '../../probe/derive.ts';
import { Probe } from '../../probe/Probe.ts';
import { DrivePage } from '../e2e/DrivePage.ts';
import { TestServer } from '../e2e/server.ts';
import { COUNT_TIMERS, FootprintGauge, type Footprint } from './Footprint.ts';
import { seededRandom } from './seeded_random.ts';
import { INSPECTED } from './ThreadHeaps.ts';

const COUNT = Number(process.env['SEGUE_SOAK_INTERRUPTS'] ?? 40);
const SEED = Number(process.env['SEGUE_SEED'] ?? 20261130);
const READINGS = 10;
const PROMPTS = ['desert at day', 'coast at dawn', 'forest at night', 'city at dusk'];
/** Until the past that can be gone back to without the disk (60 chunks of two frames) is full: it is held as long as the session. */
const PAST_FULL_MS = 12_000;
/** A timer, a listener or a block more or less says nothing: a toast may just be up. What is typed leaves a node in the browser's own undo, 1,000 at most. */
const JITTER = { pageListeners: 10, pageNodes: 1_100, pageTimers: 8, serverResources: 10, serverBlocks: 150 } as const;
/** Memory, MB: collections of eight heaps fall where they fall. */
const JITTER_MB = { pageHeapMB: 4, serverMB: 30 } as const;

describe(`${COUNT} interrupts of one session (seed ${SEED})`, () => {
  const random = seededRandom(SEED);
  let server: TestServer;
  let probe: Probe;
  let page: DrivePage;
  let gauge: FootprintGauge;
  /** What the server refused the page, in its words. */
  const refused: string[] = [];

  before(async () => {
    server = await TestServer.start({ env: INSPECTED }); // alone: it measures its costs while it starts
    probe = await Probe.launch();
    page = await DrivePage.open(probe, server, { query: 'stamp=1&seed=3', initScript: COUNT_TIMERS });
    page.probe.page.on('response', (response) => {
      if (!response.ok()) void response.text().then((body) => refused.push(`${response.status()} ${new URL(response.url()).pathname}: ${body}`));
    });
    await page.join();
    await page.probe.until('stamped pictures', (samples) => stamped(samples)[10]);
    gauge = await FootprintGauge.open(page.probe.page, server);
    await delay(PAST_FULL_MS);
  });

  after(async () => {
    gauge?.close();
    await page?.close();
    await probe?.close();
    const exit = await server?.stop();
    assert.equal(exit?.code, 0, server?.tail());
  });

  /** Every fifth goes on with other words, the others go on as they were. */
  async function goOn(round: number): Promise<void> {
    if (round % 5 === 0) await page.typePrompt(PROMPTS[Math.floor(random() * PROMPTS.length)]!);
    else await page.probe.page.evaluate(() => void (globalThis as unknown as { segue: { resume(): unknown } }).segue.resume());
  }

  it('shows nothing old, and holds no more at the end than after the first of them', async (t) => {
    const readings: Footprint[] = [];
    const old: string[] = [];
    let slowest = 0;
    const every = Math.max(1, Math.floor(COUNT / READINGS));
    const begun = performance.now();
    for (let round = 1; round <= COUNT; round++) {
      await delay(20 + random() * 130);
      const { press, epoch } = await page.interrupt();
      await delay(random() * 60);
      await goOn(round);
      await page.probe.until(`a picture after interrupt ${round}`, (samples) => stamped(samples).find((paint) => paint.t >= press.t && isEpochOrLater(paint, epoch)));
      await page.probe.drain();
      // Hours beside whatever else the machine does: a page that was kept from handling the press is told, and not blamed.
      const { frames, blocks } = oldMediaAfter(page.probe.samples, press, epoch, Infinity, Infinity);
      slowest = Math.max(slowest, (press.handled?.t ?? press.t) - press.t);
      if (frames.length + blocks.length > 0) {
        const told = blocks.slice(0, 6).map(({ t: at, tone, rms }) => `tone ${tone} ${Math.round(at - press.t)} ms later at ${rms.toFixed(3)}`);
        old.push(`round ${round}, epoch ${epoch}: ${frames.length} pictures, ${blocks.length} blocks of sound: ${told.join(', ')}`);
      }
      assert.ok(old.length < 20, old.join('\n'));
      page.probe.forget((await page.probe.now()) - 3_000);
      if (round % every === 0) {
        readings.push(await gauge.read(round));
        if (COUNT >= 1_000) console.log(JSON.stringify({ ...readings.at(-1), old: old.length, refused })); // diagnostics are told at the end, an hour later
      }
    }
    t.diagnostic(`${((performance.now() - begun) / COUNT).toFixed(0)} ms a round; the page took ${slowest.toFixed(0)} ms at most to handle a press`);
    for (const reading of readings) t.diagnostic(JSON.stringify(reading));
    assert.deepEqual(old, []);
    assert.equal((await server.metrics()).sum('segue_media_stale_packets_total'), 0);
    assert.ok((await page.session()).epoch >= COUNT);
    // From when caches, pools and just-in-time code are warm.
    const warm = readings[Math.min(2, readings.length - 2)]!;
    const last = readings.at(-1)!;
    for (const [what, most] of Object.entries({ ...JITTER, ...JITTER_MB }) as [keyof typeof JITTER | keyof typeof JITTER_MB, number][]) assert.ok(last[what] - warm[what] <= most, `${what}: ${warm[what]} after ${warm.atRound}, ${last[what]} after ${last.atRound}`);
    assert.deepEqual(refused, []);
    assert.deepEqual(page.probe.errors, []);
  });
});
