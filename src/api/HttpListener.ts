import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { SegueError } from '../protocol/errors.ts';
import type { Logger } from '../observe/log.ts';
import { answerUnreadable } from './lingering_close.ts';
import { StartError } from './start_error.ts';

/** Headers and body of one call. */
const REQUEST_TIMEOUT_MS = 15_000;
/** More than the longest pause between two calls of a client that polls. */
const KEEP_ALIVE_MS = 5_000;
const MAX_HEADER_BYTES = 16 * 1024;
/** Told to who calls while the model loads: it takes seconds. */
const STARTING_RETRY_MS = 1_000;

/**
 * The server's one TCP port. Bound before anything is loaded, so that an address in use is found out at once and nobody takes it meanwhile;
 * until {@link serve}, calls are told that the server is starting.
 */
export class HttpListener {
  readonly server: Server;
  readonly #log: Logger;
  #serving = false;
  #closing: Promise<void> | null = null;

  constructor(log: Logger) {
    this.#log = log;
    this.server = createServer({ maxHeaderSize: MAX_HEADER_BYTES, requestTimeout: REQUEST_TIMEOUT_MS, keepAliveTimeout: KEEP_ALIVE_MS }, (request, response) => {
      if (!this.#serving) tellStarting(request, response);
    });
    this.server.on('clientError', (error, socket) => {
      log.debug({ err: error }, 'unreadable HTTP');
      answerUnreadable(socket, error);
    });
  }

  /** Binds. Throws {@link StartError} naming address and keys where it can't. Resolves with the URL, without a slash at the end. */
  async listen(host: string, port: number): Promise<string> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.server.once('error', reject);
    this.server.listen({ host, port }, resolve);
    const named = host.includes(':') ? `[${host}]` : host;
    try {
      await promise;
    } catch (error) {
      throw new StartError(problemOf(error as NodeJS.ErrnoException, `${named}:${port}`), { cause: error });
    } finally {
      this.server.off('error', reject);
    }
    this.server.on('error', (error) => this.#log.error({ err: error }, 'the HTTP server failed'));
    return `http://${named}:${(this.server.address() as AddressInfo).port}`;
  }

  /** Calls go to the application from here on. */
  serve(application: RequestListener): Server {
    this.#serving = true;
    this.server.on('request', application);
    return this.server;
  }

  /** Takes no more connections and ends those there are. Idempotent. */
  close(): Promise<void> {
    this.#closing ??= new Promise((resolve) => {
      // Not listening (any more) is what is wanted.
      this.server.close(() => resolve());
      this.server.closeAllConnections();
    });
    return this.#closing;
  }
}

function tellStarting(request: IncomingMessage, response: ServerResponse): void {
  const alive = request.url?.split('?')[0] === '/healthz';
  const error = new SegueError('engine_unavailable', 'the server is starting', { retryAfterMs: STARTING_RETRY_MS });
  const body = JSON.stringify(alive ? { status: 'ok' } : { error: error.toBody() });
  response.setHeader('content-type', 'application/json; charset=utf-8').setHeader('content-length', Buffer.byteLength(body)).setHeader('connection', 'close');
  if (!alive) response.setHeader('retry-after', STARTING_RETRY_MS / 1000);
  response.writeHead(alive ? 200 : error.status).end(body);
}

function problemOf({ code, message }: NodeJS.ErrnoException, address: string): string {
  const port = 'port in segue.config.yaml or SEGUE_PORT';
  const host = 'host in segue.config.yaml or SEGUE_HOST';
  switch (code) {
    case 'EADDRINUSE':
      return `${address} is in use by another program: choose another ${port} (0 takes a free one)`;
    case 'EACCES':
      return `${address} may not be listened on by this user: choose another ${port}`;
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `${address} is no address of this machine: choose another ${host}`;
    default:
      return `${address} can't be listened on (${code ?? message}): see ${host}, ${port}`;
  }
}
