/** What can go wrong between a person and a drive: each is told in words, and each has a way on. */
import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';
import { painted } from '../../probe/derive.ts';
import { Probe } from '../../probe/Probe.ts';
import { DrivePage, type DriveOptions } from './DrivePage.ts';
import { TestServer } from './server.ts';

/** No candidate of the server's reaches the browser: what a network does that lets no UDP through. */
const BLOCK_WEBRTC = `(() => {
  const set = RTCPeerConnection.prototype.setRemoteDescription;
  RTCPeerConnection.prototype.setRemoteDescription = function ({ type, sdp }) {
    return set.call(this, { type, sdp: sdp.replace(/a=candidate.*\\r\\n/g, '').replace(/a=fingerprint:(\\S+) ..:/g, 'a=fingerprint:$1 00:') });
  };
})();`;
const WITHOUT_TRACK_PROCESSOR = `delete globalThis.MediaStreamTrackProcessor;`;
const LIVE = `document.body.dataset.state === 'live'`;

describe('ways on', { timeout: 180_000 }, () => {
  let server: TestServer;
  let probe: Probe;
  const pages: DrivePage[] = [];

  before(async () => {
    server = await TestServer.start(); // alone: it measures its costs while it starts
    probe = await Probe.launch();
  });

  afterEach(async () => {
    for (const page of pages.splice(0)) await page.close();
  });

  after(async () => {
    await probe?.close();
    await server?.stop();
  });

  const open = async (options: DriveOptions = {}): Promise<DrivePage> => {
    const page = await DrivePage.open(probe, server, options);
    pages.push(page);
    return page;
  };
  const says = (page: DrivePage, text: RegExp): Promise<void> => page.probe.page.getByText(text).first().waitFor({ timeout: 15_000 });

  it('goes over the WebSocket where the network lets no WebRTC through, and says so', async () => {
    const page = await open({ initScript: BLOCK_WEBRTC });
    await page.pressJoin();
    await says(page, /No direct way through this network/);
    await says(page, /This network blocks direct video/);
    assert.equal(await page.transport(), 'websocket');
    assert.equal(await page.probe.page.evaluate(LIVE), true);
  });

  it('paints by a video element where a track gives out no frames', async () => {
    const page = await open({ initScript: WITHOUT_TRACK_PROCESSOR });
    await page.join();
    await page.probe.until('a second of pictures', (samples) => painted(samples)[12]);
  });

  it('says when a server has gone silent, comes back, and offers a new drive where the old one is gone', async () => {
    const page = await open();
    await page.join();
    const port = new URL(server.url).port;
    await server.kill();
    await says(page, /No signal/);
    await says(page, /Rejoining/);
    server = await TestServer.start({ env: { SEGUE_PORT: port } });
    await says(page, /This drive is gone/);
    await page.probe.page.getByRole('button', { name: /join again/i }).click();
    await page.probe.page.waitForFunction(LIVE, undefined, { timeout: 15_000 });
  });
});
