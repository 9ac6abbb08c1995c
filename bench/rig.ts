import { fileURLToPath } from 'node:url';
import { bundle } from '../probe/bundle.ts';
import { painted } from '../probe/derive.ts';
import { Probe } from '../probe/Probe.ts';
import { ApiClient } from '../test/e2e/api_client.ts';
import { DrivePage } from '../test/e2e/DrivePage.ts';
import { StreamClient } from '../test/e2e/StreamClient.ts';
import { TestServer } from '../test/e2e/server.ts';

/** Samples of each side; the short set by default, more by `SEGUE_BENCH_N`. */
export const SAMPLES = Number(process.env['SEGUE_BENCH_N'] ?? 30);

export const PROMPTS = ['snowy mountains at night', 'desert at day', 'city at dusk with rain', 'coast at dawn', 'forest at day with fog'] as const;

/** Other sessions beside the measured one. None by default: with the two browsers that measure, two cores sustain no more. */
export const LOAD = Number(process.env['SEGUE_BENCH_LOAD'] ?? 0);

/** How the engine takes changes up, and whether media is fenced; see `docs/benchmarks.md`, "Baselines". */
export const BASELINES = {
  ours: {},
  /** As ours, and the first chunk that shows a redirect is made in fewer denoise steps. */
  preview: { SEGUE_ENGINE_REDIRECT_PREVIEW: 'true' },
  /** Same model, look-ahead, flush on change and fence; but a change is read when the next chunk is planned. */
  chunk: { SEGUE_ENGINE_POLICY: 'chunk' },
  /** Queues are cleared when the request has been understood; nothing else tells old media from new. */
  queue: { SEGUE_MEDIA_FENCE: 'queue' },
  /** A request of 2 s of media is made and sent before the next is looked at. */
  request: { SEGUE_ENGINE_POLICY: 'request', SEGUE_MEDIA_FENCE: 'queue' },
} as const;

/** One server with one page on it. */
export interface Rig {
  readonly server: TestServer;
  readonly api: ApiClient;
  readonly probe: Probe;
  readonly page: DrivePage;
  /** Sessions that share the instance: people without a browser, who watch and ask for nothing. */
  readonly others: readonly { readonly id: string; readonly client: StreamClient }[];
  close(): Promise<void>;
}

/** @param client `page`: the demo page; `plain`: a client without any logic of its own (`probe/page/plain_client.ts`) */
export async function rig(policy: keyof typeof BASELINES, client: 'page' | 'plain', { stamp = true, seed = 3, load = 0, ear = true }: { stamp?: boolean; seed?: number; load?: number; ear?: boolean } = {}): Promise<Rig> {
  // With load, capacity is not what is measured: a machine that does something else while the server starts would let one session in.
  const server = await TestServer.start({ env: { SEGUE_ENGINE_REDIRECT_PREVIEW: 'false', ...BASELINES[policy], ...(load > 0 ? { SEGUE_ENGINE_ADMISSION_BOUND: '1' } : {}) } });
  const probe = await Probe.launch();
  const api = new ApiClient(server);
  const page = client === 'page' ? await DrivePage.open(probe, server, { ear, query: `seed=${seed}${stamp ? '&stamp=1' : ''}` }) : await openPlain(server, api, probe, { stamp, seed });
  await page.join();
  const others: { id: string; client: StreamClient }[] = [];
  for (let index = 0; index < load; index++) {
    const { id, clientToken } = await api.createSession({ seed: seed + index + 1 });
    others.push({ id, client: await StreamClient.join(server.url, id, clientToken) });
  }
  return {
    server,
    api,
    probe,
    page,
    others,
    async close() {
      for (const { client } of others) await client.close();
      await page.close();
      await probe.close();
      await server.stop();
    },
  };
}

async function openPlain(server: TestServer, api: ApiClient, probe: Probe, { stamp, seed }: { stamp: boolean; seed: number }): Promise<DrivePage> {
  const script = await bundle(fileURLToPath(new URL('../probe/page/plain_client.ts', import.meta.url)));
  const { id, clientToken } = await api.createSession({ seed, stamp });
  const html = `<!doctype html><title>plain</title><body><canvas width="224" height="128"></canvas><input type="text"><button>Join</button><script>${script}</script>`;
  return DrivePage.open(probe, server, { path: '/plain', query: `session=${id}&token=${encodeURIComponent(clientToken)}`, html });
}

/** Samples that one side gives before it is the other's turn: enough that a turn is worth the pause, few enough that both see the same machine. */
const TURN = 3;

/**
 * Takes `samples` of each side in turns of {@link TURN}. The side that waits is paused: on a small machine two sessions and two browsers at once would measure each
 * other. `measure` returns when its sample is complete.
 */
export async function alternate(ours: Rig, baseline: Rig, samples: number, measure: (side: 'ours' | 'baseline', rig: Rig, index: number) => Promise<void>): Promise<void> {
  await Promise.all([ours, baseline].map((one) => control(one, 'pause')));
  for (let from = 0; from < samples; from += TURN) {
    for (const [side, one] of [['ours', ours], ['baseline', baseline]] as const) {
      await control(one, 'resume');
      const since = await one.page.probe.now();
      await one.page.probe.until('pictures after the pause', (log) => painted(log).filter(({ t }) => t > since)[SETTLED_PICTURES]);
      for (let index = from; index < Math.min(samples, from + TURN); index++) await measure(side, one, index);
      one.page.probe.forget((await one.page.probe.now()) - 1_000);
      await control(one, 'pause');
    }
  }
}

/** A second of pictures. */
const SETTLED_PICTURES = 12;

async function control({ api, page, others }: Rig, request: 'pause' | 'resume'): Promise<void> {
  for (const id of [await page.sessionId(), ...others.map((other) => other.id)]) {
    const { status, body } = await api.call('POST', `/v1/sessions/${id}/${request}?wait=applied`, { body: {} });
    if (status !== 200) throw new Error(`${request} gave ${status} ${JSON.stringify(body)}`);
  }
}

/** A number in `[low, high)`: presses must not fall into step with chunks. */
export function between(low: number, high: number): number {
  return low + Math.random() * (high - low);
}
