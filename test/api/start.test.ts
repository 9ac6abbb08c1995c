/** How the program starts, and doesn't: as its own process, with the real model where it gets that far. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFileSync, chmodSync, cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const scratch = mkdtempSync(join(tmpdir(), 'segue-start-'));
after(() => rmSync(scratch, { recursive: true, force: true }));

interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the program until it ends; `meanwhile` gets what it has written so far. */
async function run(env: Record<string, string>, meanwhile?: (program: { readonly pid: number; readonly url: () => Promise<string>; readonly stop: (signal: NodeJS.Signals) => void }) => Promise<void>): Promise<Ended> {
  const child = spawn(process.execPath, ['src/api/main.ts'], { cwd: ROOT, env: { PATH: process.env['PATH'] ?? '', SEGUE_PORT: '0', ...env }, stdio: ['ignore', 'pipe', 'pipe'] });
  let [stdout, stderr] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  const exited = once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>;
  const watchdog = setTimeout(() => child.kill('SIGKILL'), 60_000);
  const url = async (): Promise<string> => {
    for (;;) {
      const found = /Segue: (\S+)\//.exec(stderr)?.[1];
      if (found !== undefined) return found;
      if (child.exitCode !== null) throw new Error(`ended: ${stderr}`);
      await delay(50);
    }
  };
  try {
    await meanwhile?.({ pid: child.pid!, url, stop: (signal) => child.kill(signal) });
  } catch (error) {
    child.kill('SIGKILL');
    throw error;
  }
  const [code, signal] = await exited;
  clearTimeout(watchdog);
  return { code, signal, stdout, stderr };
}

function assertRefused({ code, stdout, stderr }: Ended, ...named: readonly (string | RegExp)[]): void {
  assert.equal(code, 1, stderr);
  assert.equal(stderr.trim().split('\n').length, 1, `more than one line: ${stderr}`);
  assert.match(stderr, /^segue: /);
  for (const part of named) assert.match(stderr, typeof part === 'string' ? new RegExp(part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')) : part);
  assert.doesNotMatch(stdout + stderr, /\n\s+at \S|"stack"/, 'a stack trace for a mistake of the user');
}

function copyOfModel(name: string): string {
  const directory = join(scratch, name);
  cpSync(join(ROOT, 'models/drive'), directory, { recursive: true });
  return directory;
}

describe('a start that can not be', () => {
  it('because of the port fails before the model is loaded, and names address and key', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const { port } = other.address() as AddressInfo;
    // A model that isn't there would be the next thing to be found out.
    const ended = await run({ SEGUE_PORT: String(port), SEGUE_MODEL_DIRECTORY: join(scratch, 'none') });
    other.close();
    assertRefused(ended, `127.0.0.1:${port}`, 'in use', 'SEGUE_PORT');
  });

  it('because of the address names it and its key', async () => {
    assertRefused(await run({ SEGUE_HOST: '192.0.2.1' }), '192.0.2.1:0', 'SEGUE_HOST');
  });

  it('because of the model directory names it and its key', async () => {
    assertRefused(await run({ SEGUE_MODEL_DIRECTORY: join(scratch, 'none') }), join(scratch, 'none'), 'model.directory', 'SEGUE_MODEL_DIRECTORY');
    mkdirSync(join(scratch, 'empty'));
    assertRefused(await run({ SEGUE_MODEL_DIRECTORY: join(scratch, 'empty') }), join(scratch, 'empty'), 'model.yaml');
  });

  it('because of a damaged weight or a bad model file names the file and the key', async () => {
    const damaged = copyOfModel('damaged');
    const graph = readdirSync(damaged, { recursive: true, encoding: 'utf8' }).find((file) => file.endsWith('.onnx'))!;
    const bytes = readFileSync(join(damaged, graph));
    bytes[bytes.length >> 1]! ^= 1;
    writeFileSync(join(damaged, graph), bytes);
    assertRefused(await run({ SEGUE_MODEL_DIRECTORY: damaged }), damaged, 'checksum of', graph.split('/').at(-1)!);
    const bad = copyOfModel('bad');
    appendFileSync(join(bad, 'model.yaml'), '\n  : [nonsense\n');
    assertRefused(await run({ SEGUE_MODEL_DIRECTORY: bad }), bad, /model.yaml:\d+/);
  });

  it('because of the configuration names file and key', async () => {
    const file = join(scratch, 'config.yaml');
    writeFileSync(file, 'port: eighty\n');
    assertRefused(await run({ SEGUE_CONFIG: file }), file, 'port must be integer', '"eighty"');
    writeFileSync(file, 'port: 1\nhost: [\n');
    assertRefused(await run({ SEGUE_CONFIG: file }), file, /line \d/);
    assertRefused(await run({ SEGUE_CONFIG: scratch }), scratch, 'EISDIR');
    writeFileSync(file, 'port: 1\n');
    chmodSync(file, 0);
    // Root reads everything.
    if (process.getuid?.() !== 0) assertRefused(await run({ SEGUE_CONFIG: file }), file, 'EACCES');
  });
});

describe('a start', () => {
  it('that is told to stop while the model loads ends with 0, in order, and leaves nothing', async () => {
    for (const [signal, afterMs] of [['SIGTERM', 0], ['SIGINT', 700], ['SIGTERM', 2_500]] as const) {
      const { code, stdout, stderr } = await run({ SEGUE_ENGINE_READY_MS: '120000', SEGUE_DRAIN_DEADLINE_MS: '30000' }, async ({ pid, stop }) => {
        // Once the port is there, the signal is listened for.
        while (listens(pid) === null) await delay(20);
        await delay(afterMs);
        stop(signal);
      });
      assert.equal(code, 0, `${signal} after ${afterMs} ms: ${stderr} ${stdout}`);
      assert.doesNotMatch(stdout, /left open|did not end by itself|"level":(50|60)/, `${signal} after ${afterMs} ms`);
    }
  });

  it('says that it is starting, then that it listens, once; and shows a key beside the log, not in it', async () => {
    let told: number[] = [];
    let healthy = 0;
    const { code, stdout, stderr } = await run({}, async ({ pid, url, stop }) => {
      let port: number | null = null;
      while ((port = listens(pid)) === null) await delay(20);
      const [health, ready] = await Promise.all(['/healthz', '/readyz'].map((path) => fetch(`http://127.0.0.1:${port}${path}`)));
      healthy = health!.status;
      told = [ready!.status, Number(ready!.headers.get('retry-after'))];
      const listening = await url();
      assert.equal((await fetch(`${listening}/readyz`)).status, 200);
      stop('SIGTERM');
    });
    assert.equal(code, 0);
    assert.deepEqual([healthy, ...told], [200, 503, 1]);
    assert.equal(stdout.match(/listening/gi)?.length, 1, stdout);
    const key = /API key for this run: (sk_\S+)/.exec(stderr)?.[1];
    assert.ok(key !== undefined && !stdout.includes(key));
  });
});

/** The TCP port that a process listens on; null while there is none. */
function listens(pid: number): number | null {
  try {
    const sockets = new Set(readdirSync(`/proc/${pid}/fd`).flatMap((fd) => /^socket:\[(\d+)\]$/.exec(link(`/proc/${pid}/fd/${fd}`))?.[1] ?? []));
    for (const line of readFileSync(`/proc/${pid}/net/tcp`, 'utf8').split('\n').slice(1)) {
      const fields = line.trim().split(/\s+/);
      if (fields[3] === '0A' && sockets.has(fields[9] ?? '')) return Number.parseInt(fields[1]!.split(':')[1]!, 16);
    }
    return null;
  } catch {
    return null; // it has not begun, or has ended: who waits for it finds out
  }
}

function link(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return ''; // closed meanwhile
  }
}
