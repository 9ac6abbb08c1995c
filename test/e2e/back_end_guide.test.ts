/** docs/back-end.md is run as it is written: its files, its commands, and a browser for the person. */
import assert from 'node:assert/strict';
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { chromium, type Browser } from 'playwright-core';
import { TestServer } from './server.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const KEY = 'choose-a-key-of-16-or-more';

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  return port;
}

describe('the guide for back ends', () => {
  const scratch = mkdtempSync(join(tmpdir(), 'segue-guide-'));
  let server: TestServer;
  let backEnd: ChildProcess;
  let browser: Browser;
  let origin: string;
  let written = '';

  async function until(what: RegExp): Promise<void> {
    const deadline = performance.now() + 20_000;
    while (!what.test(written)) {
      if (performance.now() > deadline) throw new Error(`no ${what} in: ${written}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  before(async () => {
    const guide = readFileSync(join(ROOT, 'docs/back-end.md'), 'utf8');
    const files = [...guide.matchAll(/^\*\*`play\/(\S+)`\*\*[^\n]*\n\n```\w+\n(.*?)^```$/gms)];
    assert.deepEqual(files.map(([, name]) => name), ['back-end.js', 'index.html', 'page.ts']);
    assert.ok(guide.includes(`KEY=${KEY} node play/back-end.js`));
    mkdirSync(join(scratch, 'play'));
    for (const shared of ['node_modules', 'web-client', 'src']) symlinkSync(join(ROOT, shared), join(scratch, shared));
    writeFileSync(join(scratch, 'package.json'), '{"type":"module"}');
    for (const [, name, text] of files) writeFileSync(join(scratch, 'play', name!), text!);
    execFileSync(join(ROOT, 'node_modules/.bin/vite'), ['build', 'play', '--logLevel', 'warn'], { cwd: scratch, stdio: 'pipe' });
    const port = await freePort();
    origin = `http://127.0.0.1:${port}`;
    server = await TestServer.start({ env: { SEGUE_AUTH_API_KEYS: KEY, SEGUE_CORS_ORIGINS: origin, SEGUE_TEST_ENABLED: 'false' } });
    backEnd = spawn(process.execPath, ['play/back-end.js'], { cwd: scratch, env: { ...process.env, API: server.url, KEY, PORT: String(port) }, stdio: ['ignore', 'pipe', 'pipe'] });
    for (const stream of [backEnd.stdout!, backEnd.stderr!]) stream.setEncoding('utf8').on('data', (text: string) => (written += text));
    await until(/^open http/m);
    browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox', '--autoplay-policy=no-user-gesture-required'] });
  });

  after(async () => {
    await browser?.close();
    backEnd?.kill();
    await server?.stop();
    rmSync(scratch, { recursive: true, force: true });
  });

  it('works from join to leave, for a page of another origin', async () => {
    const page = await browser.newPage();
    const shows = (id: string, what: RegExp): Promise<void> => page.locator(id).filter({ hasText: what }).waitFor({ state: 'attached', timeout: 30_000 });
    await page.goto(`${origin}/`);
    await page.getByRole('button', { name: 'Join' }).click();
    await shows('#state', /^live$/);
    await shows('#plan', /city/);
    await until(/^session\.updated .*"state":"active"/m);
    await page.getByLabel('Prompt').fill('desert with unicorns');
    await page.getByRole('button', { name: 'Ask' }).click();
    await shows('#said', /in \d+ ms. Not known to the model: unicorns/);
    await until(/^request\.applied .*"how":/m);
    await page.getByLabel('Prompt').fill('qwertz');
    await page.getByRole('button', { name: 'Ask' }).click();
    await shows('#said', /nothing in this prompt is known/);
    await page.getByRole('button', { name: 'Leave' }).click();
    await shows('#said', /^left$/);
    await until(/^session\.closed /m);
    await page.close();
  });
});
