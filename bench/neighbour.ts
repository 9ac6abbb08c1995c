/**
 * `neighbour_late_frames`: pictures of a session that were ready later than they were due, while its neighbour on the same device asks for something else 20 times a second, against the
 * same while the neighbour only watches. The server with its model, two people without a browser; both parts in turns. `SEGUE_BENCH_SECONDS`: length of each part (20).
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { SessionRequest } from '../src/protocol/channel.ts';
import { ApiClient } from '../test/e2e/api_client.ts';
import { StreamClient } from '../test/e2e/StreamClient.ts';
import { TestServer } from '../test/e2e/server.ts';
import { Figure } from './Figure.ts';

const PER_SECOND = 20;
const SECONDS = Number(process.env['SEGUE_BENCH_SECONDS'] ?? 20);
const PARTS = 3;
const PROMPTS = ['desert at day', 'coast at dawn', 'forest at night', 'city at dusk'];

function restless(index: number): SessionRequest {
  const id = `r${index}`;
  const prompt = PROMPTS[index % PROMPTS.length]!;
  const all: readonly SessionRequest[] = [
    { type: 'interrupt', id },
    { type: 'redirect', id, prompt },
    { type: 'cut', id, prompt },
    { type: 'redirect', id, adapter: { id: index % 2 === 0 ? 'noir' : 'synthwave' } },
    { type: 'redirect', id, prompt, seamless: true },
    { type: 'blend', id, prompt, chunks: 4 },
  ];
  return all[index % all.length]!;
}

const figure = new Figure({ figure: 'neighbour_late_frames', unit: `pictures of ${SECONDS * 12}`, statistic: 'p50', baselineName: 'the neighbour only watches' });
const server = await TestServer.start({ env: { SEGUE_ENGINE_ADMISSION_BOUND: '1' } });
try {
  const api = new ApiClient(server);
  const [steady, other] = await Promise.all([1, 2].map(async (seed) => {
    const { id, clientToken } = await api.createSession({ seed, prompt: 'forest at noon' });
    return { id, client: await StreamClient.join(server.url, id, clientToken) };
  }));
  await Promise.all([steady!, other!].map(({ client }) => client.untilPicture('a first picture')));
  await delay(3_000);
  const late = async (): Promise<number> => (await api.session(steady!.id)).usage!.lateFrames;
  let asked = 0;
  for (let part = 0; part < PARTS; part++) {
    for (const side of ['baseline', 'ours'] as const) {
      if (side === 'baseline') await other!.client.request({ type: 'redirect', id: `calm${part}`, prompt: 'forest at noon' });
      await delay(2_000);
      const [before, begun] = [await late(), performance.now()];
      for (let tick = 0; performance.now() - begun < SECONDS * 1000; tick++) {
        if (side === 'ours') other!.client.send(restless(asked++));
        await delay(Math.max(0, begun + (tick + 1) * (1000 / PER_SECOND) - performance.now()));
      }
      // Told once a second.
      await delay(1_200);
      figure.add(side, (await late()) - before, { part });
    }
  }
  for (const { client } of [steady!, other!]) await client.close();
} finally {
  await server.stop();
}
figure.print();
