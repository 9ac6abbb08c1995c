/** A visitor drops a picture on the page: the drive starts from it. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Probe } from '../../probe/Probe.ts';
import { Classifier, majority } from '../oracle/Classifier.ts';
import { DrivePage } from './DrivePage.ts';
import { TestServer } from './server.ts';

const CITY = new URL('../oracle/renders/city-night-clear_sky.png', import.meta.url).pathname;

describe('a drive from a picture', () => {
  let server: TestServer;
  let probe: Probe;
  let classifier: Classifier;
  let page: DrivePage;

  before(async () => {
    server = await TestServer.start();
    [probe, classifier] = await Promise.all([Probe.launch(), Classifier.load()]);
    page = await DrivePage.open(probe, server, { query: 'seed=11' });
  });
  after(async () => {
    await page?.close();
    await probe?.close();
    const exit = await server?.stop();
    assert.equal(exit?.code, 0, server?.tail());
  });

  it('offers it to the keyboard, by name, right after Join', async () => {
    const { page: tab } = page.probe;
    await tab.getByRole('button', { name: /join/i }).focus();
    await tab.keyboard.press('Tab');
    assert.equal(await tab.evaluate<string>(`document.activeElement?.id`), 'picture');
    assert.equal(await tab.getByLabel('Start from a picture').count(), 1);
  });

  it('says what it can’t read, shows what it can, and takes it away again', async () => {
    const { page: tab } = page.probe;
    const note = tab.getByTestId('picture-note');
    await tab.getByLabel('Start from a picture').setInputFiles({ name: 'note.png', mimeType: 'image/png', buffer: Buffer.from('no picture') });
    await tab.waitForFunction(`document.getElementById('picture-note').textContent.includes('can’t be read')`);
    assert.equal(await tab.getByTestId('picture-chosen').isVisible(), false);
    assert.ok((await note.boundingBox())!.width > 100, 'for everybody to see');
    await tab.getByLabel('Start from a picture').setInputFiles(CITY);
    await tab.getByRole('button', { name: 'Remove the picture' }).click();
    assert.match((await note.textContent()) ?? '', /removed/);
    assert.equal(await tab.getByTestId('picture-chosen').isVisible(), false);
  });

  it('starts from the picture that is dropped on the page, and says what it shows', async () => {
    const { page: tab } = page.probe;
    const dropped = await tab.evaluateHandle(`(() => {
      const transfer = new DataTransfer();
      const bytes = Uint8Array.from(atob('${readFileSync(CITY).toString('base64')}'), (character) => character.charCodeAt(0));
      transfer.items.add(new File([bytes], 'city.png', { type: 'image/png' }));
      return transfer;
    })()`);
    await tab.getByTestId('poster').dispatchEvent('drop', { dataTransfer: dropped });
    await tab.getByTestId('picture-chosen').waitFor({ state: 'visible' });
    await page.join();
    const readings = await classifier.read(await page.pictures(10, 100));
    assert.deepEqual([majority(readings, 'place').value, majority(readings, 'time').value], ['city', 'night']);
    await delay(500);
    assert.match((await tab.getByTestId('plan').textContent()) ?? '', /city.*night/);
  });

  it('goes on from there as any drive does', async () => {
    await page.prompt('make it day');
    await delay(2_500);
    const readings = await classifier.read(await page.pictures(12, 125));
    assert.deepEqual([majority(readings, 'place').value, majority(readings, 'time').value], ['city', 'day']);
    await page.leave();
  });
});
