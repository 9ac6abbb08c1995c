/**
 * Interrupts and redirects at random moments in a real browser, while the control thread is blocked at random. What was painted and played comes
 * from the probe's own log of barcodes and tones; what was sent, from the server's count of packets.
 */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { frameDistance, heldAt, isEpochOrLater, oldMediaAfter, stamped } from '../../probe/derive.ts';
import { Probe } from '../../probe/Probe.ts';
import type { PressSample } from '../../probe/samples.ts';
import { ApiClient } from '../e2e/api_client.ts';
import { DrivePage } from '../e2e/DrivePage.ts';
import { TestServer } from '../e2e/server.ts';
import { seededRandom } from './seeded_random.ts';

const COUNT = Number(process.env['SEGUE_SOAK'] ?? 60);
const SEED = Number(process.env['SEGUE_SEED'] ?? 20261130);
const BLOCKS_MS = [25, 100, 250];
const FRAME_90K = 90_000 / 12;
const FRAMES_PER_CHUNK = 2;
/** A busy page passes pictures over: four at most. */
const MAX_SKIPPED = 5;
const PROMPTS = ['snowy mountains at night', 'desert at day', 'city at dusk with rain', 'coast at dawn', 'forest at day with fog', 'make it night', 'switch to dunes'];

interface Press {
  readonly what: 'interrupt' | 'redirect';
  readonly press: PressSample;
  readonly epoch: number;
}

describe(`${COUNT} interrupts and ${COUNT} redirects in a browser (seed ${SEED})`, () => {
  const random = seededRandom(SEED);
  const between = (low: number, high: number): number => low + random() * (high - low);
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)]!;
  const faults: string[] = [];
  let server: TestServer;
  let probe: Probe;
  let api: ApiClient;
  let page: DrivePage;

  before(async () => {
    server = await TestServer.start(); // alone: it measures its costs while it starts
    probe = await Probe.launch();
    api = new ApiClient(server);
    page = await DrivePage.open(probe, server, { query: 'stamp=1&seed=3', ...(process.env['SEGUE_RAW'] === undefined ? {} : { rawFile: process.env['SEGUE_RAW'] }) });
    await page.join();
    await page.probe.until('stamped pictures', (samples) => stamped(samples)[10]);
  });

  after(async () => {
    await page?.close();
    await probe?.close();
    const exit = await server?.stop();
    assert.equal(exit?.code, 0, server?.tail());
  });

  /** Blocks the control thread so that the press, a moment later, falls into the block. */
  async function blockControl(): Promise<void> {
    await api.block(pick(BLOCKS_MS));
  }

  /** The first picture of the new turn, and that the story goes on where it was seen to stop. */
  async function untilPainted({ what, press, epoch }: Press, round: number, heldFrame: number | undefined): Promise<void> {
    const first = await page.probe.until(`a picture of epoch ${epoch}`, (samples) => stamped(samples).find((paint) => paint.t >= press.t && isEpochOrLater(paint, epoch)));
    if (heldFrame === undefined) return;
    const step = frameDistance(first.stamp.frame, heldFrame);
    if (step < 0 || step > MAX_SKIPPED) faults.push(`round ${round}: after ${what} the story goes on at frame ${first.stamp.frame}, held was ${heldFrame}`);
  }

  function heldFrameOf({ press }: Press): number | undefined {
    return heldAt(page.probe.samples, press)?.stamp?.frame;
  }

  /** Everything painted and played since the press, up to now. */
  async function check({ what, press, epoch }: Press, round: number): Promise<void> {
    await page.probe.drain();
    const old = oldMediaAfter(page.probe.samples, press, epoch);
    if (old.frames.length > 0) faults.push(`round ${round}: ${old.frames.length} old pictures after ${what} (epoch ${epoch}), last after ${Math.round(old.lastOldFrameMs)} ms: ${JSON.stringify(old.frames.map(({ stamp }) => stamp))}`);
    if (old.blocks.length > 0) {
      const told = old.blocks.map(({ t, tone, rms, purity }) => `tone ${tone} ${Math.round(t - press.t)} ms later at ${rms.toFixed(3)} (purity ${purity})`);
      faults.push(`round ${round}: ${old.blocks.length} blocks of old sound after ${what} (epoch ${epoch}): ${told.join(', ')}`);
    }
  }

  async function interrupt(round: number): Promise<Press> {
    await blockControl();
    await delay(between(0, 20));
    const pressed = { what: 'interrupt' as const, ...(await page.interrupt()) };
    await delay(between(50, 300));
    await page.event('interrupted', (event) => event.event === 'applied' && event.how === 'interrupted' && event.epoch >= pressed.epoch);
    await page.probe.drain();
    const held = heldAt(page.probe.samples, pressed.press);
    const { committed90k, presented90k } = await page.session();
    // The held picture is the last one that the story has, and what is told as committed is on disk: whole chunks up to there. Where it goes on is checked by what is painted next.
    const distance = held?.stamp == null ? Number.NaN : frameDistance(Math.round(committed90k / FRAME_90K), held.stamp.frame + 1);
    if (!(distance >= -FRAMES_PER_CHUNK && distance <= 1)) faults.push(`round ${round}: committed ${committed90k / FRAME_90K} frames, painted up to ${held?.stamp?.frame} (${distance} apart); epoch ${held?.stamp?.epoch} → ${pressed.epoch}, held ${(pressed.held90k ?? NaN) / FRAME_90K}, presented ${presented90k / FRAME_90K}`);
    return pressed;
  }

  async function redirect(): Promise<Press> {
    const box = page.probe.page.getByRole('textbox');
    await box.fill(pick(PROMPTS));
    await blockControl();
    await delay(between(0, 20));
    const since = await page.probe.now();
    await box.press('Enter');
    const press = await page.press('submit:prompt-form', since);
    const accepted = await page.event('the redirect accepted', (event) => event.event === 'accepted' && event.t >= press.t);
    assert.ok(accepted.event === 'accepted');
    return { what: 'redirect', press, epoch: accepted.epoch };
  }

  it('paints and plays nothing old, commits what was seen, and takes the next turn every time', async () => {
    for (let round = 0; round < COUNT; round++) {
      await delay(between(100, 700));
      const interrupted = await interrupt(round);
      const turn = await redirect();
      await untilPainted(turn, round, heldFrameOf(interrupted));
      await check(interrupted, round);
      await check(turn, round);

      await delay(between(100, 700));
      const flowing = await redirect();
      await untilPainted(flowing, round, heldFrameOf(flowing));
      await delay(between(50, 250));
      await check(flowing, round);
      page.probe.forget((await page.probe.now()) - 5_000);
      assert.ok(faults.length < 20, `too many faults:\n${faults.join('\n')}`);
    }
    assert.deepEqual(faults, []);
  });

  it('sent no packet of an old epoch', async () => {
    const metrics = await server.metrics();
    assert.ok(metrics.sum('segue_media_packets_total') > COUNT);
    assert.equal(metrics.sum('segue_media_stale_packets_total'), 0);
  });

  it('left the session in order', async () => {
    const view = await page.session();
    assert.equal(view.state, 'active');
    assert.ok(view.epoch >= 2 * COUNT, `epoch ${view.epoch}`);
    assert.deepEqual(page.probe.errors, []);
  });
});
