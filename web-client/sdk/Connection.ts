import { ClientError } from './ClientError.ts';
import { connect, type Connector } from './connect.ts';
import { SPOKEN_PROTOCOL, type Ready, type ServerMessage } from './messages.ts';
import type { Presenter } from './Presenter.ts';
import type { ReconnectPolicy } from './ReconnectPolicy.ts';
import type { SoundOutput } from './SoundOutput.ts';
import type { Transport } from './Transport.ts';

const READY_TIMEOUT_MS = 5_000;

export interface ConnectionEvents {
  /** The handshake is complete, for the first time or again. */
  joined(ready: Ready, transport: Transport): void;
  /** Nothing can be sent any more, until `joined`. */
  left(reason: string): void;
  /** Everything that isn't part of the handshake. */
  message(message: ServerMessage): void;
  /** An attempt failed and there will be another, or something went wrong that the connection survives. */
  trouble(error: ClientError): void;
  /** There will be no other attempt. */
  gaveUp(reason: string, error: ClientError): void;
}

/** Keeps a client in its session: connects, says hello, and comes back after a loss, until the session's grace period is over. */
export class Connection {
  readonly #connector: Connector;
  readonly #presenter: Presenter;
  readonly #sound: SoundOutput | null;
  readonly #camera: MediaStreamTrack | null;
  readonly #reconnect: ReconnectPolicy;
  readonly #helloId: () => string;
  readonly #events: ConnectionEvents;
  readonly #abort = new AbortController();
  #transport: Transport | null = null;
  #handshake: { readonly id: string; readonly done: PromiseWithResolvers<Ready> } | null = null;
  #lastConnectionId: string | null = null;
  #joined = false;
  #open = false;
  #closed = false;

  constructor(deps: { readonly connector: Connector; readonly presenter: Presenter; readonly sound: SoundOutput | null; readonly camera: MediaStreamTrack | null; readonly reconnect: ReconnectPolicy; readonly helloId: () => string; readonly events: ConnectionEvents }) {
    this.#connector = deps.connector;
    this.#presenter = deps.presenter;
    this.#sound = deps.sound;
    this.#camera = deps.camera;
    this.#reconnect = deps.reconnect;
    this.#helloId = deps.helloId;
    this.#events = deps.events;
  }

  /** Begins to connect. Called once. */
  start(): void {
    void this.#keep();
  }

  /** Whether the handshake is complete and the connection stands. */
  get isOpen(): boolean {
    return this.#open;
  }

  /** Whether it ever was. */
  get hasJoined(): boolean {
    return this.#joined;
  }

  get transport(): Transport | null {
    return this.#transport;
  }

  /** Tells the server that the person leaves, and ends. Idempotent. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#abort.abort();
    this.#handshake?.done.reject(new ClientError('closed', 'closed while joining'));
    // Before the connection: a closed peer connection would leave the call to a page that may be gone.
    // Fails where the server has ended the session itself, which is as good.
    const left = this.#lastConnectionId === null ? null : this.#connector.signalling.leave(this.#lastConnectionId).catch(() => undefined);
    await this.#leave(true);
    await left;
  }

  async #keep(): Promise<void> {
    let lostAt = performance.now();
    for (let attempt = 0; !this.#closed; ) {
      const delay = this.#reconnect.delayMs(attempt, performance.now() - lostAt);
      if (delay === null) return this.#events.gaveUp('the connection was lost', new ClientError('network', 'no connection within the grace period'));
      if (delay > 0) await new Promise((resolve) => setTimeout(resolve, delay));
      if (this.#closed) return;
      try {
        const lost = Promise.withResolvers<string>();
        await this.#join(lost.resolve);
        if (this.#closed) return;
        const reason = await lost.promise;
        if (this.#closed) return;
        lostAt = performance.now();
        attempt = 0;
        await this.#leave();
        if (!this.#closed) this.#events.left(reason);
      } catch (error) {
        await this.#leave();
        if (this.#closed) return;
        const failure = clientError(error);
        if (!this.#worthRetrying(failure)) return this.#events.gaveUp(failure.message, failure);
        this.#events.trouble(failure);
        attempt += 1;
      }
    }
  }

  /** One attempt: connects and says hello. */
  async #join(lost: (reason: string) => void): Promise<void> {
    this.#presenter.reconnect();
    const transport = await connect(
      this.#connector,
      { presenter: this.#presenter, sound: this.#sound, rejoin: this.#lastConnectionId, camera: this.#camera, signal: this.#abort.signal },
      {
        message: (message) => this.#received(message),
        lost: (reason) => {
          this.#handshake?.done.reject(new ClientError('network', reason));
          lost(reason);
        },
        trouble: (error) => this.#events.trouble(clientError(error)),
      },
    );
    if (this.#closed) {
      await transport.close();
      return;
    }
    this.#transport = transport;
    this.#lastConnectionId = transport.connectionId ?? this.#lastConnectionId;
    const ready = await this.#sayHello(transport);
    if (this.#closed) return;
    this.#joined = true;
    this.#open = true;
    this.#events.joined(ready, transport);
  }

  async #sayHello(transport: Transport): Promise<Ready> {
    const id = this.#helloId();
    const done = Promise.withResolvers<Ready>();
    this.#handshake = { id, done };
    const watchdog = setTimeout(() => done.reject(new ClientError('timed_out', `the session did not answer within ${READY_TIMEOUT_MS} ms`)), READY_TIMEOUT_MS);
    transport.sendControl({ type: 'hello', id, protocol: SPOKEN_PROTOCOL, client: 'segue-web' });
    try {
      return await done.promise;
    } finally {
      clearTimeout(watchdog);
      this.#handshake = null;
    }
  }

  #received(message: ServerMessage): void {
    if (this.#closed) return;
    const handshake = this.#handshake;
    if (message.type === 'ready') {
      if (message.re === handshake?.id) handshake.done.resolve(message);
    } else if (message.type === 'error' && message.re !== undefined && message.re === handshake?.id) {
      handshake.done.reject(ClientError.from(message.error));
    } else this.#events.message(message);
  }

  async #leave(leaving = false): Promise<void> {
    this.#open = false;
    const transport = this.#transport;
    this.#transport = null;
    await transport?.close(leaving);
  }

  /** A first join that is refused is told at once; a session that was joined is worth coming back to, unless it is gone. */
  #worthRetrying(error: ClientError): boolean {
    if (error.code === 'network' || error.code === 'timed_out') return true;
    return this.#joined && error.body?.retryable === true;
  }
}

function clientError(error: unknown): ClientError {
  return error instanceof ClientError ? error : new ClientError('network', error instanceof Error ? error.message : String(error), null, error);
}
