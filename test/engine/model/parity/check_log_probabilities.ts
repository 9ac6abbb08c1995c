import { contextOf, type ExecutorBench } from '../ExecutorBench.ts';
import { finding, type Finding } from './finding.ts';
import { readFixture } from './stored_numbers.ts';

interface Fixture {
  readonly tolerance: number;
  readonly cases: readonly { readonly prompt: readonly number[]; readonly tokens: readonly number[]; readonly logprobs: readonly number[] }[];
}

/** Members of each batch, by case: nobody keeps the same neighbours. */
const BATCHES = [[0, 1], [2], [1, 3, 4], [0, 5, 2, 3], [4], [5, 1, 0]] as const;

/**
 * C2: log-probabilities of sampled tokens. They are the same bits whoever shares the batch (`bench` is in batch-invariant mode), those of
 * PyTorch, and those that decoding gave when it sampled.
 */
export async function checkLogProbabilities(bench: ExecutorBench): Promise<Finding[]> {
  const { tolerance, cases } = readFixture<Fixture>('c2.json');
  const kernel = bench.kernels.logprob_recompute;
  const ctx = contextOf({ seed: 0 });
  const together = async (members: readonly { readonly prompt: readonly number[]; readonly tokens: readonly number[] }[]) => {
    const units = members.map((member, place) => bench.unitOf('logprob_recompute', ['a', 'b', 'c', 'blocker'][place]!, kernel.planStep(kernel.initState(member, ctx), ctx)!));
    const ran = await bench.runUnits(units);
    return Promise.all(ran.map(async (unit) => (await bench.readOutputs(unit))['logprobs']!));
  };
  const alone: (readonly number[])[] = [];
  for (const one of cases) alone.push((await together([one]))[0]!);
  let batched = 0;
  for (const batch of BATCHES) {
    const rows = await together(batch.map((index) => cases[index]!));
    for (const [place, row] of rows.entries()) batched = Math.max(batched, largestDifference(row, alone[batch[place]!]!));
  }
  const stored = Math.max(...cases.map(({ logprobs }, index) => largestDifference(alone[index]!, logprobs)));
  return [
    finding('C2', 'log-probabilities in changing batches against alone', batched, 0),
    finding('C2', 'log-probabilities against PyTorch', stored, tolerance),
    finding('C2', 'log-probabilities recomputed against those when sampled', await sampledDifference(bench, cases[0]!.prompt), tolerance),
  ];
}

/** Between what decoding said of its tokens and what recomputing says of them. */
async function sampledDifference(bench: ExecutorBench, prompt: readonly number[]): Promise<number> {
  const ctx = contextOf({ seed: 0 });
  const { ar_decode: decode, logprob_recompute: recompute } = bench.kernels;
  let state = decode.initState({ ids: prompt, endIds: [], maxTokens: 12 }, ctx);
  const sampled: number[] = [];
  for (let next = await bench.step(decode, 'a', state, ctx); next !== null; next = await bench.step(decode, 'a', state, ctx)) {
    ({ state } = next);
    sampled.push(...(await bench.readOutputs(next.ran))['logprob']!);
  }
  bench.worker.release(state.blocks);
  const input = { prompt, tokens: decode.finalize(state, ctx) };
  return largestDifference(sampled, recompute.finalize(await bench.runToEnd(recompute, 'a', recompute.initState(input, ctx), ctx), ctx));
}

function largestDifference(a: readonly number[], b: readonly number[]): number {
  if (a.length !== b.length) return Infinity;
  const largest = Math.max(...a.map((value, at) => Math.abs(value - b[at]!)));
  return Number.isNaN(largest) ? Infinity : largest;
}
