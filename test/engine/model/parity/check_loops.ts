import sharp from 'sharp';
import type { LoopContext } from '../../../../src/engine/model/loop_kernel.ts';
import { PromptProcessor } from '../../../../src/engine/model/processors/PromptProcessor.ts';
import type { BlockId } from '../../../../src/engine/model/work.ts';
import { contextOf, type ExecutorBench } from '../ExecutorBench.ts';
import { finding, type Finding } from './finding.ts';
import { fixturePath, readFixture, StoredNumbers, type Described } from './stored_numbers.ts';

interface Fixture {
  readonly video: { readonly seed: number; readonly lineage: number; readonly prompts: readonly string[]; readonly switchAt: number; readonly steer: readonly number[]; readonly speed: readonly number[]; readonly chunks: readonly Described[] };
  readonly texts: { readonly logprobTolerance: number; readonly cases: readonly { readonly prompt: readonly number[]; readonly endIds: readonly number[]; readonly tokens: readonly number[]; readonly logprobs: readonly number[] }[] };
  readonly story: {
    readonly seed: number;
    readonly lineage: number;
    readonly prompt: string;
    readonly steer: readonly number[];
    readonly speed: number;
    readonly entry: number;
    readonly latents: readonly Described[];
    readonly frames: readonly Described[];
    readonly sound: readonly Described[];
  };
}

/**
 * C1: trajectories of the loops through the served kernels against PyTorch: video with a new prompt and turns, the director's words, and a
 * picture that is encoded, goes on, is decoded and sounds.
 */
export async function checkLoops(bench: ExecutorBench): Promise<Finding[]> {
  const fixture = readFixture<Fixture>('c1.json');
  const stored = new StoredNumbers('c1.f32');
  return [await checkVideo(bench, fixture.video, stored), ...(await checkTexts(bench, fixture.texts)), ...(await checkStory(bench, fixture.story, stored))];
}

async function checkVideo(bench: ExecutorBench, { seed, lineage, prompts, switchAt, steer, speed, chunks }: Fixture['video'], stored: StoredNumbers): Promise<Finding> {
  const [before, after] = [await promptBlocks(bench, prompts[0]!), await promptBlocks(bench, prompts[1]!)];
  const contextAt = (chunk: number) => contextOf({ seed, lineage, prompt: chunk < switchAt ? before : after, steer: steer[chunk]!, speed: speed[chunk]! });
  let worst = 0;
  await rollOut(bench, chunks.length, contextAt, null, async (chunk, latents) => {
    const [values] = await bench.worker.read([latents]);
    worst = Math.max(worst, stored.difference(values!, chunks[chunk]!));
  });
  return finding('C1', 'video_continuation: latents', worst, chunks[0]!.tolerance);
}

async function checkTexts(bench: ExecutorBench, { logprobTolerance, cases }: Fixture['texts']): Promise<Finding[]> {
  const kernel = bench.kernels.ar_decode;
  const ctx = contextOf({ seed: 0 });
  let others = 0;
  let worst = 0;
  for (const { prompt, endIds, tokens, logprobs } of cases) {
    let state = kernel.initState({ ids: prompt, endIds, maxTokens: 40 }, ctx);
    const said: number[] = [];
    for (let next = await bench.step(kernel, 'a', state, ctx); next !== null; next = await bench.step(kernel, 'a', state, ctx)) {
      ({ state } = next);
      said.push(...(await bench.readOutputs(next.ran))['logprob']!);
    }
    bench.worker.release(state.blocks);
    const made = kernel.finalize(state, ctx);
    const length = Math.max(made.length, tokens.length);
    for (let at = 0; at < length; at++) {
      if (made[at] !== tokens[at]) others++;
      else worst = Math.max(worst, Math.abs(said[at]! - logprobs[at]!));
    }
  }
  return [finding('C1', 'ar_decode: words that differ', others, 0), finding('C1', 'ar_decode: log-probabilities of the words that are the same', worst, logprobTolerance)];
}

async function checkStory(bench: ExecutorBench, { seed, lineage, prompt, steer, speed, entry, latents: chunks, frames, sound }: Fixture['story'], stored: StoredNumbers): Promise<Finding[]> {
  const blocks = await promptBlocks(bench, prompt);
  const contextAt = (chunk: number) => contextOf({ seed, lineage, prompt: blocks, steer: steer[chunk]!, speed });
  const { vae_tile_encode: encode, vae_tile_decode: decode, audio } = bench.kernels;
  const ctx = contextAt(0);
  const read = encode.finalize(await bench.runToEnd(encode, 'a', encode.initState({ image: await picture() }, ctx), ctx), ctx);
  let heard = audio.initState({ firstChunk: 0 }, ctx);
  const worst = { latents: 0, frames: 0, sound: 0 };
  await rollOut(bench, chunks.length, contextAt, read.latents, async (chunk, latents) => {
    const [values] = await bench.worker.read([latents]);
    worst.latents = Math.max(worst.latents, stored.difference(values!, chunks[chunk]!));
    let shown = decode.initState({ latents, frames: [0, 1], start90k: 0 }, ctx);
    heard = audio.withChunk(heard, { latents, chunk, frames: [0, 1], start90k: 0 });
    for (const frame of [2 * chunk, 2 * chunk + 1]) {
      const pixels = (await bench.step(decode, 'a', shown, ctx, { keep: true }))!;
      const samples = (await bench.step(audio, 'a', heard, contextAt(chunk), { keep: true }))!;
      shown = pixels.state;
      worst.frames = Math.max(worst.frames, stored.difference((await bench.readOutputs(pixels.ran))['rgb']!, frames[frame]!));
      worst.sound = Math.max(worst.sound, stored.difference((await bench.readOutputs(samples.ran))['pcm']!, sound[frame]!));
      bench.worker.release(heard.blocks.filter((block) => block !== latents && !samples.state.blocks.includes(block)));
      heard = samples.state;
      for (const { ran } of [pixels, samples]) bench.discardSlots(ran.unit);
    }
  });
  return [
    finding('C1', 'vae_tile_encode: entry of the start bank', Math.abs(read.entry - entry), 0),
    finding('C1', 'vae_tile_encode and what follows: latents', worst.latents, chunks[0]!.tolerance),
    finding('C1', 'vae_tile_decode: pixels', worst.frames, frames[0]!.tolerance),
    finding('C1', 'audio: samples', worst.sound, sound[0]!.tolerance),
  ];
}

/** Chunk by chunk, from noise or from the latents of a first chunk; shows each as soon as it is denoised. */
export async function rollOut(bench: ExecutorBench, chunks: number, contextAt: (chunk: number) => LoopContext, start: BlockId | null, see: (chunk: number, latents: BlockId) => Promise<void>): Promise<void> {
  const kernel = bench.kernels.video_continuation;
  let state = kernel.initState({ firstChunk: 0 }, contextAt(0));
  if (start !== null) state = kernel.seeded(state, start);
  while (state.plan.chunk < chunks) {
    const { chunk } = state.plan;
    if (kernel.isChunkReady(state)) await see(chunk, kernel.latentsOf(state));
    state = (await bench.step(kernel, 'a', state, contextAt(chunk)))!.state;
  }
  bench.worker.release(state.blocks);
}

async function promptBlocks(bench: ExecutorBench, text: string): Promise<Readonly<Record<string, BlockId>>> {
  const processor = PromptProcessor.load(bench.spec);
  return bench.encodePrompt('a', processor.promptIds(processor.parse(text).changes));
}

async function picture(): Promise<SharedArrayBuffer> {
  const pixels = await sharp(fixturePath('c1_picture.png')).removeAlpha().raw().toBuffer();
  const shared = new SharedArrayBuffer(pixels.length);
  new Uint8Array(shared).set(pixels);
  return shared;
}
