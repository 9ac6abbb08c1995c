import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import type { FastifyInstance } from 'fastify';
import { monotonicClock } from '../observe/clock.ts';
import { EventLoopMonitor } from '../observe/EventLoopMonitor.ts';
import type { Logger } from '../observe/log.ts';
import { Metrics } from '../observe/Metrics.ts';
import { SegueError } from '../protocol/errors.ts';
import { RESOURCES } from '../protocol/session_usage.ts';
import { SessionArchive } from '../sessions/SessionArchive.ts';
import type { Budget } from '../sessions/SessionBudget.ts';
import type { SessionLimits } from '../sessions/session_options.ts';
import { SessionRegistry } from '../sessions/SessionRegistry.ts';
import type { EngineCard } from '../streams/messages.ts';
import type { ApiContext } from './ApiContext.ts';
import type { StoryFingerprint } from '../streams/storage_messages.ts';
import { ApiKeys } from './ApiKeys.ts';
import { Authenticator } from './Authenticator.ts';
import { ClientTokens } from './ClientTokens.ts';
import type { Config } from './config_schema.ts';
import { createHttpApp } from './HttpApp.ts';
import { HttpListener } from './HttpListener.ts';
import { ImageReader } from './ImageReader.ts';
import { describeServer, ENGINE_METRICS, MEDIA_METRICS } from './server_metrics.ts';
import { ServerThreads, type ServerLinks } from './ServerThreads.ts';
import { StartCancelled } from './start_error.ts';
import { StorageLink, type StorageReady } from './StorageLink.ts';
import { StreamServer } from './StreamServer.ts';

export interface ServerOptions {
  readonly config: Config;
  /** Directory that the configuration's paths start from. */
  readonly root: string;
  readonly log: Logger;
  /** Threads, or what stands for them in tests. */
  readonly links?: ServerLinks;
  /** Gives the start up. */
  readonly signal?: AbortSignal;
}

/** Between `goaway` and the end: time for a client to read it and to say what happens. At most a fifth of the drain limit. */
const GOAWAY_MS = 2000;
/** For a thread that has drained to end by itself; nothing of it computes any more, so stopping it then is safe. */
const THREAD_EXIT_MS = 1_000;
/** Of the drain limit, kept for what comes after the threads. */
const LAST_STEPS_MS = 1_000;
/** Whatever is left of the drain limit, a batch is given this long to reach the disk. */
const LEAST_STORAGE_MS = 300;
/** After a crash: time to tell everybody. */
const CRASH_DRAIN_MS = 3_000;

interface Parts {
  readonly config: Config;
  readonly log: Logger;
  readonly threads: ServerThreads;
  readonly storage: StorageLink | null;
  readonly registry: SessionRegistry;
  readonly listener: HttpListener;
  readonly app: FastifyInstance;
  readonly streams: StreamServer;
  readonly monitor: EventLoopMonitor;
}

/** The whole server: port, threads, sessions, HTTP and WebSocket, started and ended in order. */
export class Server {
  readonly url: string;
  /** Made at start because the configuration has none; null where it has. */
  readonly generatedKey: string | null;
  /** Resolves with the cause when a thread died; sessions have been told and all is closed by then. */
  readonly crashed: Promise<Error>;
  readonly registry: SessionRegistry;
  readonly #parts: Parts;
  #closing: Promise<boolean> | null = null;

  /**
   * Takes the port, then loads and starts everything; resolves when it serves. Rejects, with nothing left open, when a part can't start
   * (StartError: the user's to put right) or when `signal` says to stop (StartCancelled).
   */
  static async start(options: ServerOptions): Promise<Server> {
    const { config, root, log, signal } = options;
    const listener = new HttpListener(log);
    const url = await listener.listen(config.host, config.port);
    let threads: ServerThreads | null = null;
    let storage: StorageLink | null = null;
    let server: Server;
    try {
      const started = options.links ? null : StorageLink.start(config, root, log);
      storage = started?.link ?? null;
      // First: a directory that can't be used is said at once, and nothing has been loaded in vain.
      const kept = storage === null ? null : await storage.ready();
      threads = options.links ? new ServerThreads(options.links, log) : ServerThreads.start(config, root, log, started?.enginePort ?? null);
      const card = await threads.ready(config.engine.readyMs, signal);
      server = await Server.#compose(options, url, listener, threads, card, storage === null || kept === null ? null : { link: storage, kept });
    } catch (error) {
      // What loads is let finish: a thread that computes must not be stopped.
      if (threads && error instanceof StartCancelled) await bounded(threads.drain(), config.drain.deadlineMs - LAST_STEPS_MS);
      await Promise.all([listener.close(), threads?.close(error instanceof StartCancelled ? THREAD_EXIT_MS : 0)]);
      await storage?.drain();
      await storage?.close(THREAD_EXIT_MS);
      throw error;
    }
    if (!signal?.aborted) return server;
    // Told so in the last moment.
    await server.close('told to stop while starting');
    throw new StartCancelled('told to stop while starting');
  }

  static async #compose({ config, root, log }: ServerOptions, url: string, listener: HttpListener, threads: ServerThreads, card: EngineCard, storage: { readonly link: StorageLink; readonly kept: StorageReady } | null): Promise<Server> {
    const clock = monotonicClock;
    const metrics = new Metrics();
    const generatedKey = config.auth.apiKeys.length === 0 ? ApiKeys.generate() : null;
    const keys = new ApiKeys(generatedKey === null ? config.auth.apiKeys : [generatedKey]);
    const tokens = new ClientTokens({ secret: config.auth.tokenSecret === '' ? (storage?.kept.tokenKey ?? '') : config.auth.tokenSecret, ttlMs: config.auth.tokenTtlMs });
    const { engine, media, programs, prompts, windowChunks = 0 } = threads.links;
    // Of sessions that are opened from now on: a reload replaces the weights.
    const fingerprint = (): StoryFingerprint => ({ modelId: card.modelId, weightsVersion: card.weightsVersion, adapterVersions: {}, machine: card.fingerprint });
    const archive = storage === null ? null : new SessionArchive({ storage: storage.link, clock, log, fingerprint, windowChunks });
    storage?.link.listen((message) => archive?.receive(message));
    const registry = new SessionRegistry({
      engine,
      media,
      clock,
      log,
      card,
      programs,
      prompts,
      limits: limitsOf(config.sessions),
      maxSessions: config.sessions.max,
      maxWaiting: config.sessions.maxWaiting,
      archive,
      tokens,
      resumeMs: config.storage.resumeMs,
      onSettled: (kind, answer, elapsedMs) => metrics.observeRequest(kind, answer, elapsedMs),
    });
    threads.listen({
      onEngine: (message) => registry.onEngine(message),
      onMedia: (message) => registry.onMedia(message),
      onEngineStats: (stats) => metrics.takeStats({ ...stats }, ENGINE_METRICS),
      onMediaStats: (stats) => metrics.takeStats({ ...stats }, MEDIA_METRICS),
    });
    await registry.wake();
    const webDirectory = resolve(root, config.web.directory);
    if (!existsSync(webDirectory)) log.warn({ webDirectory }, 'no page is served: web.directory is not there');
    const context: ApiContext = {
      config,
      webDirectory,
      registry,
      card,
      programs,
      images: new ImageReader(card.format),
      keys,
      tokens,
      authenticator: new Authenticator(keys, tokens),
      metrics,
      clock,
      log,
      notReady: () => (registry.admitting ? null : 'the server is shutting down'),
    };
    const monitor = new EventLoopMonitor();
    describeServer(metrics, registry, monitor);
    const streams = new StreamServer(context);
    try {
      const app = await createHttpApp(context, listener);
      streams.attach(listener.server);
      return new Server(url, generatedKey, { config, log, threads, storage: storage?.link ?? null, registry, listener, app, streams, monitor });
    } catch (error) {
      monitor.close();
      await streams.close();
      throw error;
    }
  }

  private constructor(url: string, generatedKey: string | null, parts: Parts) {
    this.url = url;
    this.generatedKey = generatedKey;
    this.registry = parts.registry;
    this.#parts = parts;
    const { threads, storage } = parts;
    this.crashed = firstOf(storage === null ? [threads.crashed] : [threads.crashed, storage.crashed]).then(async (error) => {
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
    const { config, log, threads, registry } = this.#parts;
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
    inOrder = (await bounded(threads.drain(), left(reserve))) && inOrder;
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
    const { threads, storage, listener, app, streams, monitor } = this.#parts;
    await streams.close();
    await app.close();
    await listener.close();
    await threads.close(graceMs);
    // Last: what the others have written until now is still to reach the disk.
    await storage?.drain(Math.max(LEAST_STORAGE_MS, graceMs));
    await storage?.close(graceMs);
    monitor.close();
  }
}

function limitsOf({ idleMs, idleWarningMs, orphanMs, ...sessions }: Config['sessions']): SessionLimits {
  const budget = Object.fromEntries(RESOURCES.map((resource) => [resource, sessions[resource] === 0 ? Infinity : sessions[resource]])) as Budget;
  return { idleMs, idleWarningMs, orphanMs, budget };
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

/** The first that resolves. Each is kept for the life of the server and listened to once. */
function firstOf<T>(promises: readonly Promise<T>[]): Promise<T> {
  return new Promise((resolved) => {
    for (const promise of promises) void promise.then(resolved);
  });
}

function delay(ms: number): Promise<void> {
  return new Promise((done) => setTimeout(done, ms));
}
