import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { MessageChannel, type MessagePort } from 'node:worker_threads';
import { PromptProcessor } from '../engine/model/processors/PromptProcessor.ts';
import type { DeploymentSpec } from '../engine/model/spec/deployment_spec.ts';
import { loadModelSpec } from '../engine/model/spec/load_model_spec.ts';
import { SpecError } from '../engine/model/spec/spec_error.ts';
import type { Logger } from '../observe/log.ts';
import { SegueError } from '../protocol/errors.ts';
import type { PromptLanguage } from '../realtime-programs/continuation_model.ts';
import { driveLanguage } from '../realtime-programs/drive_model.ts';
import type { PromptReader } from '../sessions/ports.ts';
import type { ControlToEngine, ControlToMedia, EngineCard, EngineStats, EngineToControl, MediaStats, MediaToControl } from '../streams/messages.ts';
import type { Config } from './config_schema.ts';
import { mediaOptions } from './media_options.ts';
import { StartCancelled, StartError } from './start_error.ts';
import { ThreadLink, type Link } from './ThreadLink.ts';

export interface ServerLinks {
  readonly engine: Link<ControlToEngine, EngineToControl>;
  readonly media: Link<ControlToMedia, MediaToControl>;
  /** Programs that the deployment serves; the first is the default. */
  readonly programs: readonly string[];
  /** Reads prompts as those programs do. */
  readonly prompts: PromptReader;
  /** Chunks that a story's window holds; 0 where it isn't known. */
  readonly windowChunks?: number;
}

/** Who is told what the threads say of sessions and of themselves. */
export interface ThreadsListener {
  onEngine(message: EngineToControl): void;
  onMedia(message: MediaToControl): void;
  onEngineStats(stats: EngineStats): void;
  onMediaStats(stats: MediaStats): void;
}

/** Reading the peer's many modules and the codecs; seconds only on a machine that does much else. */
const MEDIA_READY_MS = 60_000;

/** The engine thread and the media thread of a server, from their start to their end. */
export class ServerThreads {
  readonly links: ServerLinks;
  /** Resolves with the cause when one is gone that nobody told to end. */
  readonly crashed: Promise<Error>;
  readonly #log: Logger;
  readonly #crash = Promise.withResolvers<Error>();
  readonly #card = Promise.withResolvers<EngineCard>();
  readonly #mediaReady = Promise.withResolvers<void>();
  readonly #engineDrained = Promise.withResolvers<void>();
  readonly #mediaDrained = Promise.withResolvers<void>();
  #listener: ThreadsListener | null = null;

  constructor(links: ServerLinks, log: Logger) {
    this.links = links;
    this.#log = log;
    this.crashed = this.#crash.promise;
    for (const { promise } of [this.#card, this.#mediaReady]) promise.catch(() => undefined);
    this.#listen();
  }

  /** Starts both. Throws {@link StartError} where the model can't be used; nothing has been started then. */
  static start(config: Config, root: string, log: Logger, storagePort: MessagePort | null = null): ServerThreads {
    const modelDir = resolve(root, config.model.directory);
    if (!existsSync(modelDir)) throw new StartError(`no model directory ${modelDir}: see model.directory in segue.config.yaml or SEGUE_MODEL_DIRECTORY`);
    // Before a thread is started, so that a damaged file is named in one line and costs nobody the wait. The engine checks again what it loads.
    const { deployment, language, windowChunks } = readModel(modelDir);
    const { port1, port2 } = new MessageChannel();
    const engine = new ThreadLink<ControlToEngine, EngineToControl>({
      name: 'engine',
      url: new URL('../realtime-programs/engine_thread.ts', import.meta.url),
      workerData: { modelDir, deployment: { ...deployment, engine: { admissionBound: config.engine.admissionBound, policy: config.engine.policy, speculation: config.engine.speculation, traces: config.engine.traces, reducedSteps: config.engine.reducedSteps, snapshotChunks: config.storage.snapshotChunks } }, redirectPreview: config.engine.redirectPreview, mediaPort: port1, storagePort, testMode: config.test.enabled, logLevel: config.logLevel },
      transferList: storagePort === null ? [port1] : [port1, storagePort],
      log,
    });
    const media = new ThreadLink<ControlToMedia, MediaToControl>({
      name: 'media',
      url: new URL('../media/media_thread.ts', import.meta.url),
      workerData: { enginePort: port2, options: mediaOptions(config) },
      transferList: [port2],
      log,
    });
    return new ServerThreads({ engine, media, programs: deployment.programs, prompts: promptReader(language), windowChunks }, log);
  }

  /** Resolves when both are ready. Rejects with why one is not, or StartCancelled. */
  async ready(engineMs: number, signal: AbortSignal | undefined): Promise<EngineCard> {
    const giveUp = (error: unknown): void => {
      this.#card.reject(error);
      this.#mediaReady.reject(error);
    };
    const cancel = (): void => giveUp(new StartCancelled('told to stop while starting'));
    if (signal?.aborted) cancel();
    signal?.addEventListener('abort', cancel, { once: true });
    try {
      const [card] = await Promise.all([within(this.#card, engineMs, 'the engine'), within(this.#mediaReady, MEDIA_READY_MS, 'the media thread')]);
      return card;
    } catch (error) {
      // Ends the other's wait too, and with it its watchdog.
      giveUp(error);
      throw error;
    } finally {
      signal?.removeEventListener('abort', cancel);
    }
  }

  /** From here on, messages go there. */
  listen(listener: ThreadsListener): void {
    this.#listener = listener;
  }

  /** Tells both to finish, also while they still load; resolves when they have. Their end is no crash any more. */
  async drain(): Promise<void> {
    const { engine, media } = this.links;
    engine.expectEnd();
    media.expectEnd();
    engine.send({ type: 'engine.drain' });
    media.send({ type: 'media.drain' });
    await Promise.all([this.#engineDrained.promise, this.#mediaDrained.promise]);
  }

  /** Resolves when both are gone, by themselves within `graceMs` or else stopped. Idempotent. */
  async close(graceMs: number): Promise<void> {
    await Promise.all([this.links.engine.close(graceMs), this.links.media.close(graceMs)]);
  }

  #listen(): void {
    const crashed = (error: Error): void => {
      this.#card.reject(error);
      this.#mediaReady.reject(error);
      this.#crash.resolve(error);
    };
    this.links.engine.listen({
      crashed,
      message: (message) => {
        switch (message.type) {
          case 'engine.ready':
            return this.#card.resolve(message.card);
          case 'engine.failed':
            return crashed(SegueError.from(message.error));
          case 'engine.drained':
            return this.#engineDrained.resolve();
          case 'engine.stats':
            return this.#guarded((listener) => listener.onEngineStats(message.stats));
          default:
            return this.#guarded((listener) => listener.onEngine(message));
        }
      },
    });
    this.links.media.listen({
      crashed,
      message: (message) => {
        switch (message.type) {
          case 'media.ready':
            return this.#mediaReady.resolve();
          case 'media.drained':
            return this.#mediaDrained.resolve();
          case 'media.stats':
            return this.#guarded((listener) => listener.onMediaStats(message.stats));
          default:
            return this.#guarded((listener) => listener.onMedia(message));
        }
      },
    });
  }

  /** A fault in one session's handling must not end the process, and with it everybody else's session. */
  #guarded(tell: (listener: ThreadsListener) => void): void {
    if (this.#listener === null) return;
    try {
      tell(this.#listener);
    } catch (error) {
      this.#log.error({ err: error }, 'a message could not be handled');
    }
  }
}

function promptReader(language: PromptLanguage): PromptReader {
  return {
    read: (prompt) => language.parse(prompt).warnings,
    readPlan: (plan) => void language.fromNamed(plan),
    describePlan: (plan) => ({ words: language.describe(plan), attributes: language.named(plan) }),
  };
}

function readModel(modelDir: string): { readonly deployment: DeploymentSpec; readonly language: PromptLanguage; readonly windowChunks: number } {
  try {
    const spec = loadModelSpec(modelDir);
    const windowChunks = Math.max(0, ...Object.values(spec.loops).map(({ denoise }) => denoise?.windowChunks ?? 0));
    return { deployment: spec.deployment, language: driveLanguage(PromptProcessor.load(spec)), windowChunks };
  } catch (error) {
    if (error instanceof SpecError) throw new StartError(`model ${modelDir}: ${error.message}`, { cause: error });
    throw error;
  }
}

async function within<T>({ promise, reject }: PromiseWithResolvers<T>, ms: number, what: string): Promise<T> {
  const watchdog = setTimeout(() => reject(new SegueError('timed_out', `${what} was not ready within ${ms} ms`)), ms);
  try {
    return await promise;
  } finally {
    clearTimeout(watchdog);
  }
}
