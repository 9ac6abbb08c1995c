import type { AddressInfo } from 'node:net';
import { resolve } from 'node:path';
import { MessageChannel } from 'node:worker_threads';
import type { FastifyInstance } from 'fastify';
import { loadModelSpec } from '../engine/model/spec/load_model_spec.ts';
import { DEFAULT_MEDIA_OPTIONS, type MediaOptions } from '../media/options.ts';
import { monotonicClock } from '../observe/clock.ts';
import { EventLoopMonitor } from '../observe/EventLoopMonitor.ts';
import type { Logger } from '../observe/log.ts';
import { Metrics } from '../observe/Metrics.ts';
import { SegueError } from '../protocol/errors.ts';
import { SESSION_STATES } from '../protocol/rest.ts';
import { SessionRegistry } from '../sessions/SessionRegistry.ts';
import type { ControlToEngine, ControlToMedia, EngineCard, EngineToControl, MediaToControl } from '../streams/messages.ts';
import type { ApiContext } from './ApiContext.ts';
import { ApiKeys } from './ApiKeys.ts';
import { Authenticator } from './Authenticator.ts';
import { ClientTokens } from './ClientTokens.ts';
import type { Config } from './config_schema.ts';
import { createHttpApp } from './HttpApp.ts';
import { isLoopback } from './routes/demo_routes.ts';
import { StreamServer } from './StreamServer.ts';
import { ThreadLink, type Link } from './ThreadLink.ts';

export interface ServerLinks {
  readonly engine: Link<ControlToEngine, EngineToControl>;
  readonly media: Link<ControlToMedia, MediaToControl>;
  /** Programs that the deployment serves; the first is the default. */
  readonly programs: readonly string[];
}

export interface ServerOptions {
  readonly config: Config;
  /** Directory that the configuration's paths start from. */
  readonly root: string;
  readonly log: Logger;
  /** Threads, or what stands for them in tests. */
  readonly links?: ServerLinks;
}

/** Reading the peer's many modules and the codecs; seconds only on a machine that does much else. */
const MEDIA_READY_MS = 60_000;
/** Between `goaway` and the end: time for a client to read it and to say what happens. At most a fifth of the drain limit. */
const GOAWAY_MS = 2000;
/** For a thread that has drained to end by itself; nothing of it computes any more, so stopping it then is safe. */
const THREAD_EXIT_MS = 1_000;
/** Of the drain limit, kept for what comes after the threads. */
const LAST_STEPS_MS = 1_000;
/** After a crash: time to tell everybody. */
const CRASH_DRAIN_MS = 3_000;

const ENGINE_GAUGES: ReadonlySet<string> = new Set(['sessions', 'blocksLive', 'blockBytes']);
const MEDIA_GAUGES: ReadonlySet<string> = new Set(['sessions', 'connections', 'lipSyncMaxMs', 'lateMaxMs']);
/** What Prometheus' `_total` already says. */
const MEDIA_NAMES: Readonly<Record<string, string>> = { framesSent: 'frames', packetsSent: 'packets', bytesSent: 'bytes', encodeMsTotal: 'encodeMs' };

/** The whole server: threads, sessions, HTTP and WebSocket, started and ended in order. */
export class Server {
  readonly url: string;
  /** Made at start because the configuration has none; null where it has. */
  readonly generatedKey: string | null;
  /** Resolves with the cause when a thread died; sessions have been told and all is closed by then. */
  readonly crashed: Promise<Error>;
  readonly registry: SessionRegistry;
  readonly #parts: Parts;
  #closing: Promise<boolean> | null = null;

  /** Loads and starts everything; resolves when it listens. Rejects, with nothing left open, when a part can't start. */
  static async start(options: ServerOptions): Promise<Server> {
    const { config, root, log } = options;
    const links = options.links ?? startThreads(config, root, log);
    const state: ThreadState = { card: Promise.withResolvers(), mediaReady: Promise.withResolvers(), engineDrained: Promise.withResolvers(), mediaDrained: Promise.withResolvers(), crash: Promise.withResolvers(), registry: null, metrics: new Metrics() };
    for (const { promise } of [state.card, state.mediaReady]) promise.catch(() => undefined);
    listen(links, state, log);
    try {
      const [card] = await Promise.all([
        within(state.card, config.engine.readyMs, 'the engine'),
        within(state.mediaReady, MEDIA_READY_MS, 'the media thread'),
      ]);
      return await Server.#compose(options, links, state, card);
    } catch (error) {
      // Ends the other's wait too, and with it its watchdog.
      state.card.reject(error);
      state.mediaReady.reject(error);
      await Promise.all([links.engine.close(0), links.media.close(0)]);
      throw error;
    }
  }

  static async #compose({ config, root, log }: ServerOptions, links: ServerLinks, state: ThreadState, card: EngineCard): Promise<Server> {
    const clock = monotonicClock;
    const { metrics } = state;
    const generatedKey = config.auth.apiKeys.length === 0 ? ApiKeys.generate() : null;
    const keys = new ApiKeys(generatedKey === null ? config.auth.apiKeys : [generatedKey]);
    const tokens = new ClientTokens({ secret: config.auth.tokenSecret, ttlMs: config.auth.tokenTtlMs });
    const registry = new SessionRegistry({
      engine: links.engine,
      media: links.media,
      clock,
      log,
      card,
      programs: links.programs,
      limits: { idleMs: config.sessions.idleMs, idleWarningMs: config.sessions.idleWarningMs, orphanMs: config.sessions.orphanMs },
      maxSessions: config.sessions.max,
      maxWaiting: config.sessions.maxWaiting,
      onSettled: (kind, answer, elapsedMs) => metrics.observeRequest(kind, answer, elapsedMs),
    });
    state.registry = registry;
    const context: ApiContext = {
      config,
      webDirectory: resolve(root, config.web.directory),
      registry,
      card,
      programs: links.programs,
      keys,
      tokens,
      authenticator: new Authenticator(keys, tokens),
      metrics,
      clock,
      log,
      notReady: () => (registry.admitting ? null : 'the server is shutting down'),
    };
    const monitor = new EventLoopMonitor();
    describeMetrics(metrics, registry, monitor);
    const app = await createHttpApp(context);
    const streams = new StreamServer(context);
    streams.attach(app.server);
    try {
      await app.listen({ host: config.host, port: config.port });
    } catch (error) {
      monitor.close();
      await streams.close();
      await app.close();
      throw error;
    }
    const { port } = app.server.address() as AddressInfo;
    const host = config.host.includes(':') ? `[${config.host}]` : config.host;
    return new Server(`http://${host}:${port}`, generatedKey, { config, log, links, state, registry, app, streams, monitor });
  }

  private constructor(url: string, generatedKey: string | null, parts: Parts) {
    this.url = url;
    this.generatedKey = generatedKey;
    this.registry = parts.registry;
    this.#parts = parts;
    this.crashed = parts.state.crash.promise.then(async (error) => {
      await this.#failWith(error);
      return error;
    });
  }

  /**
   * Ends in order: no new sessions, `goaway`, sessions closed, threads drained, sockets closed. Idempotent. Never later than the drain limit;
   * resolves with whether all went in order.
   */
  close(reason: string): Promise<boolean> {
    this.#closing ??= this.#drain(reason);
    return this.#closing;
  }

  async #drain(reason: string): Promise<boolean> {
    const { config, log, links, state, registry } = this.#parts;
    const { deadlineMs } = config.drain;
    const until = monotonicClock.now() + deadlineMs;
    const left = (reservedMs: number): number => Math.max(0, until - monotonicClock.now() - reservedMs);
    const reserve = Math.min(LAST_STEPS_MS, deadlineMs / 4);
    log.info({ deadlineMs, sessions: registry.live.length }, 'draining');
    registry.stopAdmitting();
    let inOrder = true;
    if (registry.live.length > 0) {
      const graceMs = Math.min(GOAWAY_MS, Math.floor(deadlineMs / 5));
      registry.goaway(graceMs, reason);
      await delay(graceMs);
      inOrder = await bounded(registry.closeAll(reason), left(reserve * 2));
    }
    links.engine.expectEnd();
    links.media.expectEnd();
    links.engine.send({ type: 'engine.drain' });
    links.media.send({ type: 'media.drain' });
    const drained = Promise.all([state.engineDrained.promise, state.mediaDrained.promise]);
    inOrder = (await bounded(drained, left(reserve))) && inOrder;
    await this.#closeParts(Math.min(THREAD_EXIT_MS, left(reserve / 2)));
    log.info({ inOrder }, 'drained');
    return inOrder;
  }

  async #failWith(error: Error): Promise<void> {
    const { log, registry } = this.#parts;
    log.fatal({ err: error }, 'a thread is gone');
    if (this.#closing) return;
    this.#closing = (async () => {
      await bounded(registry.failAll(new SegueError('engine_unavailable', 'a part of the server failed')), CRASH_DRAIN_MS);
      await this.#closeParts(LAST_STEPS_MS);
      return false;
    })();
    await this.#closing;
  }

  async #closeParts(graceMs: number): Promise<void> {
    const { links, app, streams, monitor } = this.#parts;
    await streams.close();
    await app.close();
    await Promise.all([links.engine.close(graceMs), links.media.close(graceMs)]);
    monitor.close();
  }
}

interface Parts {
  readonly config: Config;
  readonly log: Logger;
  readonly links: ServerLinks;
  readonly state: ThreadState;
  readonly registry: SessionRegistry;
  readonly app: FastifyInstance;
  readonly streams: StreamServer;
  readonly monitor: EventLoopMonitor;
}

/** What the threads have said so far. */
interface ThreadState {
  readonly card: PromiseWithResolvers<EngineCard>;
  readonly mediaReady: PromiseWithResolvers<void>;
  readonly engineDrained: PromiseWithResolvers<void>;
  readonly mediaDrained: PromiseWithResolvers<void>;
  readonly crash: PromiseWithResolvers<Error>;
  readonly metrics: Metrics;
  /** Null while it starts. */
  registry: SessionRegistry | null;
}

function listen({ engine, media }: ServerLinks, state: ThreadState, log: Logger): void {
  const crashed = (error: Error): void => {
    state.card.reject(error);
    state.mediaReady.reject(error);
    state.crash.resolve(error);
  };
  engine.listen({
    crashed,
    message: (message) => {
      switch (message.type) {
        case 'engine.ready':
          return state.card.resolve(message.card);
        case 'engine.failed': {
          const error = new SegueError(message.error.code, message.error.message);
          return crashed(error);
        }
        case 'engine.drained':
          return state.engineDrained.resolve();
        case 'engine.stats':
          return state.metrics.takeStats('segue_engine', { ...message.stats }, ENGINE_GAUGES);
        default:
          return guarded(log, () => state.registry?.onEngine(message));
      }
    },
  });
  media.listen({
    crashed,
    message: (message) => {
      switch (message.type) {
        case 'media.ready':
          return state.mediaReady.resolve();
        case 'media.drained':
          return state.mediaDrained.resolve();
        case 'media.stats':
          return state.metrics.takeStats('segue_media', Object.fromEntries(Object.entries(message.stats).map(([key, value]) => [MEDIA_NAMES[key] ?? key, value])), MEDIA_GAUGES);
        default:
          return guarded(log, () => state.registry?.onMedia(message));
      }
    },
  });
}

/** A fault in one session's handling must not end the process, and with it everybody else's session. */
function guarded(log: Logger, run: () => void): void {
  try {
    run();
  } catch (error) {
    log.error({ err: error }, 'a message could not be handled');
  }
}

function startThreads(config: Config, root: string, log: Logger): ServerLinks {
  const modelDir = resolve(root, config.model.directory);
  // The engine verifies checksums; here only the authoring files are needed.
  const { deployment } = loadModelSpec(modelDir, { verifyChecksums: false });
  const { port1, port2 } = new MessageChannel();
  const engine = new ThreadLink<ControlToEngine, EngineToControl>({
    name: 'engine',
    url: new URL('../realtime-programs/engine_thread.ts', import.meta.url),
    workerData: { modelDir, deployment: { ...deployment, engine: { admissionBound: config.engine.admissionBound, policy: config.engine.policy } }, mediaPort: port1, testMode: config.test.enabled, logLevel: config.logLevel },
    transferList: [port1],
    log,
  });
  const media = new ThreadLink<ControlToMedia, MediaToControl>({
    name: 'media',
    url: new URL('../media/media_thread.ts', import.meta.url),
    workerData: { enginePort: port2, options: mediaOptions(config) },
    transferList: [port2],
    log,
  });
  return { engine, media, programs: deployment.programs };
}

/** On loopback, media stays on loopback too, unless addresses are named. */
export function mediaOptions({ host, ice, logLevel, media }: Config): MediaOptions {
  const loopback = isLoopback(host);
  const named = ice.addresses.length > 0;
  return {
    ...DEFAULT_MEDIA_OPTIONS,
    logLevel,
    fence: media.fence,
    ice: {
      additionalHostAddresses: named ? ice.addresses : loopback ? ['127.0.0.1'] : [],
      onlyAdditional: named || loopback,
      portRange: [ice.minPort, ice.maxPort],
      servers: ice.servers.map(({ urls, username, credential }) => ({ urls, ...(username === undefined ? {} : { username }), ...(credential === undefined ? {} : { credential }) })),
    },
  };
}

function describeMetrics(metrics: Metrics, registry: SessionRegistry, monitor: EventLoopMonitor): void {
  metrics.gaugeBy('segue_event_loop_delay_ms', 'Delay of the control thread over the last one to two minutes', 'quantile', () => {
    const { p50Ms, p99Ms, maxMs } = monitor.read();
    return { '0.5': p50Ms, '0.99': p99Ms, '1': maxMs };
  });
  metrics.gaugeBy('segue_sessions', 'Live sessions by state', 'state', () => {
    const counts: Record<string, number> = Object.fromEntries(SESSION_STATES.map((state) => [state, 0]));
    for (const { state } of registry.live) counts[state] = (counts[state] ?? 0) + 1;
    return counts;
  });
  metrics.gauge('segue_sessions_created', 'Sessions opened since the start', () => registry.created);
  metrics.gauge('segue_admission_queue_length', 'Clients that wait for capacity', () => registry.queue.length);
}

async function within<T>({ promise, reject }: PromiseWithResolvers<T>, ms: number, what: string): Promise<T> {
  const watchdog = setTimeout(() => reject(new SegueError('timed_out', `${what} was not ready within ${ms} ms`)), ms);
  try {
    return await promise;
  } finally {
    clearTimeout(watchdog);
  }
}

/** Whether `work` was done in time; a failure of it is thrown. */
async function bounded(work: Promise<unknown>, ms: number): Promise<boolean> {
  const { promise, resolve: late } = Promise.withResolvers<false>();
  const watchdog = setTimeout(() => late(false), ms);
  try {
    return await Promise.race([work.then(() => true), promise]);
  } finally {
    clearTimeout(watchdog);
  }
}

function delay(ms: number): Promise<void> {
  return new Promise((done) => setTimeout(done, ms));
}

