/**
 * `overhead`: device time of one denoise step in the server, gathering of its inputs and keeping of its outputs included, against the same graph
 * bare in ONNX Runtime. The bare loop runs the graphs of a chunk in the server's order and at its pace, for a graph that runs back to back finds warmer caches
 * than one that runs a few times a chunk. Server and bare loop take turns; whoever waits computes nothing.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { InferenceSession, Tensor } from 'onnxruntime-node';
import { loadModelSpec } from '../src/engine/model/spec/load_model_spec.ts';
import { ApiClient } from '../test/e2e/api_client.ts';
import { StreamClient } from '../test/e2e/StreamClient.ts';
import { TestServer } from '../test/e2e/server.ts';
import { Figure } from './Figure.ts';

const MODEL = fileURLToPath(new URL('../models/drive/', import.meta.url));
const TURNS = 6;
const TURN_MS = 4_000;
const CHUNK_MS = 1000 / 6;
/** The units of one chunk, as the server runs them. */
const CHUNK = ['denoise_step', 'denoise_step', 'clean_write', 'vae_decode', 'vae_decode'] as const;
/** What the executor sets; see `src/engine/compile/CompileCache.ts`. */
const SESSION = {
  executionProviders: ['cpu'],
  intraOpNumThreads: 1,
  interOpNumThreads: 1,
  extra: { session: { intra_op: { allow_spinning: '0' }, set_denormal_as_zero: '1' } },
};

interface Trace {
  readonly traceEvents: readonly { readonly name: string; readonly ts: number; readonly args: { readonly deviceMs?: number; readonly batch?: number } }[];
}

interface Bare {
  readonly session: InferenceSession;
  readonly feeds: Record<string, Tensor>;
}

async function bareGraphs(): Promise<Map<string, Bare>> {
  const { components } = loadModelSpec(MODEL, { verifyChecksums: false });
  const graphs = new Map<string, Bare>();
  for (const name of new Set(CHUNK)) {
    const session = await InferenceSession.create(`${MODEL}weights/${name}.onnx`, SESSION);
    const feeds: Record<string, Tensor> = {};
    for (const [input, { dtype, shape }] of Object.entries(components[name]!.inputs)) {
      const dims = shape.map((axis) => (typeof axis === 'number' ? axis : 1));
      const count = dims.reduce((product, axis) => product * axis, 1);
      // Values of ordinary size: zeros and denormals would take other paths.
      feeds[input] =
        dtype === 'int64' ? new Tensor('int64', new BigInt64Array(count).fill(1n), dims) : new Tensor('float32', Float32Array.from({ length: count }, (_, at) => ((at % 13) - 6) / 6), dims);
    }
    graphs.set(name, { session, feeds });
  }
  return graphs;
}

/** Milliseconds of every bare denoise step in `forMs`. */
async function runBare(graphs: ReadonlyMap<string, Bare>, forMs: number): Promise<number[]> {
  const samples: number[] = [];
  const until = performance.now() + forMs;
  for (let due = performance.now(); due < until; due += CHUNK_MS) {
    await delay(Math.max(0, due - performance.now()));
    for (const name of CHUNK) {
      const { session, feeds } = graphs.get(name)!;
      const begin = performance.now();
      await session.run(feeds);
      if (name === 'denoise_step') samples.push(performance.now() - begin);
    }
  }
  return samples;
}

const figure = new Figure({ figure: 'overhead', unit: 'ms p50 of a denoise step', statistic: 'p50', baselineName: 'the same graph bare in ONNX Runtime' });
const server = await TestServer.start({ env: { SEGUE_SESSIONS_ORPHAN_MS: '600000' } });
try {
  const graphs = await bareGraphs();
  await runBare(graphs, 1_000);
  const api = new ApiClient(server);
  const created = await api.createSession({ seed: 1 });
  const client = await StreamClient.join(server.url, created.id, created.clientToken);
  await client.untilPicture('a first picture');
  for (let turn = 0; turn < TURNS; turn++) {
    await client.request({ type: 'resume', id: client.nextId() });
    const before = await steps(api, created.id);
    await delay(TURN_MS);
    const after = await steps(api, created.id);
    await client.request({ type: 'pause', id: client.nextId() });
    for (const step of after) if (step.batch > (before.at(-1)?.batch ?? -1)) figure.add('ours', step.deviceMs, { turn });
    await delay(300);
    for (const ms of await runBare(graphs, TURN_MS)) figure.add('baseline', ms, { turn });
  }
  await client.close();
} finally {
  await server.stop();
}
figure.print();

async function steps(api: ApiClient, sessionId: string): Promise<{ batch: number; deviceMs: number }[]> {
  const { status, body } = await api.call('GET', `/v1/traces/${sessionId}`);
  if (status !== 200) throw new Error(`the trace gave ${status}`);
  return (body as Trace).traceEvents.flatMap(({ name, args }) => (name === 'diffusion_step' && args.deviceMs !== undefined && args.batch !== undefined ? [{ batch: args.batch, deviceMs: args.deviceMs }] : []));
}
