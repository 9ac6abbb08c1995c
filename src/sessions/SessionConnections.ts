import type { Clock, Timer } from '../observe/clock.ts';
import type { Logger } from '../observe/log.ts';
import type { ServerControlMessage, ServerStateMessage } from '../protocol/channel.ts';
import { SegueError } from '../protocol/errors.ts';
import type { ChannelLabel, IceCandidate, MediaToControl } from '../streams/messages.ts';
import type { MediaPort, Role } from './ports.ts';
import { createId } from './session_ids.ts';

/** Connections of one session at once: one driver (two while one replaces the other) and watchers. */
export const MAX_CONNECTIONS = 8;
/** What was said last goes out, then the media thread reports the end; a peer that doesn't end by then is forgotten. */
const LEAVE_WATCHDOG_MS = 1_000;
/** The protocol's bound on every wait. */
export const ANSWER_WATCHDOG_MS = 5_000;

export type ConnectionState = 'connecting' | 'connected' | 'disconnected' | 'closed';
export type RelayedMedia = Extract<MediaToControl, { type: 'relay.media' }>;

/** Whoever carries a connection's messages and media over a WebSocket. */
export interface RelaySink {
  text(channel: ChannelLabel, text: string): void;
  media(chunk: RelayedMedia): void;
  /** The connection is over; called once. */
  closed(reason: string): void;
}

export interface ConnectionView {
  readonly id: string;
  readonly kind: 'webrtc' | 'relay';
  readonly roles: readonly Role[];
  readonly state: ConnectionState;
}

interface Connection {
  readonly id: string;
  readonly kind: 'webrtc' | 'relay';
  readonly roles: ReadonlySet<Role>;
  readonly sink: RelaySink | null;
  state: ConnectionState;
  pending: { resolve(sdp: string): void; reject(error: SegueError): void; watchdog: Timer } | null;
  /** Told to close, and why; its last messages may still be on their way. */
  leaving: { readonly reason: string; readonly watchdog: Timer } | null;
}

export interface SessionConnectionsOptions {
  readonly sessionId: string;
  readonly media: MediaPort;
  readonly clock: Clock;
  readonly log: Logger;
  /** Connections that carry media came or went. */
  readonly onPresence: () => void;
}

/**
 * The connections of one session. Session outlives connection: a newer driver replaces the older one, but only once its own offer
 * has been answered, so that a bad offer costs nobody the picture.
 */
export class SessionConnections {
  readonly #options: SessionConnectionsOptions;
  readonly #connections = new Map<string, Connection>();
  /** Called when the last connection is out of the table, while the session waits for that. */
  #onEmpty: (() => void) | null = null;
  /** Why the session ends; null while it doesn't. */
  #ending: string | null = null;

  constructor(options: SessionConnectionsOptions) {
    this.#options = options;
  }

  get views(): readonly ConnectionView[] {
    return [...this.#connections.values()].filter(({ leaving }) => leaving === null).map(({ id, kind, roles, state }) => ({ id, kind, roles: [...roles], state }));
  }

  /** Connections that carry media now. */
  get present(): number {
    let present = 0;
    for (const { state } of this.#connections.values()) if (state === 'connected') present += 1; // a leaving one is not, whatever its peer still reports
    return present;
  }

  has(connectionId: string): boolean {
    return this.#staying(connectionId) !== undefined;
  }

  roles(connectionId: string): ReadonlySet<Role> | null {
    return this.#staying(connectionId)?.roles ?? null;
  }

  /**
   * Opens a WebRTC connection; resolves with its id and the SDP answer. `replaces` names the connection to close once this one is answered
   * (a driver replaces any other driver without being told to).
   * Errors: connection_not_found, conflict (too many), bad_sdp, timed_out, session_closed.
   */
  async offer(sdp: string, roles: readonly Role[], replaces: string | null): Promise<{ readonly id: string; readonly sdp: string }> {
    if (replaces !== null && !this.has(replaces)) throw connectionNotFound(replaces);
    const connection = this.#add('webrtc', roles, null);
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    const { clock, media, sessionId } = this.#options;
    const watchdog = clock.schedule(clock.now() + ANSWER_WATCHDOG_MS, () => this.#refuse(connection, new SegueError('timed_out', `the offer was not answered within ${ANSWER_WATCHDOG_MS} ms`)));
    connection.pending = { resolve, reject, watchdog };
    const sent = media.send({ type: 'connection.offer', sessionId, connectionId: connection.id, sdp, ...rights(connection) });
    if (!sent) this.#refuse(connection, new SegueError('engine_unavailable', 'the media thread is gone'));
    const answer = await promise;
    if (replaces !== null && this.has(replaces)) this.close(replaces, 'replaced by a newer connection');
    this.#replaceDrivers(connection);
    return { id: connection.id, sdp: answer };
  }

  /** Opens a connection whose media and messages go to `sink`. It is connected at once. */
  attachRelay(roles: readonly Role[], sink: RelaySink): string {
    const connection = this.#add('relay', roles, sink);
    const { media, sessionId } = this.#options;
    if (!media.send({ type: 'connection.relay', sessionId, connectionId: connection.id, ...rights(connection) })) {
      this.#connections.delete(connection.id);
      throw new SegueError('engine_unavailable', 'the media thread is gone');
    }
    this.#replaceDrivers(connection);
    this.#setState(connection, 'connected');
    return connection.id;
  }

  /** Trickle; null ends the candidates. Throws connection_not_found. */
  candidate(connectionId: string, candidate: IceCandidate | null): void {
    if (this.#staying(connectionId)?.kind !== 'webrtc') throw connectionNotFound(connectionId);
    this.#options.media.send({ type: 'connection.candidate', sessionId: this.#options.sessionId, connectionId, candidate });
  }

  /** Closes one connection and says why on its control channel first. Throws connection_not_found. */
  close(connectionId: string, reason: string): void {
    const connection = this.#staying(connectionId);
    if (!connection) throw connectionNotFound(connectionId);
    if (connection.pending) return this.#refuse(connection, new SegueError('session_closed', reason));
    this.send(connectionId, 'control', { type: 'closed', reason });
    const sent = this.#options.media.send({ type: 'connection.close', sessionId: this.#options.sessionId, connectionId });
    const { clock } = this.#options;
    connection.leaving = { reason, watchdog: clock.schedule(clock.now() + (sent ? LEAVE_WATCHDOG_MS : 0), () => this.#remove(connection, reason)) };
    connection.state = 'disconnected';
    this.#options.onPresence();
  }

  /** A relay's socket can't take its pictures: it needs a keyframe to go on from. */
  requestKeyframe(connectionId: string): void {
    if (this.has(connectionId)) this.#options.media.send({ type: 'connection.keyframe', sessionId: this.#options.sessionId, connectionId });
  }

  /** To one connection; false where it is not there (any more). */
  send(connectionId: string, channel: 'control' | 'state', message: ServerControlMessage | ServerStateMessage): boolean {
    if (!this.#connections.has(connectionId)) return false;
    return this.#options.media.send({ type: 'channel.send', sessionId: this.#options.sessionId, connectionId, channel, text: JSON.stringify(message) });
  }

  broadcast(channel: 'control' | 'state', message: ServerControlMessage | ServerStateMessage): void {
    for (const { id, state } of this.#connections.values()) if (state === 'connected') this.send(id, channel, message);
  }

  onAnswer(connectionId: string, sdp: string): void {
    const connection = this.#connections.get(connectionId);
    if (!connection?.pending) return;
    connection.pending.watchdog.cancel();
    connection.pending.resolve(sdp);
    connection.pending = null;
  }

  onFailed(connectionId: string, error: SegueError): void {
    const connection = this.#connections.get(connectionId);
    if (!connection) return;
    if (connection.pending) this.#refuse(connection, error);
    else this.#remove(connection, error.message);
  }

  onState(connectionId: string, state: ConnectionState): void {
    const connection = this.#connections.get(connectionId);
    if (!connection) return;
    if (state !== 'closed') {
      if (connection.leaving === null) this.#setState(connection, state);
    } else if (connection.pending) this.#refuse(connection, new SegueError('bad_sdp', 'the connection closed before its offer was answered'));
    else this.#remove(connection, 'the connection closed');
  }

  /** Data flows on it, whatever its transport reported so far. */
  markConnected(connectionId: string): void {
    const connection = this.#staying(connectionId);
    if (connection && connection.state !== 'connected') this.#setState(connection, 'connected');
  }

  onRelayText(connectionId: string, channel: ChannelLabel, text: string): void {
    this.#connections.get(connectionId)?.sink?.text(channel, text);
  }

  onRelayMedia(chunk: RelayedMedia): void {
    this.#connections.get(chunk.connectionId)?.sink?.media(chunk);
    this.#options.media.send({ type: 'relay.taken', sessionId: this.#options.sessionId, connectionId: chunk.connectionId, count: 1 });
  }

  /** No new connections from here on; those that wait for an answer are refused. Idempotent. */
  stopAccepting(reason: string): void {
    this.#ending ??= reason;
    for (const connection of [...this.#connections.values()]) {
      if (connection.pending) this.#refuse(connection, new SegueError('session_closed', 'the session is closing'));
    }
  }

  /** Resolves when the media thread has reported every connection closed, or after `watchdogMs`; then forgets what is left. */
  async drained(watchdogMs: number): Promise<void> {
    if (this.#connections.size > 0) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const { clock } = this.#options;
      const watchdog = clock.schedule(clock.now() + watchdogMs, resolve);
      this.#onEmpty = resolve;
      await promise;
      this.#onEmpty = null;
      watchdog.cancel();
    }
    for (const connection of [...this.#connections.values()]) this.#remove(connection, 'the session is closed');
  }

  #add(kind: 'webrtc' | 'relay', roles: readonly Role[], sink: RelaySink | null): Connection {
    if (this.#ending !== null) throw new SegueError('session_closed', 'the session is closing');
    if (this.#connections.size >= MAX_CONNECTIONS) throw new SegueError('conflict', `a session has at most ${MAX_CONNECTIONS} connections`);
    const connection: Connection = { id: createId('con'), kind, roles: new Set(roles), sink, state: 'connecting', pending: null, leaving: null };
    this.#connections.set(connection.id, connection);
    return connection;
  }

  #replaceDrivers(by: Connection): void {
    if (!by.roles.has('drive')) return;
    for (const { id, roles, pending, leaving } of [...this.#connections.values()]) {
      if (id !== by.id && roles.has('drive') && !pending && !leaving) this.close(id, 'replaced by a newer connection');
    }
  }

  #refuse(connection: Connection, error: SegueError): void {
    const { pending } = connection;
    connection.pending = null;
    this.#options.media.send({ type: 'connection.close', sessionId: this.#options.sessionId, connectionId: connection.id });
    this.#remove(connection, error.message);
    pending?.watchdog.cancel();
    pending?.reject(error);
  }

  #setState(connection: Connection, state: ConnectionState): void {
    if (connection.state === state) return;
    connection.state = state;
    this.#options.onPresence();
  }

  #staying(connectionId: string): Connection | undefined {
    const connection = this.#connections.get(connectionId);
    return connection?.leaving === null ? connection : undefined;
  }

  #remove(connection: Connection, reason: string): void {
    if (!this.#connections.delete(connection.id)) return;
    connection.state = 'closed';
    connection.leaving?.watchdog.cancel();
    try {
      connection.sink?.closed(connection.leaving?.reason ?? this.#ending ?? reason);
    } catch (error) {
      this.#options.log.error({ err: error, connectionId: connection.id }, 'relay could not be told that it is closed');
    }
    this.#options.onPresence();
    if (this.#connections.size === 0) this.#onEmpty?.();
  }
}

/** Whoever drives may speak. */
function rights({ roles }: Connection): { readonly drives: boolean; readonly speaks: boolean } {
  return { drives: roles.has('drive'), speaks: roles.has('drive') || roles.has('speak') };
}

function connectionNotFound(id: string): SegueError {
  return new SegueError('connection_not_found', `no connection ${id.slice(0, 64)} in this session`);
}
