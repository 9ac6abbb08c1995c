import { createWriteStream, existsSync, type WriteStream } from 'node:fs';
import { once } from 'node:events';
import { chromium, type Browser, type BrowserContext, type Page } from 'playwright-core';
import { pageScript } from './bundle.ts';
import type { CapturedPicture, PageProbe, PaintedSample, PressSample, Sample, SoundSample } from './samples.ts';

/**
 * What a real browser needs on a machine without display, camera, loudspeaker or a network but loopback; reasons beside each.
 * Throttling is off because a second page must paint as the first does.
 */
const FLAGS = [
  '--no-sandbox', // containers without user namespaces
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--allow-loopback-in-peer-connection', // Chromium leaves 127.0.0.1 out of its candidates otherwise
  '--use-fake-ui-for-media-stream', // real addresses instead of mDNS names before any permission
  '--use-fake-device-for-media-stream',
  '--autoplay-policy=no-user-gesture-required',
  '--disable-background-timer-throttling',
  '--disable-renderer-backgrounding',
  '--disable-backgrounding-occluded-windows',
];

const CHROMIUM = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

/** The page's log holds four minutes; this keeps the host's copy near and each transfer small. */
const DRAIN_MS = 1000;

export interface OpenOptions {
  /** Raw samples are appended here as ndjson. */
  readonly rawFile?: string;
  readonly viewport?: { readonly width: number; readonly height: number };
  /** `false`: nothing is listened to, which spares a sixth of a core where sound is not what is measured. */
  readonly ear?: boolean;
  /** Run in the page before its own scripts, after the probe. */
  readonly initScript?: string;
  /** Served in place of what the URL holds: a client of one's own on the server's origin. */
  readonly html?: string;
}

/** A real Chromium with the probe in every page. */
export class Probe {
  readonly browser: Browser;
  readonly #pages = new Set<ProbePage>();

  private constructor(browser: Browser) {
    this.browser = browser;
  }

  /** @throws Error where no Chromium is found (`SEGUE_CHROMIUM` names one) or it doesn't start */
  static async launch(extraFlags: readonly string[] = []): Promise<Probe> {
    const executablePath = process.env['SEGUE_CHROMIUM'] ?? CHROMIUM.find(existsSync);
    if (executablePath === undefined) throw new Error(`no Chromium found at ${CHROMIUM.join(', ')}; set SEGUE_CHROMIUM`);
    return new Probe(await chromium.launch({ executablePath, headless: true, args: [...FLAGS, ...extraFlags] }));
  }

  /** Opens a page of its own, with a storage of its own. */
  async open(url: string, options: OpenOptions = {}): Promise<ProbePage> {
    const context = await this.browser.newContext({
      bypassCSP: true, // the ear's worklet is a blob
      viewport: options.viewport ?? { width: 960, height: 720 },
    });
    if (options.ear === false) await context.addInitScript('window.__probeDeaf = true;');
    await context.addInitScript(await pageScript());
    if (options.initScript !== undefined) await context.addInitScript(options.initScript);
    const { html } = options;
    if (html !== undefined) await context.route(url, (route) => route.fulfill({ contentType: 'text/html', body: html }));
    const page = await context.newPage();
    const probed = new ProbePage(context, page, options.rawFile);
    this.#pages.add(probed);
    await page.goto(url);
    return probed;
  }

  async close(): Promise<void> {
    await Promise.all([...this.#pages].map((page) => page.close()));
    this.#pages.clear();
    await this.browser.close();
  }
}

/** One probed page: its raw samples so far, and the means to add to them. */
export class ProbePage {
  readonly page: Page;
  readonly samples: Sample[] = [];
  /** Uncaught errors and `console.error` of the page. */
  readonly errors: string[] = [];
  readonly #context: BrowserContext;
  readonly #raw: WriteStream | null;
  readonly #timer: NodeJS.Timeout;
  #draining: Promise<void> = Promise.resolve();
  #closed: Promise<void> | null = null;

  constructor(context: BrowserContext, page: Page, rawFile?: string) {
    this.#context = context;
    this.page = page;
    this.#raw = rawFile === undefined ? null : createWriteStream(rawFile, { flags: 'a' });
    page.on('pageerror', (error) => this.errors.push(String(error)));
    page.on('console', (message) => message.type() === 'error' && this.errors.push(message.text()));
    this.#timer = setInterval(() => {
      // The page may be navigating or gone: the next explicit drain says so.
      this.drain().catch(() => undefined);
    }, DRAIN_MS);
  }

  get painted(): PaintedSample[] {
    return this.samples.filter((sample) => sample.kind === 'painted');
  }

  get sound(): SoundSample[] {
    return this.samples.filter((sample) => sample.kind === 'sound');
  }

  get presses(): PressSample[] {
    return this.samples.filter((sample) => sample.kind === 'press');
  }

  /** Fetches what the page has logged since the last time. */
  drain(): Promise<void> {
    const drained = this.#draining.then(async () => {
      const fresh = await this.page.evaluate(() => (globalThis as unknown as { __probe: PageProbe }).__probe.drain());
      for (const sample of fresh) {
        this.samples.push(sample);
        this.#raw?.write(`${JSON.stringify(sample)}\n`);
      }
    });
    this.#draining = drained.catch(() => undefined);
    return drained;
  }

  /** Drops the host's copy (the raw file keeps everything): long runs would pile up otherwise. */
  forget(beforeMs: number): void {
    const keep = this.samples.findIndex((sample) => sample.t >= beforeMs);
    this.samples.splice(0, keep === -1 ? this.samples.length : keep);
  }

  /** The page's `performance.now()`, as an entry of the log. */
  mark(what: string): Promise<number> {
    return this.page.evaluate((name) => (globalThis as unknown as { __probe: PageProbe }).__probe.mark(name), what);
  }

  now(): Promise<number> {
    return this.page.evaluate(() => performance.now());
  }

  grab(): Promise<CapturedPicture | null> {
    return this.page.evaluate(() => (globalThis as unknown as { __probe: PageProbe }).__probe.grab());
  }

  capture(count: number): Promise<CapturedPicture[]> {
    return this.page.evaluate((n) => (globalThis as unknown as { __probe: PageProbe }).__probe.capture(n), count);
  }

  stats(): Promise<Record<string, unknown>[]> {
    return this.page.evaluate(() => (globalThis as unknown as { __probe: PageProbe }).__probe.stats());
  }

  /** Drains until `found` returns something other than undefined; its value, or an error that names `what` after `timeoutMs`. */
  async until<T>(what: string, found: (samples: readonly Sample[]) => T | undefined, timeoutMs = 10_000): Promise<T> {
    const deadline = performance.now() + timeoutMs;
    for (;;) {
      await this.drain();
      const value = found(this.samples);
      if (value !== undefined) return value;
      if (performance.now() > deadline) throw new Error(`not within ${timeoutMs} ms: ${what}; page errors: ${this.errors.slice(-3).join(' | ') || 'none'}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  close(): Promise<void> {
    return (this.#closed ??= (async () => {
      clearInterval(this.#timer);
      await this.#draining;
      await this.#context.close();
      if (this.#raw === null) return;
      this.#raw.end();
      await once(this.#raw, 'close');
    })());
  }
}
