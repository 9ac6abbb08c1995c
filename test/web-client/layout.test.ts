import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { extname, join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { chromium, type Browser, type Page } from 'playwright-core';
import { build } from 'vite';
import { KEY_BINDINGS } from '../../web-client/page/key_bindings.ts';

const ROOT = fileURLToPath(new URL('../../web-client', import.meta.url));
const TYPES: Readonly<Record<string, string>> = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css' };
const STATES = ['live', 'held', 'holding', 'redirecting', 'reconnecting'] as const;
/** WCAG 2.2, 2.5.8: the least a target may measure. */
const MIN_TARGET_PX = 24;

/** Evaluated in the page: what is wrong with its controls, with words in place as in a session. */
const OUT_OF_REACH = `(() => {
  document.getElementById('narration').textContent = 'We roll into the snowy mountains, early morning, with a blizzard';
  document.getElementById('plan').textContent = 'snowy mountains night snowfall';
  const wrong = [];
  if (document.documentElement.scrollWidth > innerWidth) wrong.push('the page is wider than the window');
  let controls = 0;
  for (const element of document.querySelectorAll('button, input, .captions p')) {
    const style = getComputedStyle(element);
    const box = element.getBoundingClientRect();
    // Chips scroll within their row.
    if (style.visibility !== 'visible' || box.width === 0 || element.closest('.visually-hidden, .poster, .chips')) continue;
    const name = element.id || element.dataset.testid || element.textContent;
    if (box.left < 0 || box.top < 0 || box.right > innerWidth || box.bottom > innerHeight) wrong.push(name + ' is outside the window');
    if (!element.matches('button, input')) continue;
    controls += 1;
    if (Math.min(box.width, box.height) < ${MIN_TARGET_PX}) wrong.push(name + ' is too small');
    const there = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
    if (there !== element && !element.contains(there)) wrong.push(name + ' is covered by ' + (there && there.className));
  }
  if (controls < 10) wrong.push('only ' + controls + ' controls');
  return wrong;
})()`;

/** Evaluated in the page: chips as a session brings them. */
const FILL_CHIPS = `(() => {
  const groups = [['forest', 'desert', 'city', 'coast', 'snowy mountains'], ['dawn', 'day', 'dusk', 'night'], ['clear sky', 'rain', 'fog', 'snowfall']];
  document.getElementById('chips').innerHTML = groups.map((words) => '<div class="chip-group">' + words.map((word) => '<button type="button" class="chip">' + word + '</button>').join('') + '</div>').join('');
})()`;

/** Evaluated in the page: measurements, switched on, with as many lines as they can have. */
const FILL_OVERLAY = `(() => {
  const overlay = document.getElementById('overlay');
  if (overlay.hidden) document.getElementById('overlay-toggle').click();
  const line = '<li><span class="asked">snowy mountains at night</span><span class="ms">1234 ms</span><span class="how">restart · chunk 1234, step 2 · predicted 1234 ms</span></li>';
  overlay.querySelector('.nothing')?.remove();
  overlay.insertAdjacentHTML('beforeend', '<ol>' + line.repeat(8) + '</ol>');
})()`;

const READY = {
  type: 'ready',
  protocol: 1,
  session: 's',
  epoch: 0,
  model: 'drive',
  format: { width: 224, height: 128, framesPerSecond: 12, audioSampleRate: 16_000 },
  framesPerChunk: 2,
  vocabulary: ['forest', 'desert', 'city', 'coast', 'snowy', 'mountains', 'dawn', 'day', 'dusk', 'night', 'clear', 'sky', 'rain', 'fog', 'snowfall'],
};

/** Joins a session whose server shakes hands and then says nothing: the page has its words, and never a picture. */
async function joinWithoutMedia(page: Page, url: string): Promise<void> {
  await page.route('**/v1/demo/sessions', (route) => route.fulfill({ status: 201, json: { id: 's', state: 'created', clientToken: 't', expiresAt: new Date(Date.now() + 60_000).toISOString() } }));
  await page.routeWebSocket(/\/v1\/sessions\/s\/stream/, (socket) => {
    socket.onMessage((data) => {
      const { message } = JSON.parse(String(data)) as { message: { type: string; id: string } };
      if (message.type === 'hello') socket.send(JSON.stringify({ channel: 'control', message: { ...READY, re: message.id } }));
    });
  });
  await page.goto(url);
  await page.getByRole('button', { name: 'Join' }).click();
}

/** The page as it is built, in a real browser, without a server behind it: what can be pressed must be where it can be reached. */
describe('layout of the page', { timeout: 150_000 }, () => {
  let browser: Browser;
  let server: Server;
  let folder: string;
  let url: string;

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'segue-page-'));
    await build({ configFile: join(ROOT, 'vite.config.ts'), root: ROOT, logLevel: 'error', build: { outDir: folder, emptyOutDir: true } });
    server = createServer((request, response) => {
      const path = new URL(request.url ?? '/', 'http://localhost').pathname;
      void readFile(join(folder, path === '/' ? 'index.html' : path)).then(
        (body) => response.writeHead(200, { 'content-type': TYPES[extname(path) || '.html'] ?? 'text/plain' }).end(body),
        () => response.writeHead(404).end(),
      );
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    browser = await chromium.launch({ executablePath: process.env['CHROMIUM_BIN'] ?? '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu'] });
  });

  after(async () => {
    await browser.close();
    await new Promise((resolve) => server.close(resolve));
    await rm(folder, { recursive: true });
  });

  const withPage = async (width: number, height: number, run: (page: Page, errors: string[]) => Promise<void>): Promise<void> => {
    const context = await browser.newContext({ viewport: { width, height }, reducedMotion: 'reduce' });
    const page = await context.newPage();
    const errors: string[] = [];
    page.on('pageerror', ({ message }) => errors.push(message));
    try {
      await page.goto(url);
      await run(page, errors);
    } finally {
      await context.close();
    }
  };

  for (const [width, height] of [[360, 640], [390, 844], [844, 390], [667, 375], [480, 400], [1280, 800], [1000, 700]] as const) {
    it(`keeps every control in reach at ${width} × ${height}`, () =>
      withPage(width, height, async (page, errors) => {
        await page.evaluate(FILL_CHIPS);
        for (const measuring of [false, true]) {
          if (measuring) await page.evaluate(FILL_OVERLAY);
          for (const state of STATES) {
            await page.evaluate(`document.body.dataset.state = '${state}'`);
            const outside = await page.evaluate(OUT_OF_REACH);
            assert.deepEqual(outside, [], `${state}${measuring ? ', measuring' : ''}`);
          }
        }
        assert.deepEqual(errors, []);
      }));
  }

  for (const [width, height] of [[360, 640], [390, 844], [768, 1024]] as const) {
    it(`leaves the picture free of measurements at ${width} × ${height}`, () =>
      withPage(width, height, async (page) => {
        await page.evaluate(`document.body.dataset.state = 'live'`);
        await page.evaluate(FILL_CHIPS);
        await page.evaluate(FILL_OVERLAY);
        const [picture, overlay] = await Promise.all([page.getByTestId('stage').boundingBox(), page.getByTestId('overlay').boundingBox()]);
        assert.ok(picture && overlay);
        assert.ok(overlay.y >= picture.y + picture.height, `measurements from ${overlay.y}, picture to ${picture.y + picture.height}`);
        assert.ok(picture.height >= 0.22 * height, `the picture is ${picture.height} high`);
      }));
  }

  it('leaves most of the picture free of measurements on a phone on its side', () =>
    withPage(844, 390, async (page) => {
      await page.evaluate(`document.body.dataset.state = 'live'`);
      await page.evaluate(FILL_OVERLAY);
      const overlay = await page.getByTestId('overlay').boundingBox();
      assert.ok(overlay && overlay.height <= 40, `measurements are ${overlay?.height} high`);
    }));

  for (const [width, height] of [[360, 640], [390, 844], [844, 390], [1280, 800]] as const) {
    it(`moves nothing when captions come at ${width} × ${height}`, () =>
      withPage(width, height, async (page) => {
        await page.evaluate(`document.body.dataset.state = 'live'`);
        await page.evaluate(FILL_CHIPS);
        const places = `JSON.stringify([...document.querySelectorAll('button, input, .stage, .plan')].map((element) => { const { x, y } = element.getBoundingClientRect(); return [element.id || element.className, Math.round(x), Math.round(y)]; }))`;
        const before = await page.evaluate<string>(places);
        await page.evaluate(`document.getElementById('plan').textContent = 'drive through the snowy mountains at night with fog'`);
        await page.evaluate(`document.getElementById('narration').textContent = 'We roll into the snowy mountains, early morning, with a blizzard'`);
        assert.equal(await page.evaluate<string>(places), before);
      }));
  }

  for (const [width, height] of [[390, 844], [360, 640], [844, 390]] as const) {
    it(`shows the chips that are chosen at ${width} × ${height}`, () =>
      withPage(width, height, async (page) => {
        await joinWithoutMedia(page, `${url}?transport=websocket&prompt=snowy%20mountains%20at%20night`);
        await page.getByTestId('chip-snowy-mountains').waitFor({ state: 'attached' });
        // The prompt of the page's URL is chosen before the model has said a word.
        assert.equal(await page.getByTestId('chip-snowy-mountains').getAttribute('aria-pressed'), 'true');
        await page.waitForFunction(`(() => { const { left, right } = document.querySelector('[data-testid=chip-snowy-mountains]').getBoundingClientRect(); return left >= 0 && right <= innerWidth; })()`, undefined, { timeout: 3_000 });
      }));
  }

  it('tells in its legend every key that does something', () =>
    withPage(1280, 800, async (page) => {
      await page.evaluate(`document.body.dataset.state = 'live'`);
      const shown = await page.evaluate<string[]>(`[...document.querySelectorAll('#keys kbd')].map((key) => key.textContent)`);
      assert.deepEqual(shown.toSorted(), KEY_BINDINGS.flatMap(({ keys }) => keys.map(({ cap }) => cap)).toSorted());
      assert.equal(await page.locator('#keys').isVisible(), true);
    }));

  it('offers Join, then the picture and the camera to start from, and nothing else before there is a session, by keyboard too', () =>
    withPage(1280, 800, async (page) => {
      const focused = new Set<string>();
      for (let i = 0; i < 5; i += 1) {
        await page.keyboard.press('Tab');
        focused.add(await page.evaluate<string>(`document.activeElement?.id ?? ''`));
      }
      focused.delete('');
      assert.deepEqual([...focused], ['join', 'picture', 'camera']);
    }));

  it('gives every control a name, and the picture one too', () =>
    withPage(1280, 800, async (page) => {
      await page.evaluate(`document.body.dataset.state = 'live'`);
      const nameless = await page.evaluate(`[...document.querySelectorAll('button, input')].filter((element) => !(element.ariaLabel || element.textContent.trim() || element.labels?.length)).map((element) => element.outerHTML)`);
      assert.deepEqual(nameless, []);
      assert.equal(await page.getByRole('img', { name: /world/i }).count(), 1);
    }));

  it('tells an unreachable server, and offers another try', () =>
    withPage(390, 844, async (page) => {
      await page.route('**/v1/**', (route) => route.abort());
      await page.getByRole('button', { name: 'Join' }).click();
      await page.getByText(/can’t be reached/).waitFor();
      assert.equal(await page.evaluate('document.activeElement?.id'), 'join');
      assert.equal(await page.getByRole('button', { name: /join again/i }).isVisible(), true);
    }));

  it('shows the place in line, keeps it by its ticket, and lets go on demand', () =>
    withPage(390, 844, async (page) => {
      const tickets: (string | undefined)[] = [];
      await page.route('**/v1/demo/sessions', (route) => {
        tickets.push((route.request().postDataJSON() as { ticket?: string }).ticket);
        assert.equal(route.request().headers()['prefer'], 'respond-async');
        return route.fulfill({ status: 202, json: { retryAfterMs: 500, position: 4 - tickets.length, ticket: 't1', estimateMs: 130_000 } });
      });
      await page.getByRole('button', { name: 'Join' }).click();
      const errors: string[] = [];
      page.on('console', (message) => message.type() === 'error' && errors.push(message.text()));
      await page.getByText('You are number 3 in line').waitFor();
      await page.getByText('in about 2 minutes').waitFor();
      await page.getByText('You are next').waitFor();
      assert.deepEqual(tickets.slice(0, 3), [undefined, 't1', 't1']);
      await page.getByRole('button', { name: 'Leave the line' }).click();
      await page.getByRole('button', { name: /join again/i }).waitFor();
      const asked = tickets.length;
      await page.waitForTimeout(800);
      assert.equal(tickets.length, asked, 'it still asks after having left');
      assert.deepEqual(errors, [], 'waiting is no error');
    }));
});
