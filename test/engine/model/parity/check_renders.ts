import sharp from 'sharp';
import { contextOf, type ExecutorBench } from '../ExecutorBench.ts';
import { rollOut } from './check_loops.ts';
import { finding, type Finding } from './finding.ts';
import { colourIntersection, countColours, structuralSimilarity, thumbnailOf, type Thumbnail } from './picture_similarity.ts';
import { fixturePath, readFixture } from './stored_numbers.ts';

interface Fixture {
  readonly noiseSeed: number;
  readonly chunks: number;
  readonly speed: number;
  readonly ssimAtLeast: number;
  readonly coloursAtLeast: number;
  readonly knownSsim: number;
  readonly drives: readonly { readonly index: number; readonly promptIds: readonly number[]; readonly colours: readonly number[] }[];
}

const THUMBNAIL = { width: 56, height: 32 };

/**
 * C4: drives of the start bank go on through the served graphs. The chunk after the true one against the renderer's frames (SSIM of luma
 * thumbnails), five chunks by their colours; means over the drives, as what is missing to 1.
 */
export async function checkRenders(bench: ExecutorBench): Promise<Finding[]> {
  const { noiseSeed, chunks, speed, ssimAtLeast, coloursAtLeast, drives } = readFixture<Fixture>('c4.json');
  const truth = await renderedThumbnails();
  const kernel = bench.kernels.vae_tile_decode;
  const { width, height } = bench.spec.format;
  let similarity = 0;
  let colours = 0;
  for (const [place, drive] of drives.entries()) {
    const prompt = await bench.encodePrompt('a', drive.promptIds);
    const start = await bench.startLatents('a', drive.index);
    const ctx = contextOf({ seed: noiseSeed, lineage: drive.index, prompt, speed });
    const counts = new Float64Array(drive.colours.length);
    await rollOut(bench, 1 + chunks, () => ctx, start, async (chunk, latents) => {
      if (chunk === 0) return;
      let state = kernel.initState({ latents, frames: [0, 1], start90k: 0 }, ctx);
      for (const frame of [0, 1]) {
        const shown = (await bench.step(kernel, 'a', state, ctx, { keep: true }))!;
        ({ state } = shown);
        const rgb = (await bench.readOutputs(shown.ran))['rgb']!;
        bench.discardSlots(shown.ran.unit);
        countColours(rgb, counts);
        if (chunk === 1) similarity += structuralSimilarity(thumbnailOf(rgb, width, height), truth[2 * place + frame]!) / (2 * drives.length);
      }
    });
    bench.worker.release(Object.values(prompt));
    colours += colourIntersection(counts, drive.colours) / drives.length;
  }
  return [finding('C4', 'SSIM of the chunk after true context', 1 - similarity, 1 - ssimAtLeast), finding('C4', 'colours of what follows', 1 - colours, 1 - coloursAtLeast)];
}

/** Two for each drive, in its order. */
export async function renderedThumbnails(): Promise<Thumbnail[]> {
  const { data, info } = await sharp(fixturePath('c4_thumbnails.png')).extractChannel(0).raw().toBuffer({ resolveWithObject: true });
  const { width, height } = THUMBNAIL;
  return Array.from({ length: (info.width * info.height) / (width * height) }, (_, index) => {
    const [left, top] = [(index % 2) * width, Math.floor(index / 2) * height];
    return { width, height, luma: Uint8Array.from({ length: width * height }, (_pixel, at) => data[(top + Math.floor(at / width)) * info.width + left + (at % width)]!) };
  });
}

/** SSIM of the first two thumbnails, as scikit-image has it. */
export function knownSsim(): number {
  return readFixture<Fixture>('c4.json').knownSsim;
}
