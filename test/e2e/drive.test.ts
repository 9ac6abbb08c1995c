/** One person's visit, from Join to Leave, in a real browser. Steps build on each other, so they are subtests of one test. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { audibleShare, distinctPaints, framesPerSecond, painted, stalls, STILL_CHANGE } from '../../probe/derive.ts';
import { Probe } from '../../probe/Probe.ts';
import { Classifier, majority } from '../oracle/Classifier.ts';
import { DrivePage } from './DrivePage.ts';
import { roadMotion } from './road_motion.ts';
import { TestServer } from './server.ts';

const WATCH_MS = 60_000;
/** A world cross-fades in about a second, and what stood by the road of the old one needs another to pass. */
const SETTLED_MS = 2_500;

describe('a drive', () => {
  let server: TestServer;
  let probe: Probe;
  let classifier: Classifier;
  let page: DrivePage;

  before(async () => {
    server = await TestServer.start(); // alone: it measures its costs while it starts
    [probe, classifier] = await Promise.all([Probe.launch(), Classifier.load()]);
  });

  after(async () => {
    await page?.close();
    await probe?.close();
    const exit = await server?.stop();
    assert.equal(exit?.code, 0, server?.tail());
  });

  it('begins within seconds of pressing Join', async () => {
    page = await DrivePage.open(probe, server, { query: 'seed=11&prompt=forest+at+day+with+clear+sky' });
    const press = await page.join();
    const first = painted(page.probe.samples)[0]!;
    assert.ok(first.t - press.t < 5_000, `first picture ${Math.round(first.t - press.t)} ms after the press`);
    assert.equal(await page.transport(), 'webrtc');
  });

  it('paints at least 11 of 12 pictures a second for 60 s, with sound throughout', async () => {
    await delay(1_500);
    const from = await page.probe.now();
    await delay(WATCH_MS);
    const to = await page.probe.mark('watched');
    await page.probe.drain();
    const { samples } = page.probe;
    const rate = framesPerSecond(samples, from, to);
    const longest = stalls(samples.filter(({ t }) => t >= from && t < to), 250).map(({ durationMs }) => Math.round(durationMs));
    assert.ok(rate >= 11, `${rate.toFixed(2)} pictures a second; gaps of ${longest.join(', ')} ms`);
    const moving = distinctPaints(painted(samples)).filter(({ t, change }) => t >= from && t < to && (change ?? 0) > STILL_CHANGE).length / ((to - from) / 1000);
    assert.ok(moving >= 8, `only ${moving.toFixed(2)} pictures a second differ visibly from the one before`);
    const audible = audibleShare(samples, from, to);
    assert.ok(audible >= 0.97, `sound above silence for ${(audible * 100).toFixed(1)} % of the time`);
  });

  for (const { text, place, time, weather } of [
    { text: 'snowy mountains at night with snowfall', place: 'snowy mountains', time: 'night', weather: 'snowfall' },
    { text: 'desert at day with clear sky', place: 'desert', time: 'day', weather: 'clear sky' },
  ]) {
    it(`changes the world to "${text}"`, async () => {
      await page.prompt(text);
      await delay(SETTLED_MS);
      const readings = await classifier.read(await page.pictures(16, 125));
      const seen = { place: majority(readings, 'place'), time: majority(readings, 'time'), weather: majority(readings, 'weather') };
      const told = JSON.stringify(seen);
      assert.deepEqual({ place: seen.place.value, time: seen.time.value, weather: seen.weather.value }, { place, time, weather }, told);
      assert.ok(seen.place.share >= 0.75 && seen.time.share >= 0.75, told);
    });
  }

  it('turns the way it is steered', async () => {
    /** The last ten of `count` pictures from now on: counted in pictures, for the curve follows the wheel in the world's own time. */
    const watch = async (count: number): Promise<Uint8Array[]> => (await page.probe.capture(count)).slice(-10).map(({ rgb }) => Buffer.from(rgb, 'base64'));
    const steered = async (key: string): Promise<{ curve: number; motion: number }> => {
      const straight = await watch(30);
      await page.probe.page.keyboard.down(key);
      const turning = await watch(30);
      await page.probe.page.keyboard.up(key);
      const readings = await classifier.read(turning);
      return { curve: mean(readings.map(({ curve }) => curve)), motion: roadMotion(straight, turning) };
    };
    const left = await steered('ArrowLeft');
    const right = await steered('ArrowRight');
    const told = `left ${JSON.stringify(left)}, right ${JSON.stringify(right)}`;
    assert.ok(left.motion <= -2 && right.motion >= 2, `the road doesn't move with the wheel: ${told}`);
    assert.ok(left.curve < -0.15 && right.curve > 0.15, `the road bends the other way: ${told}`);
  });

  it('freezes picture and sound when it is interrupted, and goes on with the next prompt', async () => {
    const { press } = await page.interrupt();
    await delay(2_000);
    const until = await page.probe.mark('held');
    await page.probe.drain();
    const paints = painted(page.probe.samples).filter(({ t, change }) => t >= press.t && t < until && (change ?? 0) > STILL_CHANGE);
    assert.equal(paints.length, 0, `${paints.length} pictures painted while held`);
    assert.equal(audibleShare(page.probe.samples, press.t + 200, until), 0, 'sound while held');

    await page.prompt('coast at dusk');
    const from = await page.probe.now();
    await delay(3_500); // half a second more than is looked at: sound is logged when it has been heard
    await page.probe.drain();
    const rate = framesPerSecond(page.probe.samples, from, from + 3_000);
    assert.ok(rate >= 10, `${rate.toFixed(1)} pictures a second after the next prompt`);
    const audible = audibleShare(page.probe.samples, from + 1_000, from + 3_000);
    assert.ok(audible >= 0.9, `sound for ${(audible * 100).toFixed(0)} % of the time after the next prompt`);
  });

  it('ends when the person leaves', async () => {
    await page.leave();
    await page.probe.drain();
    assert.deepEqual(page.probe.errors, []);
    const closed = page.probe.samples.some((sample) => sample.kind === 'peer' && sample.event === 'created');
    assert.ok(closed);
    const from = await page.probe.now();
    await delay(500);
    await page.probe.drain();
    assert.equal(painted(page.probe.samples).filter(({ t }) => t >= from).length, 0, 'painted after leaving');
  });
});

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
