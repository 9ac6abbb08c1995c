import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createKernels } from '../../src/engine/model/kernels/create_kernels.ts';
import { PromptProcessor } from '../../src/engine/model/processors/PromptProcessor.ts';
import { loadModelSpec } from '../../src/engine/model/spec/load_model_spec.ts';
import { continuationModel, driveLanguage } from '../../src/realtime-programs/drive_model.ts';

const spec = loadModelSpec(new URL('../../models/drive', import.meta.url).pathname, { verifyChecksums: false });
const language = driveLanguage(PromptProcessor.load(spec));
const kernels = createKernels(spec);

test('the shipped model has all that a video continuation needs', () => {
  const model = continuationModel(spec, kernels, language);
  assert.deepEqual([model.steps, model.framesPerChunk, model.windowChunks], [2, 2, 7]);
  const { kv = 0 } = model.bytesOf(model.components.write);
  assert.equal(kv, 2 * 6 * 3 * 32 * 64 * 4, 'keys and values of 32 tokens in 6 layers of 3 heads of 64');
  assert.equal(model.bytesOf(model.components.directorStep).kv, 2 * 6 * 3 * 40 * 64 * 4, 'keys and values of 40 words');
  assert.deepEqual(model.bytesOf(model.components.directorStep), model.bytesOf(model.components.directorPrefill));
});

test('a policy that the program does not run, or a loop that is missing, is refused by name', () => {
  const video = spec.loops['video_continuation']!;
  const recomputing = { ...spec, loops: { ...spec.loops, video_continuation: { ...video, denoise: { ...video.denoise!, kvOnRedirect: 'recompute' as const } } } };
  assert.throws(() => continuationModel(recomputing, kernels, language), /kvOnRedirect is recompute, this program runs keep/);
  const { audio: _, ...silent } = kernels;
  assert.throws(() => continuationModel(spec, silent, language), /no loop of kind audio/);
});

test('a plan is known as soon as its separator is said; the narration follows', () => {
  const { edits } = language.parse('make it night');
  const plan = { place: 0, time: 1, weather: 0 };
  assert.equal(edits.length, 1);
  const ids = language.directorIds(plan, edits[0]!);
  // The director's question holds the plan in force, then a separator: read like an answer it is that plan.
  const stated = ids.slice(1);
  assert.deepEqual(language.read(stated.slice(0, stated.length - 1)).plan, plan);
  assert.equal(language.read([]).plan, null);
  assert.throws(() => language.parse('xyzzy'), { code: 'prompt_not_understood' });
});
