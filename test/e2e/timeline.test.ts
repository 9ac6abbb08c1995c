/** What the page shows of the past, and the futures that begin in it: in a real browser, on the real server. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import type { Page } from 'playwright-core';
import sharp from 'sharp';
import { Probe } from '../../probe/Probe.ts';
import type { FrameReceipt } from '../../src/protocol/frame_receipt.ts';
import type { Share } from '../../src/protocol/rest.ts';
import { ApiClient } from './api_client.ts';
import { DrivePage } from './DrivePage.ts';
import { TestServer } from './server.ts';

const BUSY_MS = 40_000;

describe('the timeline of a drive', { timeout: 400_000 }, () => {
  let server: TestServer;
  let probe: Probe;
  let drive: DrivePage;
  let page: Page;
  let api: ApiClient;
  const cells = () => page.getByTestId('timeline-cell');
  const state = (wanted: string, on = page) => on.waitForFunction(`document.body.dataset.state === '${wanted}'`, undefined, { timeout: BUSY_MS });

  before(async () => {
    server = await TestServer.start({ env: { SEGUE_ENGINE_ADMISSION_BOUND: '1' } });
    api = new ApiClient(server);
    probe = await Probe.launch();
    drive = await DrivePage.open(probe, server, { query: 'seed=11&prompt=a+forest+at+noon', viewport: { width: 1280, height: 800 } });
    page = drive.probe.page;
    await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
    await drive.join(BUSY_MS);
  });
  after(async () => {
    await drive?.close();
    await probe?.close();
    await server?.stop();
  });

  it('has a thumbnail every few seconds, the words where they took effect, and where one is', async () => {
    await page.waitForFunction(`document.querySelectorAll('.cell img[src]').length >= 2`, undefined, { timeout: BUSY_MS });
    await drive.typePrompt('make it night');
    await page.waitForFunction(`[...document.querySelectorAll('.cell .words')].some(({ textContent }) => textContent === 'make it night')`, undefined, { timeout: BUSY_MS });
    assert.equal(await page.locator('.cell[aria-current]').count(), 1);
    assert.match((await cells().first().getAttribute('aria-label')) ?? '', /^Go back to 0:00: a forest at noon/);
  });

  it('a picture that stands says what made it, and is the one that was presented', async () => {
    await drive.interrupt(BUSY_MS);
    const receipt = page.getByTestId('receipt');
    await receipt.waitFor({ timeout: BUSY_MS });
    await page.getByTestId('receipt-copy').click();
    const told = JSON.parse((await page.evaluate(`navigator.clipboard.readText()`)) as string) as FrameReceipt;
    assert.match(told.plan.words, /night/);
    const id = await drive.sessionId();
    const response = await fetch(`${server.url}/v1/sessions/${id}/frames/${told.media90k}`, { headers: { authorization: `Bearer ${server.apiKey}` } });
    const decoded = await sharp(Buffer.from(await response.arrayBuffer())).removeAlpha().raw().toBuffer();
    const painted = (await drive.pictures(1, 0))[0]!;
    assert.equal(painted.length, decoded.length);
    // What is painted came through a video codec.
    const off = painted.reduce((sum, value, at) => sum + Math.abs(value - decoded[at]!), 0) / painted.length;
    assert.ok(off < 12, `${off.toFixed(1)} grey levels off`);
    const { sha256 } = ((await api.call('GET', `/v1/sessions/${id}/frames/${told.media90k}/receipt`)).body as FrameReceipt).latents;
    assert.equal(sha256, told.latents.sha256);
    await page.getByTestId('interrupt').click();
    await state('live');
    await receipt.waitFor({ state: 'hidden' });
  });

  it('a press goes back there; what was left stays, dimmed', async () => {
    const before90k = (await drive.session()).presented90k;
    await cells().nth(1).click();
    await page.waitForFunction(`document.querySelectorAll('.moments .abandoned').length > 0`, undefined, { timeout: BUSY_MS });
    await state('live');
    const { presented90k } = await drive.session();
    assert.ok(presented90k < before90k, `${presented90k} of ${before90k}`);
    assert.equal(await page.locator('.abandoned .cell').first().getAttribute('aria-disabled'), 'true');
  });

  it('a fork opens beside it, by the keyboard; has a prompt of its own; changes places; closes', async () => {
    await cells().nth(0).focus();
    await page.keyboard.press('f');
    const side = page.getByTestId('side');
    await side.waitFor({ timeout: BUSY_MS });
    const first = await drive.sessionId();
    await page.waitForFunction(`document.querySelector('#side-status').textContent === ''`, undefined, { timeout: BUSY_MS });
    await page.getByTestId('side-prompt').fill('a desert at dawn');
    await page.keyboard.press('Enter');
    await page.getByTestId('side-swap').click();
    const second = await drive.sessionId();
    assert.notEqual(second, first);
    assert.equal((await api.session(first)).state, 'active');
    assert.equal((await api.session(second)).seed, 11);
    await page.getByTestId('side-swap').click();
    assert.equal(await drive.sessionId(), first);
    await page.getByTestId('side-close').click();
    await side.waitFor({ state: 'hidden' });
    await state('live');
  });

  it('a thumbnail that is dragged onto the picture is a fork beside it, from that moment', async () => {
    const first = await drive.sessionId();
    const known = (await api.sessions()).map(({ id }) => id);
    const cell = page.locator('.moments li:not(.abandoned) .cell').nth(1);
    await cell.scrollIntoViewIfNeeded();
    const from90k = Number(await cell.getAttribute('data-from'));
    const [at, stage] = [(await cell.boundingBox())!, (await page.locator('#stage').boundingBox())!];
    await page.mouse.move(at.x + at.width / 2, at.y + at.height / 2);
    await page.mouse.down();
    await page.mouse.move(at.x + at.width / 2, at.y - 20, { steps: 4 });
    await page.mouse.move(stage.x + stage.width / 2, stage.y + stage.height / 3, { steps: 8 });
    await page.mouse.up();
    const side = page.getByTestId('side');
    await side.waitFor({ timeout: BUSY_MS });
    const [fork] = (await api.sessions()).filter(({ id }) => !known.includes(id));
    assert.ok(fork !== undefined);
    const [mine, theirs] = await Promise.all([fork.id, first].map(async (id) => (await api.call('GET', `/v1/sessions/${id}/frames/${from90k - 1}/receipt`)).body as FrameReceipt));
    assert.equal(mine!.latents.sha256, theirs!.latents.sha256, 'the same past');
    // Side by side: both are seen, and go on.
    await page.waitForFunction(`document.querySelector('#side-status').textContent === ''`, undefined, { timeout: BUSY_MS });
    assert.equal(await page.locator('canvas.world:visible').count(), 2);
    await state('live');
    assert.deepEqual([(await api.session(first)).state, (await api.session(fork.id)).state], ['active', 'active']);
    assert.equal((await drive.session()).epoch, (await api.session(first)).epoch, 'nobody went back');
    await page.getByTestId('side-close').click();
    await side.waitFor({ state: 'hidden' });
  });

  it('loaded anew, the page shows the futures that were left, with their pictures', async () => {
    const { id, clientToken } = await api.createSessionInLine({ prompt: 'a coast at dawn', seed: 12 });
    const joined = await DrivePage.open(probe, server, { path: `/#session=${id}&token=${encodeURIComponent(clientToken)}`, viewport: { width: 1280, height: 800 } });
    const { page: other } = joined.probe;
    try {
      await joined.join(BUSY_MS);
      assert.equal(await joined.sessionId(), id);
      await other.waitForFunction(`document.querySelectorAll('.moments .cell').length >= 3`, undefined, { timeout: BUSY_MS });
      await other.getByTestId('timeline-cell').nth(1).click();
      await other.waitForFunction(`document.querySelectorAll('.moments .abandoned').length > 0`, undefined, { timeout: BUSY_MS });
      const froms = () => other.evaluate(`[...document.querySelectorAll('.moments .abandoned .cell')].map(({ dataset }) => dataset.from)`);
      const left = await froms();
      await other.reload();
      assert.equal(await other.locator('.moments .abandoned').count(), 0);
      await joined.pressJoin();
      await other.waitForFunction(`document.querySelectorAll('.moments .abandoned').length > 0`, undefined, { timeout: BUSY_MS });
      assert.deepEqual(await froms(), left);
      assert.equal(await joined.sessionId(), id);
      await other.waitForFunction(`document.querySelector('.moments .abandoned img[src]') !== null`, undefined, { timeout: BUSY_MS });
      await state('live', other);
      assert.equal((await api.session(id)).state, 'active', 'and the drive goes on');
    } finally {
      await joined.close();
      await api.close(id);
    }
  });

  it('a link plays what was seen, in another browser’s page', async () => {
    await page.getByTestId('share').click();
    await page.getByText('Link copied').waitFor({ timeout: BUSY_MS });
    const link = (await page.evaluate(`navigator.clipboard.readText()`)) as string;
    const share = (await api.call('POST', `/v1/sessions/${await drive.sessionId()}/shares`, { body: {} })).body as Share;
    assert.ok(link.startsWith(`${server.url}/#share=`), link);
    await drive.leave();
    const watching = await DrivePage.open(probe, server, { path: '/', viewport: { width: 1280, height: 800 } });
    const other = watching.probe.page;
    try {
      await other.goto(link);
      await other.reload();
      await other.getByRole('button', { name: 'Play' }).click();
      await state('live', other);
      await other.waitForFunction(`document.querySelector('#plan').textContent !== ''`, undefined, { timeout: BUSY_MS });
      assert.equal(await other.getByTestId('prompt').isVisible(), false);
      assert.ok((await other.getByTestId('timeline-cell').count()) >= Math.floor((share.to90k - share.from90k) / 270_000));
      await other.getByTestId('interrupt').click();
      await state('paused', other);
      await other.getByTestId('receipt').waitFor({ timeout: BUSY_MS });
    } finally {
      await watching.close();
    }
  });
});
