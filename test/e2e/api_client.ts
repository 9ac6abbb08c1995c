import { request } from 'node:http';
import type { CreatedSession, CreateSession, SessionView } from '../../src/protocol/rest.ts';
import type { ErrorBody } from '../../src/protocol/errors.ts';
import type { TestServer } from './server.ts';

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: unknown;
  /** The error body, wherever the answer is one. */
  readonly error: ErrorBody | null;
}

/** Product back end's side of the REST API; says what came back and judges nothing. */
export class ApiClient {
  readonly #server: TestServer;

  constructor(server: TestServer) {
    this.#server = server;
  }

  /** `token`: null sends no credentials; default: the API key. `body` of type string is sent as it is. */
  async call(method: string, path: string, { body, token = this.#server.apiKey, headers = {} }: { body?: unknown; token?: string | null; headers?: Record<string, string> } = {}): Promise<Answer> {
    const response = await fetch(`${this.#server.url}${path}`, {
      method,
      headers: {
        ...(token === null ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      signal: AbortSignal.timeout(15_000),
    });
    const text = await response.text();
    let parsed: unknown = text;
    try {
      parsed = text === '' ? null : JSON.parse(text);
    } catch {
      // not JSON: the text itself is the body
    }
    const inner = typeof parsed === 'object' && parsed !== null ? ((parsed as { error?: unknown }).error ?? parsed) : null;
    const error = inner !== null && typeof (inner as { code?: unknown }).code === 'string' ? (inner as ErrorBody) : null;
    return { status: response.status, headers: response.headers, body: parsed, error };
  }

  async createSession(options: CreateSession = {}): Promise<CreatedSession> {
    const answer = await this.call('POST', '/v1/sessions', { body: options });
    if (answer.status >= 300) throw new Error(`creating a session gave ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body as CreatedSession;
  }

  /** As {@link createSession}, waiting in line with the ticket while the server is full. */
  async createSessionInLine(options: CreateSession = {}, timeoutMs = 20_000): Promise<CreatedSession> {
    const deadline = performance.now() + timeoutMs;
    for (let ticket: string | undefined; ; ) {
      const answer = await this.call('POST', '/v1/sessions', { body: { ...options, ...(ticket === undefined ? {} : { ticket }) } });
      if (answer.status < 300) return answer.body as CreatedSession;
      if (answer.error?.code !== 'at_capacity' || performance.now() > deadline) throw new Error(`creating a session gave ${answer.status} ${JSON.stringify(answer.body)}`);
      ticket = answer.error.ticket;
      await new Promise((resolve) => setTimeout(resolve, Math.min(1_000, answer.error?.retryAfterMs ?? 500)));
    }
  }

  async session(id: string): Promise<SessionView> {
    const answer = await this.call('GET', `/v1/sessions/${id}`);
    if (answer.status !== 200) throw new Error(`reading ${id} gave ${answer.status} ${JSON.stringify(answer.body)}`);
    return answer.body as SessionView;
  }

  async sessions(): Promise<SessionView[]> {
    const { body } = await this.call('GET', '/v1/sessions');
    return (Array.isArray(body) ? body : (body as { sessions: SessionView[] }).sessions) as SessionView[];
  }

  async close(id: string): Promise<void> {
    await this.call('DELETE', `/v1/sessions/${id}`);
  }

  /** Posts `bytes` of body, all of it, as fast as the server takes it in. */
  post(path: string, bytes: number): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const headers = { authorization: `Bearer ${this.#server.apiKey}`, 'content-type': 'application/json', 'content-length': String(bytes) };
      const sending = request(`${this.#server.url}${path}`, { method: 'POST', headers, agent: false }, (response) => {
        let text = '';
        response.setEncoding('utf8').on('data', (part: string) => (text += part));
        response.on('error', reject);
        response.on('end', () => {
          const body = JSON.parse(text) as { error: ErrorBody };
          resolve({ status: response.statusCode ?? 0, headers: new Headers(), body, error: body.error });
          sending.destroy();
        });
      });
      sending.on('error', reject);
      sending.end(Buffer.alloc(bytes, 'x'));
    });
  }

  /** Test mode: blocks the control thread for `ms`, from just after the answer. */
  async block(ms: number): Promise<void> {
    const { status } = await this.call('POST', '/v1/test/block', { body: { ms } });
    if (status >= 300) throw new Error(`blocking the control thread gave ${status}`);
  }

  async inject(sessionId: string, fault: 'kernel_exception' | 'runtime_error' | 'executor_hang'): Promise<void> {
    const { status, body } = await this.call('POST', '/v1/test/fault', { body: { session: sessionId, fault } });
    if (status >= 300) throw new Error(`injecting ${fault} gave ${status} ${JSON.stringify(body)}`);
  }
}
