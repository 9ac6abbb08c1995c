/** Sessions that come and go leave nothing in the server: not in any of its threads. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import { ApiClient } from './api_client.ts';
import { TestServer } from './server.ts';

/** A session's shared memory is 0.8 MB: kept, 400 of them would be 300 MB and more. */
const MAX_GROWTH_MB = 100;

let server: TestServer;
before(async () => {
  server = await TestServer.start();
});
after(() => server.stop());

test('four hundred sessions more take no more memory than the first three hundred', async (t) => {
  const api = new ApiClient(server);
  const run = async (count: number): Promise<number> => {
    for (let at = 0; at < count; at++) {
      const { id } = await api.createSession({ seed: at });
      await api.close(id);
    }
    return residentMb(server.pid);
  };
  const first = await run(300);
  const then = await run(400);
  t.diagnostic(`resident after 300 sessions ${first.toFixed(0)} MB, after 700 ${then.toFixed(0)} MB`);
  assert.ok(then - first < MAX_GROWTH_MB, `${first.toFixed(0)} MB, then ${then.toFixed(0)} MB`);
});

function residentMb(pid: number): number {
  return Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]) / 1024;
}
