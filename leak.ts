import { setTimeout as delay } from 'node:timers/promises';
import { readFileSync } from 'node:fs';
import { TestServer } from './test/e2e/server.ts';
import { ApiClient } from './test/e2e/api_client.ts';
import { StreamClient } from './test/e2e/StreamClient.ts';
const COUNT = Number(process.argv[2] ?? 2000);
const server = await TestServer.start({ env: { NODE_OPTIONS: '--import /tmp/w/leak/pre.mjs' } });
const api = new ApiClient(server);
const { id, clientToken } = await api.createSession({ seed: 3, prompt: 'coast at dawn' });
const client = await StreamClient.join(server.url, id, clientToken);
const PROMPTS = ['desert at day', 'coast at dawn', 'forest at night', 'city at dusk'];
await delay(8000);
for (let round = 0; round <= COUNT; round++) {
  if (round % 200 === 0) {
    process.kill(server.pid, 'SIGUSR2');
    const m = await server.metrics();
    console.log(round, m.sum('process_resident_memory_bytes') / 1e6, m.sum('segue_engine_blocks_live'), /Pss_Anon: +(\d+)/.exec(readFileSync(`/proc/${server.pid}/smaps_rollup`, 'utf8'))?.[1], /Pss_Shmem: +(\d+)/.exec(readFileSync(`/proc/${server.pid}/smaps_rollup`, 'utf8'))?.[1]);
  }
  const at = performance.now();
  const done = await client.request({ type: 'interrupt', id: client.nextId() });
  if (round % 5 === 0) client.send({ type: 'redirect', id: client.nextId(), prompt: PROMPTS[round % 4]! });
  else client.send({ type: 'resume', id: client.nextId() });
  const epoch = (await api.session(id)).epoch;
  await client.untilPicture('next', (p) => p.epoch >= epoch, at);
  client.messages.splice(0, client.messages.length - 50);
}
await delay(500);
await client.close();
console.log(await server.stop());
