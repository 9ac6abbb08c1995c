import { ClientError } from './ClientError.ts';
import type { ErrorBody } from './messages.ts';

const CALL_TIMEOUT_MS = 5_000;

/** The REST side of a connection: offer, rejoin, trickle, leave. One object per session; the token is for that session only. */
export class Signalling {
  readonly #base: string;
  readonly #token: string;
  readonly #fetch: typeof fetch;

  constructor(baseUrl: string, sessionId: string, clientToken: string, fetcher: typeof fetch = (...args) => fetch(...args)) {
    this.#base = new URL(`v1/sessions/${encodeURIComponent(sessionId)}/`, baseUrl).href;
    this.#token = clientToken;
    this.#fetch = fetcher;
  }

  /** URL of the WebSocket; a browser can't set headers on it, so the token travels in the query. */
  get streamUrl(): string {
    const url = new URL('stream', this.#base);
    url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
    url.searchParams.set('token', this.#token);
    return url.href;
  }

  async iceServers(): Promise<RTCIceServer[]> {
    const answer = await this.#call('GET', '../../ice-servers');
    return (answer as { iceServers: RTCIceServer[] }).iceServers;
  }

  /** Posts an offer; with `rejoin`, the id of the connection that this one replaces. */
  async offer(sdp: string, rejoin: string | null): Promise<{ readonly id: string; readonly sdp: string }> {
    const body = { type: 'offer', sdp };
    if (rejoin === null) return (await this.#call('POST', 'connections', body)) as { id: string; sdp: string };
    try {
      return (await this.#call('PUT', `connections/${encodeURIComponent(rejoin)}`, body)) as { id: string; sdp: string };
    } catch (error) {
      // The server has forgotten the connection but may still have the session.
      if (error instanceof ClientError && error.code === 'connection_not_found') return this.offer(sdp, null);
      throw error;
    }
  }

  async candidate(connectionId: string, candidate: RTCIceCandidate | null): Promise<void> {
    const body = candidate === null ? null : { candidate: candidate.candidate, sdpMid: candidate.sdpMid, sdpMLineIndex: candidate.sdpMLineIndex };
    await this.#call('PATCH', `connections/${encodeURIComponent(connectionId)}`, { candidate: body });
  }

  /** Survives the page: sent with `keepalive`. */
  async leave(connectionId: string): Promise<void> {
    await this.#call('DELETE', `connections/${encodeURIComponent(connectionId)}`, undefined, true);
  }

  async #call(method: string, path: string, body?: unknown, keepalive = false): Promise<unknown> {
    let response: Response;
    try {
      response = await this.#fetch(new URL(path, this.#base), {
        method,
        headers: { authorization: `Bearer ${this.#token}`, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        keepalive,
        signal: AbortSignal.timeout(CALL_TIMEOUT_MS),
      });
    } catch (error) {
      throw new ClientError('network', `${method} ${path}: the server can't be reached`, null, error);
    }
    const text = await response.text();
    if (response.ok) return text === '' ? null : JSON.parse(text);
    throw errorOf(response, text);
  }
}

/** The server's error, or the nearest code where something in between answered in its place. */
export function errorOf(response: Response, text: string): ClientError {
  try {
    const parsed = JSON.parse(text) as { error?: ErrorBody } & Partial<ErrorBody>;
    const body = parsed.error ?? parsed;
    if (typeof body.code === 'string' && typeof body.message === 'string') return ClientError.from(body as ErrorBody);
  } catch {
    // Not JSON: a proxy's page. Its status is all there is to tell.
  }
  return new ClientError('network', `the server answered ${response.status} ${response.statusText}`);
}
