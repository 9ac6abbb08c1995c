/** A media thread with a scripted engine and a real Chromium: what the browser tests stand on. */
import { createServer, type Server } from 'node:http';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MessageChannel, Worker } from 'node:worker_threads';
import type { AddressInfo } from 'node:net';
import { chromium, type BrowserContext, type Page } from 'playwright-core';
import { ThreadLink } from '../../src/api/ThreadLink.ts';
import { createLogger } from '../../src/observe/log.ts';
import { DEFAULT_MEDIA_OPTIONS, type MediaOptions } from '../../src/media/options.ts';
import type { MediaThreadData } from '../../src/media/media_thread.ts';
import type { MediaFormat } from '../../src/streams/media_time.ts';
import type { ControlToMedia, IceCandidate, MediaStats, MediaToControl, SessionChannels } from '../../src/streams/messages.ts';
import { SessionWords } from '../../src/streams/session_words.ts';
import { SharedPool } from '../../src/streams/shared_pool.ts';
import type { ScriptedEngineData, ScriptedEngineReport } from './scripted_engine.ts';
import { WATCHER_PAGE } from './watcher_page.ts';

export const FORMAT: MediaFormat = { width: 224, height: 128, framesPerSecond: 12, audioSampleRate: 24_000 };

export const LOOPBACK: MediaOptions = {
  ...DEFAULT_MEDIA_OPTIONS,
  ice: { ...DEFAULT_MEDIA_OPTIONS.ice, additionalHostAddresses: ['127.0.0.1'], onlyAdditional: true },
  logLevel: 'warn',
};

export const CHROMIUM_FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--use-fake-ui-for-media-stream',
  '--use-fake-device-for-media-stream',
  '--autoplay-policy=no-user-gesture-required',
  '--allow-loopback-in-peer-connection',
  '--disable-features=WebRtcHideLocalIpsWithMdns',
];

export class MediaThreadRig {
  readonly sessionId = 'session-1';
  readonly words = new SessionWords();
  readonly video = SharedPool.create(FORMAT.width * FORMAT.height * 3, 8);
  readonly audio = SharedPool.create(4000, 16);
  readonly messages: MediaToControl[] = [];
  readonly reports: ScriptedEngineReport[] = [];
  readonly #waiting = new Set<() => void>();
  #thread: ThreadLink<ControlToMedia, MediaToControl> | null = null;
  #engine: Worker | null = null;
  #page: Page | null = null;
  #browser: BrowserContext | null = null;
  #profile: string | null = null;
  #http: Server | null = null;
  #connections = 0;
  #draining: Promise<void> | null = null;

  get thread(): ThreadLink<ControlToMedia, MediaToControl> {
    return this.#thread!;
  }

  get page(): Page {
    return this.#page!;
  }

  get stats(): MediaStats | null {
    const found = this.messages.findLast((message) => message.type === 'media.stats');
    return found?.type === 'media.stats' ? found.stats : null;
  }

  async start({ stamp, restartMs = 150, framesAhead = 3, options = LOOPBACK }: { readonly stamp: boolean; readonly restartMs?: number; readonly framesAhead?: number; readonly options?: MediaOptions }): Promise<void> {
    const { port1, port2 } = new MessageChannel();
    const data: MediaThreadData = { enginePort: port1, options };
    this.#thread = new ThreadLink({ name: 'media', url: new URL('../../src/media/media_thread.ts', import.meta.url), workerData: data, transferList: [port1], log: createLogger({ level: 'warn' }) });
    this.#thread.listen({
      message: (message) => {
        this.messages.push(message);
        for (const check of this.#waiting) check();
      },
      crashed: (error) => {
        throw error;
      },
    });
    await this.until((message) => message.type === 'media.ready', 10_000);
    const channels: SessionChannels = { words: this.words.buffer, video: this.video.descriptor, audio: this.audio.descriptor };
    this.#thread.send({ type: 'session.open', sessionId: this.sessionId, channels, format: FORMAT, stamp });
    const engineData: ScriptedEngineData = { port: port2, sessionId: this.sessionId, channels, format: FORMAT, restartMs, framesAhead };
    this.#engine = new Worker(new URL('./scripted_engine.ts', import.meta.url), { workerData: engineData, transferList: [port2] });
    this.#engine.on('message', (report: ScriptedEngineReport) => this.reports.push(report));
  }

  async browse(): Promise<void> {
    this.#http = createServer((_request, response) => response.setHeader('content-type', 'text/html').end(WATCHER_PAGE));
    await new Promise<void>((resolve) => this.#http!.listen(0, '127.0.0.1', resolve));
    this.#profile = mkdtempSync(join(tmpdir(), 'segue-chromium-'));
    this.#browser = await chromium.launchPersistentContext(this.#profile, { executablePath: '/usr/bin/chromium', headless: true, args: CHROMIUM_FLAGS });
    this.#page = await this.open();
  }

  /** One more page, with its own connection. */
  async open(): Promise<Page> {
    const connectionId = `connection-${++this.#connections}`;
    const page = await this.#browser!.newPage();
    await page.exposeFunction('signal', async (sdp: string) => {
      this.thread.send({ type: 'connection.offer', sessionId: this.sessionId, connectionId, sdp });
      const answer = await this.until((message) => (message.type === 'connection.answer' || message.type === 'connection.failed') && message.connectionId === connectionId);
      if (answer.type !== 'connection.answer') throw new Error(`no answer: ${JSON.stringify(answer)}`);
      return answer.sdp;
    });
    await page.exposeFunction('trickle', (candidate: IceCandidate) => {
      this.thread.send({ type: 'connection.candidate', sessionId: this.sessionId, connectionId, candidate });
    });
    await page.goto(`http://127.0.0.1:${(this.#http!.address() as AddressInfo).port}/`);
    return page;
  }

  /** The first message, past or to come, that `matches`. */
  until(matches: (message: MediaToControl) => boolean, timeoutMs = 5000): Promise<MediaToControl> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting.delete(check);
        reject(new Error(`no such message within ${timeoutMs} ms`));
      }, timeoutMs);
      const check = (): void => {
        const found = this.messages.find(matches);
        if (found === undefined) return;
        clearTimeout(timer);
        this.#waiting.delete(check);
        resolve(found);
      };
      this.#waiting.add(check);
      check();
    });
  }

  /** Ends the media thread's streams in order; it then ends by itself. */
  async drain(): Promise<void> {
    this.#draining ??= this.#drain();
    return this.#draining;
  }

  async #drain(): Promise<void> {
    if (this.#thread?.send({ type: 'media.drain' })) await this.until((message) => message.type === 'media.drained');
    await this.#thread?.close(2000);
  }

  async close(): Promise<void> {
    await this.#browser?.close();
    if (this.#profile !== null) rmSync(this.#profile, { recursive: true, force: true });
    this.#engine?.postMessage('stop');
    await this.drain();
    await this.#engine?.terminate();
    this.#http?.closeAllConnections();
    this.#http?.close();
  }
}
