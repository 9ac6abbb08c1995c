/** What goes wrong inside the engine stays in its session, and that session goes on or is told why. */
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { after, before, describe, it } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { ApiClient } from '../e2e/api_client.ts';
import { StreamClient, type MediaPacket } from '../e2e/StreamClient.ts';
import { TestServer } from '../e2e/server.ts';

const MODEL = fileURLToPath(new URL('../../models/drive/', import.meta.url));
const FRAME_MS = 1000 / 12;
/** One chunk is two pictures; the rest is what a loaded machine delays any one delivery. */
const MAX_GAP_MS = 3 * FRAME_MS + 150;
/** Admission is not what is tested: a loaded machine measures costs that leave room for one. */
const ROOM_FOR_TWO = { SEGUE_ENGINE_ADMISSION_BOUND: '1' };
/** The longest wait that any watchdog allows, and its consequences. */
const SETTLE_MS = 6_000;
/** A hanging executor comes back after 5 s; then its sessions catch up. */
const HANG_SETTLE_MS = 9_000;
/** Sessions of a server with one executor share it: while it hangs, none of them gets a picture. */
const SHARED_FAULTS: ReadonlySet<string> = new Set(['executor_hang']);

describe('engine faults', () => {
  let server: TestServer;
  let api: ApiClient;

  before(async () => {
    server = await TestServer.start({ env: ROOM_FOR_TWO });
    api = new ApiClient(server);
  });

  after(async () => {
    const exit = await server?.stop();
    assert.equal(exit?.code, 0, server?.tail());
  });

  for (const fault of ['kernel_exception', 'runtime_error', 'executor_hang'] as const) {
    const shared = SHARED_FAULTS.has(fault);
    it(`${fault}: its session goes on or says why, ${shared ? 'and so does the other that shares the executor' : 'the other misses at most a chunk'}`, async () => {
      const [faulty, healthy] = await Promise.all(
        [{ seed: 1 }, { seed: 2 }].map(async (options) => {
          const created = await api.createSession(options);
          return { id: created.id, client: await StreamClient.join(server.url, created.id, created.clientToken) };
        }),
      );
      assert.ok(faulty && healthy);
      await Promise.all([faulty, healthy].map(({ client }) => client.untilPicture('a first picture')));
      await delay(1_500);

      const injected = performance.now();
      await api.inject(faulty.id, fault);
      await delay(shared ? HANG_SETTLE_MS : SETTLE_MS);
      const now = performance.now();

      const failed = (await server.metrics()).sum('segue_engine_units_failed_total');
      assert.ok(failed >= 1, 'the fault was never met');
      const said = faulty.client.messages.find((message) => message.at >= injected && (message.type === 'error' || message.type === 'closed'));
      const flows = faulty.client.pictures(now - 1_000, now).length;
      assert.ok(flows >= 8 || said !== undefined, `the faulty session neither flows (${flows} pictures in the last second) nor says why`);

      const saidHealthy = healthy.client.messages.find((message) => message.at >= injected && (message.type === 'error' || message.type === 'closed'));
      if (shared) assert.ok(saidHealthy !== undefined || healthy.client.pictures(now - 1_000, now).length >= 8, 'the other session neither flows again nor says why');
      else {
        const pictures = healthy.client.pictures(injected - 500, now);
        const longest = Math.max(...gapsOf(pictures));
        assert.ok(longest <= MAX_GAP_MS, `the other session's longest gap: ${Math.round(longest)} ms`);
        assert.equal(saidHealthy, undefined);
      }

      const answer = await healthy.client.request({ type: 'redirect', id: healthy.client.nextId(), prompt: 'desert at day' });
      assert.equal(answer.type, 'applied');
      if (flows >= 8) {
        const next = await faulty.client.request({ type: 'redirect', id: faulty.client.nextId(), prompt: 'coast at dawn' });
        assert.equal(next.type, 'applied', 'the next turn of the session that had the fault');
      }
      await Promise.all([faulty, healthy].map(({ client }) => client.close()));
      await Promise.all([faulty, healthy].map(({ id }) => api.close(id)));
    });
  }
});

describe('two executors', () => {
  let directory: string;
  let server: TestServer;

  before(async () => {
    directory = mkdtempSync(join(tmpdir(), 'segue-two-executors-'));
    for (const name of readdirSync(MODEL)) if (name !== 'deployment.yaml') symlinkSync(join(MODEL, name), join(directory, name));
    const deployment = readFileSync(join(MODEL, 'deployment.yaml'), 'utf8');
    assert.match(deployment, /^devices: 1$/m);
    writeFileSync(join(directory, 'deployment.yaml'), deployment.replace(/^devices: 1$/m, 'devices: 2'));
    server = await TestServer.start({ env: { ...ROOM_FOR_TWO, SEGUE_MODEL_DIRECTORY: directory } });
  });

  after(async () => {
    const exit = await server?.stop();
    rmSync(directory, { recursive: true, force: true });
    assert.equal(exit?.code, 0, server?.tail());
  });

  it('executor_hang: the session on the other executor misses at most a chunk', async () => {
    const api = new ApiClient(server);
    const people: { id: string; client: StreamClient }[] = [];
    for (const seed of [1, 2]) {
      const created = await api.createSession({ seed });
      const client = await StreamClient.join(server.url, created.id, created.clientToken);
      await client.untilPicture('a first picture');
      people.push({ id: created.id, client });
    }
    const [faulty, healthy] = people;
    assert.ok(faulty && healthy);
    await delay(1_500);
    const injected = performance.now();
    await api.inject(faulty.id, 'executor_hang');
    await delay(HANG_SETTLE_MS);
    const now = performance.now();
    const said = faulty.client.messages.find((message) => message.at >= injected && message.type === 'error');
    assert.ok(said?.type === 'error' && said.error.code === 'engine_unavailable', `the faulty session was told ${JSON.stringify(said)}`);
    assert.ok(faulty.client.pictures(now - 1_000, now).length >= 8, 'the faulty session does not flow again when its executor is back');
    const longest = Math.max(...gapsOf(healthy.client.pictures(injected - 500, now)));
    assert.ok(longest <= MAX_GAP_MS, `the other session's longest gap: ${Math.round(longest)} ms`);
    for (const { client } of people) await client.close();
  });
});

function gapsOf(packets: readonly MediaPacket[]): number[] {
  return packets.slice(1).map((packet, at) => packet.at - packets[at]!.at);
}
