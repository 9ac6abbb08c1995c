import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { WebSocket } from 'ws';
import type { TestServer } from '../e2e/server.ts';

/** The environment of a server whose heaps are to be read. */
export const INSPECTED = { NODE_OPTIONS: '--inspect=127.0.0.1:0' };

const ANSWER_MS = 20_000;
/** Workers are told of one by one, without an end. */
const ATTACH_MS = 300;

interface HeapUsage {
  readonly usedSize: number;
  readonly backingStorageSize: number;
}

/**
 * What all threads of a server hold, after a collection in each: the size of the process says how much garbage a collector has let lie, which under load is most of it.
 * Through the inspector, so a server must have been started with {@link INSPECTED}.
 */
export class ThreadHeaps {
  readonly #socket: WebSocket;
  readonly #pending = new Map<string, (result: unknown) => void>();
  readonly #workers: string[] = [];
  #ids = 0;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.on('message', (data: Buffer) => this.#received(JSON.parse(data.toString()) as Answer));
  }

  static async open(server: TestServer): Promise<ThreadHeaps> {
    const url = server.log.map(({ text }) => /^Debugger listening on (\S+)$/.exec(String(text))?.[1]).find((found) => found !== undefined);
    if (url === undefined) throw new Error('the server was not started with INSPECTED');
    const heaps = new ThreadHeaps(new WebSocket(url));
    await once(heaps.#socket, 'open');
    await heaps.#call('main', 'NodeWorker.enable', { waitForDebuggerOnStart: false });
    await delay(ATTACH_MS);
    return heaps;
  }

  /** Bytes of JavaScript objects and of buffers, of all threads. */
  async held(): Promise<number> {
    let bytes = 0;
    for (const thread of ['main', ...this.#workers]) {
      await this.#call(thread, 'HeapProfiler.collectGarbage');
      const { usedSize, backingStorageSize } = (await this.#call(thread, 'Runtime.getHeapUsage')) as HeapUsage;
      bytes += usedSize + backingStorageSize;
    }
    return bytes;
  }

  close(): void {
    this.#socket.terminate();
  }

  async #call(thread: string, method: string, params: object = {}): Promise<unknown> {
    const id = ++this.#ids;
    const answered = new Promise<unknown>((resolve) => this.#pending.set(`${thread}/${id}`, resolve));
    const message = JSON.stringify({ id, method, params });
    this.#socket.send(thread === 'main' ? message : JSON.stringify({ id: ++this.#ids, method: 'NodeWorker.sendMessageToWorker', params: { sessionId: thread, message } }));
    const late = new AbortController();
    try {
      return await Promise.race([
        answered,
        delay(ANSWER_MS, undefined, { signal: late.signal }).then(() => {
          throw new Error(`${thread} did not answer ${method} within ${ANSWER_MS} ms`);
        }),
      ]);
    } finally {
      late.abort();
      this.#pending.delete(`${thread}/${id}`);
    }
  }

  #received({ id, method, params, result, error }: Answer): void {
    if (method === 'NodeWorker.attachedToWorker') this.#workers.push(params!.sessionId);
    else if (method === 'NodeWorker.receivedMessageFromWorker') {
      const answer = JSON.parse(params!.message) as Answer;
      this.#pending.get(`${params!.sessionId}/${answer.id}`)?.(answer.result ?? answer.error);
    } else if (id !== undefined) this.#pending.get(`main/${id}`)?.(result ?? error);
  }
}

interface Answer {
  readonly id?: number;
  readonly method?: string;
  readonly params?: { readonly sessionId: string; readonly message: string };
  readonly result?: unknown;
  readonly error?: unknown;
}
