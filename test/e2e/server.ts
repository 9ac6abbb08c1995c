import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createInterface } from 'node:readline';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** Loading 30 MB of weights and measuring costs on a loaded two-core machine. */
const READY_MS = 60_000;
const MAX_LOG_LINES = 20_000;

export interface ServerOptions {
  /** Added to the environment; `undefined` removes. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly maxSessions?: number;
  /** How long SIGTERM may take, ms. */
  readonly drainMs?: number;
}

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** From the signal to the end of the process, ms. */
  readonly tookMs: number;
}

/** The real server, as its own process, in test mode on a port of its own. */
export class TestServer {
  readonly apiKey: string;
  readonly pid: number;
  /** Structured log lines, and whatever else it wrote, oldest first. */
  readonly log: Record<string, unknown>[] = [];
  readonly drainMs: number;
  #url = '';
  readonly #child: ChildProcess;
  readonly #exited: Promise<Omit<Exit, 'tookMs'>>;

  private constructor(child: ChildProcess, apiKey: string, drainMs: number) {
    this.#child = child;
    this.pid = child.pid!;
    this.apiKey = apiKey;
    this.drainMs = drainMs;
    this.#exited = once(child, 'exit').then(([code, signal]) => ({ code: code as number | null, signal: signal as NodeJS.Signals | null }));
    for (const stream of [child.stdout!, child.stderr!]) createInterface({ input: stream }).on('line', (line) => this.#wrote(line));
  }

  /** @throws Error with the last log lines where it doesn't become ready */
  static async start({ env = {}, maxSessions, drainMs = 5_000 }: ServerOptions = {}): Promise<TestServer> {
    const apiKey = 'test-key-0123456789abcdef';
    // One of its own, so that no test finds another's sessions; whoever wants to find them names one.
    const directory = mkdtempSync(join(tmpdir(), 'segue-data-'));
    const merged: NodeJS.ProcessEnv = {
      ...process.env,
      SEGUE_PORT: '0',
      SEGUE_HOST: '127.0.0.1',
      SEGUE_TEST_ENABLED: 'true',
      SEGUE_AUTH_API_KEYS: apiKey,
      SEGUE_DRAIN_DEADLINE_MS: String(drainMs),
      SEGUE_STORAGE_DIRECTORY: directory,
      ...(maxSessions === undefined ? {} : { SEGUE_SESSIONS_MAX: String(maxSessions) }),
      ...env,
    };
    for (const [key, value] of Object.entries(merged)) if (value === undefined) delete merged[key];
    const child = spawn(process.execPath, ['src/api/main.ts'], { cwd: ROOT, env: merged, stdio: ['ignore', 'pipe', 'pipe'] });
    // A test that dies must not leave its server behind: those that come after would be measured beside it.
    const orphaned = (): void => void child.kill('SIGKILL');
    process.once('exit', orphaned);
    child.once('exit', () => {
      process.off('exit', orphaned);
      rmSync(directory, { recursive: true, force: true });
    });
    const server = new TestServer(child, apiKey, drainMs);
    favour(server.pid);
    try {
      await server.#becomeReady();
    } catch (error) {
      await server.kill();
      throw error;
    }
    return server;
  }

  /** Without a slash at the end. */
  get url(): string {
    return this.#url;
  }

  get running(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  /** SIGTERM, and what came of it. Kills after the drain limit and a margin for a loaded machine. */
  async stop(): Promise<Exit> {
    const begin = performance.now();
    if (this.running) this.#child.kill('SIGTERM');
    const watchdog = setTimeout(() => this.#child.kill('SIGKILL'), this.drainMs + 10_000);
    const exit = await this.#exited;
    clearTimeout(watchdog);
    return { ...exit, tookMs: performance.now() - begin };
  }

  async kill(): Promise<void> {
    if (this.running) this.#child.kill('SIGKILL');
    await this.#exited;
  }

  /** Sums of the Prometheus counters and gauges by name; with `labels`, of the series that carry them. */
  async metrics(): Promise<Metrics> {
    const response = await fetch(`${this.#url}/metrics`, { headers: { authorization: `Bearer ${this.apiKey}` } });
    if (!response.ok) throw new Error(`/metrics answered ${response.status}`);
    return new Metrics(await response.text());
  }

  /** The last lines, for the message of a failed test. */
  tail(lines = 15): string {
    return this.log.slice(-lines).map((line) => JSON.stringify(line)).join('\n');
  }

  #wrote(line: string): void {
    if (this.log.length >= MAX_LOG_LINES) this.log.splice(0, MAX_LOG_LINES / 2);
    let entry: Record<string, unknown>;
    try {
      const parsed: unknown = JSON.parse(line);
      entry = typeof parsed === 'object' && parsed !== null ? (parsed as Record<string, unknown>) : { text: line };
    } catch {
      entry = { text: line };
    }
    this.log.push(entry);
    const url = entry['url'];
    if (entry['msg'] === 'listening' && typeof url === 'string') this.#url = url.replace(/\/$/, '');
  }

  async #becomeReady(): Promise<void> {
    const deadline = performance.now() + READY_MS;
    while (performance.now() < deadline) {
      if (!this.running) throw new Error(`the server ended while it started:\n${this.tail(40)}`);
      if (this.#url !== '') {
        const response = await fetch(`${this.#url}/readyz`).catch(() => null);
        if (response?.ok === true) return;
      }
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    throw new Error(`the server was not ready within ${READY_MS} ms:\n${this.tail(40)}`);
  }
}

/**
 * On Linux each session of processes gets an equal share of the cores, whatever its threads' priorities: beside two browsers on two cores
 * the server would get what one of them gets. It is what is tested here, so it comes first, where that is allowed.
 */
function favour(pid: number): void {
  try {
    writeFileSync(`/proc/${pid}/autogroup`, '-10');
  } catch {
    // No such grouping, or no right to change it: then the machine shares as it likes.
  }
}

/** One reading of `/metrics`. */
export class Metrics {
  readonly #lines: readonly string[];

  constructor(text: string) {
    this.#lines = text.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
  }

  /** Sum over all series of that name. @throws Error where there is none: a test must not pass on a metric that doesn't exist */
  sum(name: string, labels: Readonly<Record<string, string>> = {}): number {
    const wanted = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
    const values = this.#lines.flatMap((line) => {
      const [, series, given = '', value] = /^([a-zA-Z_:][\w:]*)(\{.*\})? (\S+)/.exec(line) ?? [];
      return series === name && wanted.every((label) => given.includes(label)) ? [Number(value)] : [];
    });
    if (values.length === 0) throw new Error(`/metrics has no ${name}`);
    return values.reduce((sum, value) => sum + value, 0);
  }
}
