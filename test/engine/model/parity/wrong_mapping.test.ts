import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { loadModelSpec } from '../../../../src/engine/model/spec/load_model_spec.ts';
import { ExecutorBench } from '../ExecutorBench.ts';
import { checkComponents } from './check_components.ts';
import { checkLogProbabilities } from './check_log_probabilities.ts';
import { checkLoops } from './check_loops.ts';
import { checkRenders } from './check_renders.ts';
import { findingText, type Finding } from './finding.ts';
import { WrongModel, type Exchange } from './WrongModel.ts';

const EXCHANGES = {
  words: { component: 'text_encoder', keys: ['T.2.o.weight', 'T.3.o.weight'] },
  picture: { component: 'denoise_step', keys: ['V.2.o.weight', 'V.3.o.weight'] },
  pixels: { component: 'vae_decode', keys: ['d.r2.a.weight', 'd.r2.b.weight'] },
  encoder: { component: 'vae_encode', keys: ['e.r2.a.weight', 'e.r2.b.weight'] },
  sound: { component: 'audio_synth', keys: ['sound_mean', 'sound_std'] },
} as const satisfies Readonly<Record<string, Exchange>>;

const models: WrongModel[] = [];
after(() => models.forEach((model) => model.remove()));

/** A folder whose weights a conversion with exchanged keys would have written. */
function wrongModel(...exchanges: readonly Exchange[]): string {
  const model = new WrongModel(exchanges);
  models.push(model);
  return model.dir;
}

/** Loads it as a server does, where nothing contradicts anything else, and gives the subjects that a check finds fault with. */
async function failuresOf(check: (bench: ExecutorBench) => Promise<Finding[]>, exchanges: readonly Exchange[], batchInvariant = false): Promise<string[]> {
  const bench = await ExecutorBench.open({ modelDir: wrongModel(...exchanges), batchInvariant });
  try {
    return failed(await check(bench));
  } finally {
    await bench.close();
  }
}

function failed(findings: readonly Finding[]): string[] {
  for (const finding of findings) console.log(findingText(finding));
  return findings.filter(({ passed }) => !passed).map(({ subject }) => subject);
}

test('C0 fails for each component whose keys were exchanged', async () => {
  const spec = loadModelSpec(wrongModel(...Object.values(EXCHANGES)));
  // Entries of the start bank are encoded renders: no key is mapped into them.
  assert.deepEqual(failed(await checkComponents(spec)).sort(), Object.keys(spec.components).filter((id) => id !== 'start_bank').sort());
});

const LOOPS: readonly { readonly exchanged: readonly (keyof typeof EXCHANGES)[]; readonly subjects: readonly string[] }[] = [
  { exchanged: ['words'], subjects: ['ar_decode: words that differ', 'ar_decode: log-probabilities of the words that are the same'] },
  { exchanged: ['picture'], subjects: ['video_continuation: latents', 'vae_tile_encode and what follows: latents'] },
  { exchanged: ['encoder'], subjects: ['vae_tile_encode and what follows: latents'] },
  { exchanged: ['pixels', 'sound'], subjects: ['vae_tile_decode: pixels', 'audio: samples'] },
];
for (const { exchanged, subjects } of LOOPS) {
  test(`C1 fails when keys of ${exchanged.join(' and ')} were exchanged`, async () => {
    const found = await failuresOf(checkLoops, exchanged.map((what) => EXCHANGES[what]));
    for (const subject of subjects) assert.ok(found.includes(subject), `${subject} among ${found.join('; ')}`);
  });
}

test('C2 fails when keys of words were exchanged: the bits agree with each other, but not with PyTorch', async () => {
  assert.deepEqual(await failuresOf(checkLogProbabilities, [EXCHANGES.words], true), ['log-probabilities against PyTorch']);
});

for (const what of ['picture', 'pixels'] as const) {
  test(`C4 fails when keys of ${what} were exchanged`, async () => {
    assert.deepEqual(await failuresOf(checkRenders, [EXCHANGES[what]]), ['SSIM of the chunk after true context', 'colours of what follows']);
  });
}
