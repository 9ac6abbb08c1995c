import { Worker, type Transferable } from 'node:worker_threads';
import type { Logger } from '../observe/log.ts';

/** A thread, or something that stands for one, as the server sees it: messages in, messages out, and an end. */
export interface Link<In, Out> {
  /** False: it is gone, and no answer will come. */
  send(message: In): boolean;
  /** Called once, before anything is sent. */
  listen(listener: LinkListener<Out>): void;
  /** It is about to be told to end: its end is no crash from here on. */
  expectEnd(): void;
  /** Resolves when it is gone, by itself within `graceMs` or else stopped. Idempotent. */
  close(graceMs: number): Promise<void>;
}

export interface LinkListener<Out> {
  readonly message: (message: Out) => void;
  /** It ended although nobody closed it. Called once. */
  readonly crashed: (error: Error) => void;
}

export interface ThreadLinkOptions {
  readonly name: string;
  readonly url: URL;
  readonly workerData: unknown;
  readonly transferList?: readonly Transferable[];
  readonly log: Logger;
}

/** A worker thread behind a {@link Link}. */
export class ThreadLink<In, Out> implements Link<In, Out> {
  readonly #worker: Worker;
  readonly #name: string;
  readonly #log: Logger;
  readonly #exited: Promise<void>;
  #alive = true;
  #closing = false;
  #listener: LinkListener<Out> | null = null;
  /** What came, or what it died of, before anybody listened. */
  readonly #early: Out[] = [];
  #death: Error | null = null;

  constructor({ name, url, workerData, transferList = [], log }: ThreadLinkOptions) {
    this.#name = name;
    this.#log = log;
    this.#worker = new Worker(url, { name, workerData, transferList: [...transferList] });
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#exited = promise;
    this.#worker.on('message', (message: Out) => {
      if (this.#listener) this.#listener.message(message);
      else this.#early.push(message);
    });
    this.#worker.on('messageerror', (error) => this.#log.error({ err: error, thread: name }, 'a message could not be read'));
    this.#worker.on('error', (error: unknown) => {
      this.#death = error instanceof Error ? error : new Error(String(error));
      this.#log.error({ err: this.#death, thread: name }, 'thread failed');
    });
    this.#worker.on('exit', (code) => {
      this.#alive = false;
      resolve();
      if (this.#closing) return;
      this.#death ??= new Error(`the ${name} thread ended with code ${code}`);
      this.#listener?.crashed(this.#death);
    });
  }

  send(message: In): boolean {
    if (!this.#alive) return false;
    this.#worker.postMessage(message);
    return true;
  }

  listen(listener: LinkListener<Out>): void {
    this.#listener = listener;
    for (const message of this.#early.splice(0)) listener.message(message);
    if (!this.#alive && this.#death && !this.#closing) listener.crashed(this.#death);
  }

  expectEnd(): void {
    this.#closing = true;
  }

  async close(graceMs: number): Promise<void> {
    this.#closing = true;
    if (!this.#alive) return;
    let late = false;
    const watchdog = setTimeout(() => {
      late = true;
      this.#log.warn({ thread: this.#name }, 'thread did not end by itself');
      void this.#worker.terminate();
    }, graceMs);
    await this.#exited;
    clearTimeout(watchdog);
    if (late) this.#log.warn({ thread: this.#name }, 'thread stopped');
  }
}
