/** A person talks over the stream: a browser whose microphone plays clips, over WebRTC and over the WebSocket. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { FRAMES } from '../../probe/barcode.ts';
import { stamped } from '../../probe/derive.ts';
import { Probe } from '../../probe/Probe.ts';
import { clip, cough, joined, room, wav } from '../media/voice/voice_clips.ts';
import { DrivePage } from './DrivePage.ts';
import { TestServer } from './server.ts';

interface Activity {
  readonly t: number;
  readonly user: string;
  readonly session: string;
}

/** Keeps what the client tells of the session's activity. */
const FOLLOW = `(globalThis.__activities = [], segue.on('activity', ({ user, session }) => globalThis.__activities.push({ t: performance.now(), user, session })))`;

describe('voice', { timeout: 240_000 }, () => {
  const clips = mkdtempSync(join(tmpdir(), 'segue-voice-'));
  let server: TestServer;
  let probe: Probe | null = null;
  let page: DrivePage;

  before(async () => {
    server = await TestServer.start(); // alone: it measures its costs while it starts
  });
  after(async () => {
    await probe?.close();
    const exit = await server?.stop();
    rmSync(clips, { recursive: true, force: true });
    assert.equal(exit?.code, 0, server?.tail());
  });

  /** A browser whose microphone plays the clip once, from when it is turned on; then silence. */
  const enter = async (name: string, samples: Int16Array, query = ''): Promise<void> => {
    await probe?.close();
    const file = join(clips, `${name}.wav`);
    writeFileSync(file, wav(joined(room(1000), samples, room(4000))));
    probe = await Probe.launch([`--use-file-for-fake-audio-capture=${file}%noloop`]);
    page = await DrivePage.open(probe, server, { query: `stamp=1&seed=7${query}` });
    await page.join();
    await page.probe.page.evaluate(FOLLOW);
    await delay(1_000);
  };
  const microphone = (): Promise<void> => page.probe.page.getByTestId('microphone').click();
  const activities = (): Promise<Activity[]> => page.probe.page.evaluate(() => (globalThis as unknown as { __activities: Activity[] }).__activities);
  const until = async (what: string, matches: (all: readonly Activity[]) => boolean, timeoutMs = 10_000): Promise<Activity[]> => {
    const deadline = performance.now() + timeoutMs;
    for (;;) {
      const all = await activities();
      if (matches(all)) return all;
      assert.ok(performance.now() < deadline, `not within ${timeoutMs} ms: ${what}; told: ${JSON.stringify(all)}; page errors: ${page.probe.errors.slice(-3).join(' | ')}\n${server.tail(5)}`);
      await delay(50);
    }
  };
  const sessions = (all: readonly Activity[]): string[] => all.map(({ session }) => session).filter((session, at, list) => session !== list[at - 1]);

  for (const transport of ['webrtc', 'websocket'] as const) {
    it(`is off until the button is pressed; a cough then holds and is released, and no frame is lost (${transport})`, async (t) => {
      // One clip for all: a browser plays one, from when its microphone is turned on.
      await enter(transport, joined(cough(), room(5000), clip('speech'), room(9000), clip('speech')), transport === 'websocket' ? '&transport=websocket' : '');
      assert.equal(await page.transport(), transport);
      assert.equal(await page.probe.page.getByTestId('microphone').getAttribute('aria-pressed'), 'false');
      const before = await page.session();
      await microphone();
      const all = await until('held and released', (told) => sessions(told).includes('holding') && sessions(told).at(-1) === 'generating');
      assert.deepEqual(sessions(all).slice(-2), ['holding', 'generating']);
      const held = all.find(({ session }) => session === 'holding')!;
      const released = all.findLast(({ session }) => session === 'generating')!;
      await delay(1_500);
      await page.probe.drain();
      const paints = stamped(page.probe.samples).filter(({ t: at }) => at > held.t - 1_000 && at < released.t + 1_000);
      assert.ok(paints.length > 4, `${paints.length} stamped pictures around the hold, ${stamped(page.probe.samples).length} of ${page.probe.samples.length} samples in all; ${page.probe.errors.slice(-3).join(' | ')}`);
      const numbers = paints.map(({ stamp }) => stamp.frame).filter((frame, at, list) => frame !== list[at - 1]);
      const steps = numbers.slice(1).map((frame, at) => (frame - numbers[at]! + FRAMES) % FRAMES);
      // Whatever a busy machine skips, the story stands still while it is held: where pictures pause longest, the numbers go on as if hardly any time had passed.
      const shown = paints.filter(({ stamp }, at) => stamp.frame !== paints[at - 1]?.stamp.frame);
      const gaps = shown.slice(1).map((paint, at) => ({ ms: paint.t - shown[at]!.t, frames: (paint.stamp.frame - shown[at]!.stamp.frame + FRAMES) % FRAMES }));
      const pause = gaps.reduce((longest, gap) => (gap.ms > longest.ms ? gap : longest));
      t.diagnostic(`held for ${Math.round(released.t - held.t)} ms; ${numbers.length} frames painted around it, largest step ${Math.max(...steps)}; ${pause.frames} on after ${Math.round(pause.ms)} ms`);
      assert.ok((pause.frames * 1000) / 12 <= pause.ms - 200, `${pause.frames} frames on after ${pause.ms} ms`);
      assert.ok(steps.every((step) => step >= 1), 'no frame comes again');
      assert.equal((await page.session()).epoch, before.epoch, 'nothing was fenced');
    });

    it(`speech interrupts; the page says so, and drives on when nobody asks for anything (${transport})`, async (t) => {
      const { epoch } = await page.session();
      const all = await until('interrupted', (told) => sessions(told).includes('interrupted'), 20_000);
      assert.deepEqual(sessions(all).slice(-2), ['holding', 'interrupted']);
      await page.probe.page.waitForFunction(`document.body.dataset.state === 'held'`);
      assert.equal((await page.session()).epoch, epoch + 1);
      const [holding, interrupted] = all.slice(-2);
      t.diagnostic(`held → interrupted: ${Math.round(interrupted!.t - holding!.t)} ms`);
      const resumed = await until('resumed', (told) => sessions(told).at(-1) === 'generating', 20_000);
      await page.probe.until('pictures again', (samples) => stamped(samples).find(({ t: at, stamp }) => at > resumed.at(-1)!.t && stamp.epoch === epoch + 1));
      assert.equal(await page.probe.page.evaluate('segue.state'), 'live');
    });

    it(`a redirect that is typed after an interruption flows, and turning the microphone off lets the device go (${transport})`, async () => {
      const interruptions = (all: readonly Activity[]): number => sessions(all).filter((session) => session === 'interrupted').length;
      await until('interrupted again', (told) => interruptions(told) === 2, 20_000);
      await page.prompt('city at night');
      const all = await until('generating again', (told) => sessions(told).at(-1) === 'generating');
      assert.equal(interruptions(all), 2, JSON.stringify(all));
      await microphone();
      assert.equal(await page.probe.page.getByTestId('microphone').getAttribute('aria-pressed'), 'false');
    });
  }
});
