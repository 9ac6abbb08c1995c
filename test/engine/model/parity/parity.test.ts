import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { loadModelSpec } from '../../../../src/engine/model/spec/load_model_spec.ts';
import { ExecutorBench, MODEL_DIR } from '../ExecutorBench.ts';
import { checkComponents } from './check_components.ts';
import { checkLogProbabilities } from './check_log_probabilities.ts';
import { checkLoops } from './check_loops.ts';
import { checkRenders, knownSsim, renderedThumbnails } from './check_renders.ts';
import { findingText, type Finding } from './finding.ts';
import { countColours, colourIntersection, structuralSimilarity } from './picture_similarity.ts';
import { readFixture } from './stored_numbers.ts';

let plain: ExecutorBench;
let invariant: ExecutorBench;
before(async () => {
  plain = await ExecutorBench.open();
  invariant = await ExecutorBench.open({ batchInvariant: true });
});
after(async () => {
  await plain.close();
  await invariant.close();
});

function assertAllPass(findings: readonly Finding[]): void {
  for (const finding of findings) console.log(findingText(finding));
  assert.ok(findings.length > 0);
  assert.deepEqual(findings.filter(({ passed }) => !passed).map(findingText), []);
}

test('the stored references are of the checkpoints that the shipped weights were converted from', () => {
  const { upstream } = JSON.parse(readFileSync(join(MODEL_DIR, 'manifest.json'), 'utf8')) as { readonly upstream: { readonly revision: unknown } };
  assert.deepEqual(readFixture('revision.json'), upstream.revision);
});

test('C0: every component gives what its PyTorch module gives', async () => {
  const spec = loadModelSpec(MODEL_DIR);
  const findings = await checkComponents(spec);
  // Each graph has its reference, so that a new one can't be forgotten.
  assert.deepEqual(findings.map(({ subject }) => subject).sort(), Object.keys(spec.components).sort());
  assertAllPass(findings);
});

test('C1: the loops follow the trajectories of PyTorch', async () => {
  assertAllPass(await checkLoops(plain));
});

test('C2: log-probabilities of sampled tokens are the same bits in any batch, and those of PyTorch', async () => {
  assertAllPass(await checkLogProbabilities(invariant));
});

test('C4: what is shown resembles the renderer\'s frames of the same drives', async () => {
  assertAllPass(await checkRenders(plain));
});

test('SSIM is that of scikit-image, 1 for the same picture; colours of the same picture have all in common', async () => {
  const [first, second] = await renderedThumbnails();
  assert.ok(Math.abs(structuralSimilarity(first!, second!) - knownSsim()) < 1e-9, `${structuralSimilarity(first!, second!)}, ${knownSsim()}`);
  assert.ok(knownSsim() < 0.999, 'two pictures that differ');
  assert.ok(Math.abs(structuralSimilarity(first!, first!) - 1) < 1e-12);
  const counts = new Float64Array(64);
  countColours([0, 0, 0, 255, 255, 255], counts);
  const [black, white] = [0, 63].map((bin) => Array.from({ length: 64 }, (_, at) => (at === bin ? 1 : 0)));
  assert.deepEqual([colourIntersection(counts, black!), colourIntersection(counts, white!)], [0.5, 0.5]);
});
