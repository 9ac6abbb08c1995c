import type { CDPSession, Page } from 'playwright-core';
import type { TestServer } from '../e2e/server.ts';
import { ThreadHeaps } from './ThreadHeaps.ts';

/** What a page and its server hold: all of it should stay as it is, however long somebody plays. */
export interface Footprint {
  readonly atRound: number;
  /** The page's, after a collection. */
  readonly pageHeapMB: number;
  readonly pageListeners: number;
  /** But for the strip of pictures, which grows with what was seen, up to an hour of it. */
  readonly pageNodes: number;
  readonly stripCells: number;
  readonly pageTimers: number;
  /** Objects and buffers of all threads of the server, after a collection. */
  readonly serverMB: number;
  /** Of the process: with all that collectors have let lie. */
  readonly residentMB: number;
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

/** Measures a page, opened with {@link COUNT_TIMERS}, and the server that it is on, started with `INSPECTED`. */
export class FootprintGauge {
  readonly #page: Page;
  readonly #devtools: CDPSession;
  readonly #server: TestServer;
  readonly #heaps: ThreadHeaps;

  private constructor(page: Page, devtools: CDPSession, server: TestServer, heaps: ThreadHeaps) {
    this.#page = page;
    this.#devtools = devtools;
    this.#server = server;
    this.#heaps = heaps;
  }

  static async open(page: Page, server: TestServer): Promise<FootprintGauge> {
    const devtools = await page.context().newCDPSession(page);
    await devtools.send('Performance.enable');
    return new FootprintGauge(page, devtools, server, await ThreadHeaps.open(server));
  }

  async read(atRound: number): Promise<Footprint> {
    await this.#devtools.send('HeapProfiler.collectGarbage');
    const { metrics } = await this.#devtools.send('Performance.getMetrics');
    const of = (name: string): number => metrics.find((metric) => metric.name === name)!.value;
    const server = await this.#server.metrics();
    const strip = await this.#page.evaluate<{ nodes: number; cells: number }>(COUNT_STRIP);
    return {
      atRound,
      pageHeapMB: round(of('JSHeapUsedSize') / 1e6),
      pageListeners: of('JSEventListeners'),
      pageNodes: of('Nodes') - strip.nodes,
      stripCells: strip.cells,
      pageTimers: await this.#page.evaluate(() => (globalThis as unknown as { __liveTimers: Set<number> }).__liveTimers.size),
      serverMB: round((await this.#heaps.held()) / 1e6),
      residentMB: round(server.sum('process_resident_memory_bytes') / 1e6),
      serverResources: server.sum('nodejs_active_resources'),
      serverBlocks: server.sum('segue_engine_blocks_live'),
    };
  }

  close(): void {
    this.#heaps.close();
  }
}

/** The strip of pictures: its cells, and the nodes inside it. */
const COUNT_STRIP = `(() => {
  const strip = document.getElementById('moments');
  const walker = document.createTreeWalker(strip);
  let nodes = 0;
  while (walker.nextNode() !== null) nodes++;
  return { nodes, cells: strip.childElementCount };
})()`;

function round(value: number): number {
  return Math.round(value * 10) / 10;
}
