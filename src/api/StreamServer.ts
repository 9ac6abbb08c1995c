import { STATUS_CODES, type IncomingMessage, type Server } from 'node:http';
import type { Duplex } from 'node:stream';
import { WebSocketServer, type ServerOptions, type WebSocket } from 'ws';
import { SegueError } from '../protocol/errors.ts';
import { ROLES } from '../sessions/ports.ts';
import type { ApiContext } from './ApiContext.ts';
import type { Principal } from './Authenticator.ts';
import { toSegueError } from './http_errors.ts';
import { endLingering, LINGER_BYTES, LINGER_MS } from './lingering_close.ts';
import { StreamSocket } from './StreamSocket.ts';
import { TokenBucket } from './TokenBucket.ts';

/** Longest frame that is taken: a message and its envelope. */
const MAX_FRAME_BYTES = 64 * 1024;
/** A socket that doesn't answer a ping by the next one is dead. */
const PING_MS = 15_000;
/** Messages a second that one socket may send; an honest client sends about 30, and 32 frames of its microphone. */
const MESSAGE_RATE = { burst: 300, perSecond: 150 } as const;
/** RFC 6455: policy violation. */
const POLICY_VIOLATION = 1008;

/** `closeTimeout` is how long an answer to a close frame is awaited, ms; the types don't know it yet. */
const SERVER_OPTIONS: ServerOptions & { readonly closeTimeout: number } = { noServer: true, maxPayload: MAX_FRAME_BYTES, perMessageDeflate: false, clientTracking: true, closeTimeout: LINGER_MS };

/** `WS /v1/sessions/{id}/stream`: the session protocol and media over one WebSocket. */
export class StreamServer {
  readonly #context: ApiContext;
  readonly #server = new WebSocketServer(SERVER_OPTIONS);
  readonly #alive = new WeakSet<WebSocket>();
  readonly #pings: ReturnType<typeof setInterval>;
  readonly #rate: TokenBucket;
  #sockets = 0;

  constructor(context: ApiContext) {
    this.#context = context;
    this.#rate = new TokenBucket(context.clock, MESSAGE_RATE);
    this.#pings = setInterval(() => this.#ping(), PING_MS);
    this.#pings.unref();
  }

  get connections(): number {
    return this.#server.clients.size;
  }

  /** Takes over the upgrades of an HTTP server. */
  attach(server: Server): void {
    server.on('upgrade', (request, socket, head) => {
      const onError = (error: Error): void => this.#context.log.debug({ err: error }, 'a socket broke before it was upgraded');
      socket.on('error', onError);
      this.#upgrade(request, socket, head).then(
        () => socket.off('error', onError),
        (error: unknown) => refuse(socket, toSegueError(error)),
      );
    });
  }

  /** Closes what is left. Idempotent. */
  async close(): Promise<void> {
    clearInterval(this.#pings);
    for (const socket of this.#server.clients) socket.close(1001, 'the server is shutting down');
    await new Promise<void>((resolve) => {
      // A client that doesn't answer the close frame must not hold up the end.
      const watchdog = setTimeout(() => {
        for (const socket of this.#server.clients) socket.terminate();
      }, 500);
      this.#server.close(() => {
        clearTimeout(watchdog);
        resolve();
      });
    });
  }

  async #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const { authenticator, registry } = this.#context;
    const url = new URL(request.url ?? '/', 'http://localhost');
    const id = /^\/v1\/sessions\/([^/]{1,64})\/stream\/?$/.exec(url.pathname)?.[1];
    if (id === undefined) throw new SegueError('not_found', 'nothing to upgrade here');
    const principal = await authenticator.authenticate({ session: 'watch' }, request.headers.authorization, id, url.searchParams.get('token'));
    const session = await registry.reach(id);
    if (session.state === 'waiting' || session.state === 'created') throw new SegueError('conflict', 'the session is not open yet');
    if (socket.destroyed) return;
    this.#server.handleUpgrade(request, socket, head, (webSocket) => this.#serve(webSocket, socket, id, principal));
  }

  #serve(socket: WebSocket, raw: Duplex, sessionId: string, principal: Principal | null): void {
    const { registry, clock, log } = this.#context;
    const childLog = log.child({ sessionId, transport: 'websocket' });
    const key = String(++this.#sockets);
    this.#alive.add(socket);
    socket.on('pong', () => this.#alive.add(socket));
    socket.on('error', (error) => {
      childLog.debug({ err: error }, 'WebSocket error');
      boundDrain(socket, raw);
    });
    const stream = new StreamSocket(socket, () => clock.now(), childLog);
    try {
      const session = registry.get(sessionId);
      const roles = principal?.kind === 'client' ? principal.roles : ROLES;
      const connectionId = session.attachRelay(roles, stream);
      socket.on('close', (code) => session.detachRelay(connectionId, code === 1000));
      const allowed = (): boolean => {
        if (this.#rate.take(key) === 0) return true;
        socket.close(POLICY_VIOLATION, 'too many messages');
        return false;
      };
      stream.bind({
        get epoch() {
          return session.words.epoch;
        },
        receive: (channel, text) => {
          if (allowed()) session.inject(connectionId, channel, text);
        },
        requestKeyframe: () => session.requestKeyframe(connectionId),
        see: (data) => {
          if (allowed()) session.see(connectionId, data);
        },
        hear: (data) => {
          if (allowed()) session.hear(connectionId, data);
        },
      });
    } catch (error) {
      // Between the check and the upgrade the session may have ended or filled up.
      const told = toSegueError(error);
      stream.text('control', JSON.stringify({ type: 'error', error: told.toBody() }));
      socket.close(POLICY_VIOLATION, told.code);
    }
  }

  #ping(): void {
    for (const socket of this.#server.clients) {
      if (!this.#alive.has(socket)) socket.terminate();
      else {
        this.#alive.delete(socket);
        socket.ping();
      }
    }
  }
}

/** After a frame that can't be taken, what still comes is read and dropped so that the close frame arrives; but not without end. */
function boundDrain(socket: WebSocket, raw: Duplex): void {
  let bytes = 0;
  raw.on('data', (chunk: Buffer) => {
    bytes += chunk.byteLength;
    if (bytes > LINGER_BYTES) socket.terminate();
  });
}

function refuse(socket: Duplex, error: SegueError): void {
  endLingering(socket, [`HTTP/1.1 ${error.status} ${STATUS_CODES[error.status] ?? 'Error'}`], JSON.stringify({ error: error.toBody() }));
}
