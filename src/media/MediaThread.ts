import { Worker, type MessagePort } from 'node:worker_threads';
import { SegueError } from '../protocol/errors.ts';
import type { ControlToMedia, MediaToControl } from '../streams/messages.ts';
import type { MediaThreadData } from './media_thread.ts';
import type { MediaOptions } from './options.ts';

const START_TIMEOUT_MS = 10_000;
const DRAIN_TIMEOUT_MS = 5_000;

export interface MediaThreadEvents {
  message(message: MediaToControl): void;
  /** The thread ended without having been asked to; nothing will be answered any more. */
  lost(error: Error): void;
}

/** The control thread's end of a media thread. Acknowledges relayed media as it is taken, which bounds what is under way. */
export class MediaThread {
  readonly #worker: Worker;
  readonly #events: MediaThreadEvents;
  #closing: Promise<void> | null = null;
  #alive = true;
  #drained: (() => void) | null = null;

  private constructor(worker: Worker, events: MediaThreadEvents) {
    this.#worker = worker;
    this.#events = events;
  }

  /**
   * Resolves when the thread is ready.
   * @param enginePort the media end of a channel to the engine; given away.
   * @throws {SegueError} where the thread can't start (codec addon not built) or isn't ready within 10 s.
   */
  static async start(enginePort: MessagePort, options: MediaOptions, events: MediaThreadEvents): Promise<MediaThread> {
    const data: MediaThreadData = { enginePort, options };
    const worker = new Worker(new URL('./media_thread.ts', import.meta.url), { workerData: data, transferList: [enginePort], name: 'segue-media' });
    const thread = new MediaThread(worker, events);
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => reject(new SegueError('timed_out', `the media thread was not ready within ${START_TIMEOUT_MS} ms`)), START_TIMEOUT_MS);
      worker.on('message', (message: MediaToControl) => {
        if (message.type === 'media.ready') {
          clearTimeout(timer);
          resolve();
        }
        thread.#receive(message);
      });
      worker.on('error', (error) => {
        clearTimeout(timer);
        thread.#end(error instanceof Error ? error : new Error(String(error)));
        reject(error);
      });
      worker.on('exit', (code) => thread.#end(new Error(`the media thread ended with code ${code}`)));
    }).catch(async (error: unknown) => {
      thread.#closing ??= Promise.resolve();
      await worker.terminate();
      throw error;
    });
    return thread;
  }

  /** False: the thread is gone, and no answer will come. */
  send(message: ControlToMedia): boolean {
    if (this.#alive) this.#worker.postMessage(message);
    return this.#alive;
  }

  /** Ends all streams in order, then the thread. Idempotent; a thread that doesn't drain within 5 s is terminated. */
  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    if (!this.#alive) return;
    const drained = new Promise<void>((resolve) => (this.#drained = resolve));
    this.send({ type: 'media.drain' });
    let timer: NodeJS.Timeout | undefined;
    await Promise.race([drained, new Promise<void>((resolve) => (timer = setTimeout(resolve, DRAIN_TIMEOUT_MS)))]);
    clearTimeout(timer);
    await this.#worker.terminate();
  }

  #receive(message: MediaToControl): void {
    if (message.type === 'relay.media') this.send({ type: 'relay.taken', sessionId: message.sessionId, connectionId: message.connectionId, count: 1 });
    this.#events.message(message);
    if (message.type === 'media.drained') this.#drained?.();
  }

  #end(error: Error): void {
    if (!this.#alive) return;
    this.#alive = false;
    this.#drained?.();
    if (this.#closing === null) this.#events.lost(error);
  }
}
