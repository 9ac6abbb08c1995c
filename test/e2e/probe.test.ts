/** The probe against a page whose behaviour is known, faults included: what it reports later can be trusted. */
import assert from 'node:assert/strict';
import { createServer, type Server } from 'node:http';
import { fileURLToPath } from 'node:url';
import type { AddressInfo } from 'node:net';
import { after, before, describe, it } from 'node:test';
import { bundle } from '../../probe/bundle.ts';
import { audioVideoSkew, framesPerSecond, isEpochOrLater, oldMediaAfter, painted, pressToGlass, stamped } from '../../probe/derive.ts';
import { Probe, type ProbePage } from '../../probe/Probe.ts';

describe('probe on a loopback page', () => {
  let server: Server;
  let probe: Probe;
  let url: string;

  before(async () => {
    const script = await bundle(fileURLToPath(new URL('../../probe/page/loopback.ts', import.meta.url)));
    server = createServer((_request, response) => {
      response.setHeader('content-type', 'text/html');
      response.end(`<!doctype html><title>loopback</title><body><script>${script}</script>`);
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    probe = await Probe.launch();
  });

  after(async () => {
    await probe.close();
    await new Promise((resolve) => server.close(resolve));
  });

  async function open(query: string): Promise<ProbePage> {
    const page = await probe.open(`${url}?${query}`);
    await page.until('first stamped picture and tone', (samples) => (stamped(samples).length > 5 && samples.some((sample) => sample.kind === 'sound' && sample.tone === 0)) || undefined);
    return page;
  }

  async function pressEscape(page: ProbePage): Promise<void> {
    await page.page.keyboard.press('Escape');
    await new Promise((resolve) => setTimeout(resolve, 1500));
    await page.drain();
  }

  for (const surface of ['canvas', 'video']) {
    it(`reads at least 99 % of the pictures painted on a ${surface}, and their tone`, async () => {
      const page = await open(`surface=${surface}&freeze=off`);
      const from = await page.now();
      await new Promise((resolve) => setTimeout(resolve, 6000));
      const to = await page.mark('end');
      await page.drain();
      const paints = painted(page.samples).filter(({ t }) => t >= from && t < to);
      assert.ok(paints.filter(({ stamp }) => stamp !== null).length >= 0.99 * paints.length, `${paints.length} paints`);
      const rate = framesPerSecond(page.samples, from, to);
      assert.ok(rate > 10.5 && rate < 13, `${rate} frames/s of 12`);
      const blocks = page.sound.filter(({ t }) => t >= from && t < to);
      assert.ok(blocks.length > 500, `${blocks.length} blocks of 10 ms in 6 s`);
      assert.ok(blocks.filter(({ tone }) => tone === 0).length >= 0.97 * blocks.length, 'the tone is heard throughout');
      await page.close();
    });
  }

  it('finds nothing old where the page freezes picture and sound in the press', async () => {
    const page = await open('freeze=on&lag=150');
    await pressEscape(page);
    const press = page.presses.find(({ what }) => what === 'key:Escape')!;
    const old = oldMediaAfter(page.samples, press, 1);
    assert.deepEqual([old.frames.length, old.blocks.length], [0, 0]);
    const shown = pressToGlass(page.samples, press, (paint) => isEpochOrLater(paint, 1));
    assert.ok(shown !== null && shown > 150 && shown < 1000, `new picture after ${shown} ms`);
    await page.close();
  });

  it('finds the pictures and the sound that a page lets through late', async () => {
    const page = await open('freeze=off&lag=300');
    await pressEscape(page);
    const press = page.presses.find(({ what }) => what === 'key:Escape')!;
    const old = oldMediaAfter(page.samples, press, 1);
    assert.ok(old.frames.length >= 2, `${old.frames.length} old pictures`);
    assert.ok(old.lastOldFrameMs > 150 && old.lastOldFrameMs < 800, `last after ${old.lastOldFrameMs} ms`);
    assert.ok(old.blocks.length >= 20, `${old.blocks.length} old blocks`);
    const [skew] = audioVideoSkew(page.samples);
    assert.ok(skew !== undefined && Math.abs(skew.skewMs) < 250, `skew ${skew?.skewMs} ms`);
    await page.close();
  });
});
