/** A drive that is made of what a camera sees: Chromium's fake device, over WebRTC and over the WebSocket. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { distinctPaints, painted } from '../../probe/derive.ts';
import { Probe } from '../../probe/Probe.ts';
import type { SessionView } from '../../src/protocol/rest.ts';
import { ApiClient } from './api_client.ts';
import { DrivePage } from './DrivePage.ts';
import { TestServer } from './server.ts';

/** With room for a timeline. */
const VIEWPORT = { width: 480, height: 640 };

describe('camera', { timeout: 240_000 }, () => {
  let server: TestServer;
  let probe: Probe;
  let page: DrivePage | null = null;
  let api: ApiClient;
  const until = async (id: string, holds: (view: SessionView) => boolean): Promise<void> => {
    const deadline = performance.now() + 20_000;
    while (!holds(await api.session(id))) {
      assert.ok(performance.now() < deadline, `${JSON.stringify(await api.session(id))}\n${server.tail()}`);
      await delay(100);
    }
  };

  before(async () => {
    server = await TestServer.start({ env: { SEGUE_ENGINE_ADMISSION_BOUND: '1' } }); // alone: it measures its costs while it starts
    api = new ApiClient(server);
    probe = await Probe.launch();
  });
  after(async () => {
    await page?.close();
    await probe?.close();
    const exit = await server?.stop();
    assert.equal(exit?.code, 0, server?.tail());
  });

  for (const transport of ['webrtc', 'websocket'] as const) {
    it(`is asked for with a press, taken in, made anew and redirected (${transport})`, async (t) => {
      await page?.close();
      page = await DrivePage.open(probe, server, { query: `seed=3&prompt=forest%20at%20dawn${transport === 'websocket' ? '&transport=websocket' : ''}`, ear: false, viewport: VIEWPORT });
      const button = page.probe.page.getByTestId('camera');
      assert.equal(await button.getAttribute('aria-pressed'), 'false');
      await button.click();
      await page.probe.page.waitForFunction(`document.querySelector('#camera').ariaPressed === 'true'`);
      await page.join();
      assert.equal((await page.session()).program, 'drive_transform');
      assert.equal(await page.transport(), transport);
      const from = await page.probe.now();
      await delay(4_000);
      await page.probe.drain();
      const shown = distinctPaints(painted(page.probe.samples)).filter(({ t: at }) => at >= from).length;
      t.diagnostic(`${(shown / 4).toFixed(1)} pictures a second; ${(await server.metrics()).sum('segue_media_intake_dropped_total')} frames of the camera dropped`);
      assert.ok(shown >= 20, `${shown} pictures in 4 s`);
      const applied = await page.prompt('city at night', 15_000);
      assert.ok(['restart', 'continue'].includes(applied.how));
      const later = await page.probe.now();
      await delay(2_000);
      await page.probe.drain();
      assert.ok(distinctPaints(painted(page.probe.samples)).filter(({ t: at }) => at >= later).length >= 8, 'and it goes on');
      // Another future of it is made of the same camera.
      const forked = await page.sessionId();
      const known = (await api.sessions()).map(({ id }) => id);
      await page.probe.page.getByTestId('timeline-cell').last().focus();
      await page.probe.page.keyboard.press('f');
      await page.probe.page.getByTestId('side').waitFor({ timeout: 15_000 });
      const fork = (await api.sessions()).find(({ id }) => !known.includes(id))!;
      assert.equal(fork.program, 'drive_transform');
      const [begun, left] = [(await api.session(fork.id)).presented90k, (await api.session(forked)).presented90k];
      for (const [id, from90k] of [[fork.id, begun], [forked, left]] as const) await until(id, (view) => view.presented90k >= from90k + 90_000);
      await page.probe.page.getByTestId('side-close').click();
      assert.equal((await page.events()).filter(({ event }) => event === 'error').length, 0);
      await page.leave();
      assert.equal(await page.probe.page.getByTestId('camera').getAttribute('aria-pressed'), 'false', 'the camera is let go of');
    });
  }
});
