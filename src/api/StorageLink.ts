import { MessageChannel, type MessagePort } from 'node:worker_threads';
import { resolve } from 'node:path';
import type { Logger } from '../observe/log.ts';
import type { FromStorage, ToStorage } from '../streams/storage_messages.ts';
import type { Config } from './config_schema.ts';
import { StartError } from './start_error.ts';
import { ThreadLink, type Link } from './ThreadLink.ts';

const HOUR_MS = 3_600_000;
const MEGABYTE = 1024 * 1024;
/** Opening the file and looking over it; longer only on a disk that is busy with much else. */
const READY_MS = 30_000;
/** A batch of writes and a sync of the disk. */
const DRAIN_MS = 2_000;

export interface StorageReady {
  /** Signs client tokens where the configuration has no secret. */
  readonly tokenKey: string;
}

/** The storage thread of a server, from its start to its end. */
export class StorageLink {
  /** Resolves with the cause when it is gone and nobody told it to end. */
  readonly crashed: Promise<Error>;
  readonly #link: Link<ToStorage, FromStorage>;
  readonly #crash = Promise.withResolvers<Error>();
  readonly #ready = Promise.withResolvers<StorageReady>();
  readonly #drained = Promise.withResolvers<void>();
  #listener: ((message: FromStorage) => void) | null = null;

  constructor(link: Link<ToStorage, FromStorage>, log: Logger) {
    this.#link = link;
    this.crashed = this.#crash.promise;
    this.#ready.promise.catch(() => undefined);
    link.listen({
      crashed: (error) => {
        this.#ready.reject(error);
        this.#drained.resolve();
        this.#crash.resolve(error);
      },
      message: (message) => {
        if (message.type === 'ready') {
          if (message.damaged !== null) log.error({ damaged: message.damaged }, 'what was kept could not be read and was put aside; sessions of before are gone from here');
          this.#ready.resolve(message);
        } else if (message.type === 'failed') {
          link.expectEnd();
          this.#ready.reject(new StartError(message.message));
        } else if (message.type === 'drained') this.#drained.resolve();
        else this.#listener?.(message);
      },
    });
  }

  /** Starts the thread; null where the configuration keeps nothing. `enginePort` is the engine's end of its way there. */
  static start({ storage, logLevel }: Config, root: string, log: Logger): { readonly link: StorageLink; readonly enginePort: MessagePort } | null {
    if (storage.directory === null || storage.directory === '') return null;
    const { port1, port2 } = new MessageChannel();
    const thread = new ThreadLink<ToStorage, FromStorage>({
      name: 'storage',
      url: new URL('../storage/storage_thread.ts', import.meta.url),
      workerData: {
        directory: resolve(root, storage.directory),
        retention: { maxAgeMs: storage.maxAgeHours * HOUR_MS, sessionBytes: storage.sessionMegabytes * MEGABYTE },
        enginePort: port2,
        logLevel,
      },
      transferList: [port2],
      log,
    });
    return { link: new StorageLink(thread, log), enginePort: port1 };
  }

  /** Rejects with a {@link StartError} where the database can't be used. */
  async ready(): Promise<StorageReady> {
    const watchdog = setTimeout(() => this.#ready.reject(new StartError(`the storage was not ready within ${READY_MS} ms`)), READY_MS);
    try {
      return await this.#ready.promise;
    } finally {
      clearTimeout(watchdog);
    }
  }

  listen(listener: (message: FromStorage) => void): void {
    this.#listener = listener;
  }

  send(message: ToStorage): boolean {
    return this.#link.send(message);
  }

  /** All that was written is on disk when this resolves, or its time is over: then what isn't was never told as durable. Idempotent. */
  async drain(limitMs = DRAIN_MS): Promise<void> {
    this.#link.expectEnd();
    if (!this.#link.send({ type: 'drain' })) return;
    const watchdog = setTimeout(() => this.#drained.resolve(), limitMs);
    await this.#drained.promise;
    clearTimeout(watchdog);
  }

  close(graceMs: number): Promise<void> {
    return this.#link.close(graceMs);
  }
}
