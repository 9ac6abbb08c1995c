import type { CDPSession, Page } from 'playwright-core';
import type { TestServer } from '../e2e/server.ts';

/** What a page and its server hold: all of it should stay as it is, however long somebody plays. */
export interface Footprint {
  readonly atRound: number;
  /** The page's, after a collection. */
  readonly pageHeapMB: number;
  readonly pageListeners: number;
  readonly pageNodes: number;
  readonly pageTimers: number;
  /** All threads of the server. */
  readonly serverMB: number;
  /** Timers, sockets and the like of the control thread. */
  readonly serverResources: number;
  readonly serverBlocks: number;
}

/** Counts the timers that are set and have neither fired nor been cancelled: before the page's own scripts. */
export const COUNT_TIMERS = `(() => {
  const live = (globalThis.__liveTimers = new Set());
  const { setTimeout: once, clearTimeout: forget, setInterval: every, clearInterval: stop } = globalThis;
  globalThis.setTimeout = (run, ms, ...rest) => { const id = once(() => { live.delete(id); typeof run === 'function' ? run(...rest) : 0; }, ms); live.add(id); return id; };
  globalThis.setInterval = (run, ms, ...rest) => { const id = every(run, ms, ...rest); live.add(id); return id; };
  globalThis.clearTimeout = (id) => { live.delete(id); forget(id); };
  globalThis.clearInterval = (id) => { live.delete(id); stop(id); };
})();`;

/** Measures a page, opened with {@link COUNT_TIMERS}, and the server that it is on. */
export class FootprintGauge {
  readonly #page: Page;
  readonly #devtools: CDPSession;
  readonly #server: TestServer;

  private constructor(page: Page, devtools: CDPSession, server: TestServer) {
    this.#page = page;
    this.#devtools = devtools;
    this.#server = server;
  }

  static async open(page: Page, server: TestServer): Promise<FootprintGauge> {
    const devtools = await page.context().newCDPSession(page);
    await devtools.send('Performance.enable');
    return new FootprintGauge(page, devtools, server);
  }

  async read(atRound: number): Promise<Footprint> {
    await this.#devtools.send('HeapProfiler.collectGarbage');
    const { metrics } = await this.#devtools.send('Performance.getMetrics');
    const of = (name: string): number => metrics.find((metric) => metric.name === name)!.value;
    const server = await this.#server.metrics();
    return {
      atRound,
      pageHeapMB: round(of('JSHeapUsedSize') / 1e6),
      pageListeners: of('JSEventListeners'),
      pageNodes: of('Nodes'),
      pageTimers: await this.#page.evaluate(() => (globalThis as unknown as { __liveTimers: Set<number> }).__liveTimers.size),
      serverMB: round(server.sum('process_resident_memory_bytes') / 1e6),
      serverResources: server.sum('nodejs_active_resources'),
      serverBlocks: server.sum('segue_engine_blocks_live'),
    };
  }
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
