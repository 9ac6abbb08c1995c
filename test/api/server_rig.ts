import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createLogger } from '../../src/observe/log.ts';
import { DEFAULT_CONFIG, type Config } from '../../src/api/config_schema.ts';
import { Server } from '../../src/api/Server.ts';
import { PROMPTS, ScriptedEngine, ScriptedMedia } from '../sessions/scripted_links.ts';

export const KEY = 'test-key-0123456789abcdef';
export const OFFER = { type: 'offer', sdp: 'v=0\r\nm=video 9 UDP/TLS/RTP/SAVPF 96\r\n' };

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: Record<string, never> & { readonly [key: string]: unknown };
  readonly code: string | undefined;
}

export interface Created {
  readonly id: string;
  readonly clientToken: string;
}

/** A real server on a port of its own; only the threads behind it are scripted. */
export class ServerRig {
  readonly engine: ScriptedEngine;
  readonly media: ScriptedMedia;
  readonly server: Server;
  readonly #directory: string;

  private constructor(engine: ScriptedEngine, media: ScriptedMedia, server: Server, directory: string) {
    this.engine = engine;
    this.media = media;
    this.server = server;
    this.#directory = directory;
  }

  static async start(change: { readonly [Section in keyof Config]?: Partial<Config[Section]> | Config[Section] } = {}, capacity?: number): Promise<ServerRig> {
    const engine = new ScriptedEngine(capacity);
    const media = new ScriptedMedia();
    const directory = mkdtempSync(join(tmpdir(), 'segue-api-'));
    writeFileSync(join(directory, 'index.html'), '<!doctype html><title>page</title>');
    const config = structuredClone(DEFAULT_CONFIG) as unknown as Record<string, unknown>;
    Object.assign(config, { port: 0, logLevel: 'silent', auth: { ...DEFAULT_CONFIG.auth, apiKeys: [KEY] }, web: { directory }, drain: { deadlineMs: 2_000 } });
    for (const [section, value] of Object.entries(change)) config[section] = typeof value === 'object' ? { ...(config[section] as object), ...value } : value;
    const server = await Server.start({ config: config as unknown as Config, root: directory, log: createLogger({ level: 'silent' }), links: { engine, media, programs: ['drive'], prompts: PROMPTS } });
    return new ServerRig(engine, media, server, directory);
  }

  get url(): string {
    return this.server.url;
  }

  async call(method: string, path: string, { body, token = KEY, headers = {} }: { readonly body?: unknown; readonly token?: string | null; readonly headers?: Record<string, string> } = {}): Promise<Answer> {
    const response = await fetch(this.url + path, {
      method,
      headers: { ...(token === null ? {} : { authorization: `Bearer ${token}` }), ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      signal: AbortSignal.timeout(10_000),
    });
    const text = await response.text();
    let parsed: Answer['body'];
    try {
      parsed = (text === '' ? {} : JSON.parse(text)) as Answer['body'];
    } catch {
      parsed = { text } as unknown as Answer['body'];
    }
    return { status: response.status, headers: response.headers, body: parsed, code: (parsed['error'] as { code?: string } | undefined)?.code };
  }

  async create(body: unknown = {}): Promise<Created> {
    const { status, body: created } = await this.call('POST', '/v1/sessions', { body });
    if (status !== 201) throw new Error(`creating a session gave ${status} ${JSON.stringify(created)}`);
    return created as unknown as Created;
  }

  /** A session with a connected driver; resolves with its connection's id. */
  async join(created: Created): Promise<string> {
    const { body } = await this.call('POST', `/v1/sessions/${created.id}/connections`, { body: OFFER, token: created.clientToken });
    const connectionId = body['id'] as unknown as string;
    this.media.emit({ type: 'connection.state', sessionId: created.id, connectionId, state: 'connected' });
    return connectionId;
  }

  async close(): Promise<boolean> {
    const inOrder = await this.server.close('the test is over');
    rmSync(this.#directory, { recursive: true, force: true });
    return inOrder;
  }
}
