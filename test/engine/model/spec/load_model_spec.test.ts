import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { loadModelSpec } from '../../../../src/engine/model/spec/load_model_spec.ts';
import { SpecError, type SpecFault } from '../../../../src/engine/model/spec/spec_error.ts';
import { MODEL_DIR } from '../ExecutorBench.ts';

const AUTHORED = ['model.yaml', 'loops.yaml', 'parallel.yaml', 'programs.yaml', 'deployment.yaml', 'manifest.json', 'report.json', 'vocabulary.json', 'processor.json'] as const;
const scratch: string[] = [];
after(() => scratch.forEach((dir) => rmSync(dir, { recursive: true })));

/** A copy of the model directory; its weights and adapters are the real ones, by link. */
function copyOfModel({ copyWeights = false } = {}): string {
  const dir = mkdtempSync(join(tmpdir(), 'segue-spec-'));
  scratch.push(dir);
  for (const name of AUTHORED) cpSync(join(MODEL_DIR, name), join(dir, name));
  for (const folder of ['weights', 'adapters']) {
    if (copyWeights) cpSync(join(MODEL_DIR, folder), join(dir, folder), { recursive: true });
    else symlinkSync(join(MODEL_DIR, folder), join(dir, folder));
  }
  return dir;
}

function edit(dir: string, name: string, change: (text: string) => string): void {
  const text = readFileSync(join(dir, name), 'utf8');
  const changed = change(text);
  assert.notEqual(changed, text, `the edit of ${name} changes something`);
  writeFileSync(join(dir, name), changed);
}

/** The fault of loading a model whose one file was edited; with the line of the text that the edit put in. */
function faultOf(name: string, change: (text: string) => string, marker?: string): SpecFault {
  const dir = copyOfModel();
  edit(dir, name, change);
  try {
    loadModelSpec(dir, { verifyChecksums: false });
  } catch (error) {
    assert.ok(error instanceof SpecError, String(error));
    if (marker !== undefined) {
      const line = readFileSync(join(dir, name), 'utf8').split('\n').findIndex((text) => text.includes(marker)) + 1;
      assert.equal(error.fault.line, line, `line of "${marker}" in: ${error.message}`);
    }
    return error.fault;
  }
  return assert.fail('the model loaded');
}

test('the shipped model loads, frozen and complete', () => {
  const spec = loadModelSpec(MODEL_DIR);
  assert.equal(spec.modelId, 'drive');
  assert.deepEqual(Object.keys(spec.loops).sort(), ['ar_decode', 'audio', 'encoder_chunk', 'logprob_recompute', 'start_bank', 'vae_tile_decode', 'vae_tile_encode', 'video_continuation']);
  assert.equal(spec.loops['video_continuation']!.cfg?.kind, 'embedded');
  assert.throws(() => Object.assign(spec.components['vae_decode']!, { precision: 'int8' }), TypeError);
  assert.equal(structuredClone(spec).modelId, 'drive');
  assert.ok(spec.checkpoint.weightsVersion.startsWith('drive-'));
});

test('a missing file is named', () => {
  const dir = copyOfModel();
  rmSync(join(dir, 'loops.yaml'));
  assert.throws(() => loadModelSpec(dir), (error: SpecError) => error.fault.file === 'loops.yaml' && error.fault.line === null && error.fault.actual === 'ENOENT');
});

test('text that is not YAML is named with its line', () => {
  const fault = faultOf('parallel.yaml', (text) => `${text}\n  broken: [1, 2\n`);
  assert.equal(fault.file, 'parallel.yaml');
  assert.ok(fault.line! > 5);
});

test('an unknown key, a missing key and a wrong type are named with key and line', () => {
  const unknown = faultOf('deployment.yaml', (text) => `${text}colour: blue\n`, 'colour');
  assert.deepEqual([unknown.key, unknown.problem, unknown.actual], ['colour', 'unknown key', 'colour']);
  const missing = faultOf('deployment.yaml', (text) => text.replace(/devices: .*\n/, ''));
  assert.deepEqual([missing.key, missing.problem], ['devices', 'missing key']);
  const wrong = faultOf('deployment.yaml', (text) => text.replace(/devices: .*/, 'devices: many'), 'devices: many');
  assert.deepEqual([wrong.key, wrong.actual], ['devices', 'many']);
});

test('an action that no step takes, and a neutral value that is not one of its values, are named', () => {
  const unknown = faultOf('model.yaml', (text) => text.replace('  speed: { values', '  brake: { values'), 'brake');
  assert.deepEqual([unknown.key, unknown.actual], ['actions.brake', 'nothing']);
  const neutral = faultOf('model.yaml', (text) => text.replace('neutral: 2', 'neutral: 9'), 'neutral: 9');
  assert.deepEqual([neutral.key, neutral.expected, neutral.actual], ['actions.speed.neutral', [0, 1, 2, 3], 9]);
});

test('a reduced number of steps that is not fewer is named with both operands', () => {
  const fault = faultOf('loops.yaml', (text) => text.replace('reducedSteps: 1', 'reducedSteps: 2'), 'reducedSteps: 2');
  assert.deepEqual([fault.key, fault.problem, fault.expected, fault.actual], ['loops.video_continuation.denoise.reducedSteps', 'fewer than denoise.steps', '< 2', 2]);
});

const REFERENCES: readonly { readonly what: string; readonly file: string; readonly from: RegExp | string; readonly to: string; readonly key: string; readonly actual: string; readonly marker?: string }[] = [
  { what: 'component of a loop', file: 'loops.yaml', from: 'components: [director_prefill, director_step]', to: 'components: [poet_lm, director_step]', key: 'loops.ar_decode.components.0', actual: 'poet_lm', marker: 'poet_lm' },
  { what: 'cache of a loop', file: 'loops.yaml', from: 'publishes: [video_attention]', to: 'publishes: [moon]', key: 'loops.video_continuation.cache.publishes.0', actual: 'moon', marker: 'moon' },
  { what: 'parallel plan of a loop', file: 'loops.yaml', from: 'parallelPlans: [single, replicated]', to: 'parallelPlans: [ring]', key: 'loops.encoder_chunk.parallelPlans.0', actual: 'ring', marker: 'ring' },
  { what: 'loop of a capability', file: 'model.yaml', from: 'reasoning_text: [ar_decode]', to: 'reasoning_text: [think]', key: 'capabilities.reasoning_text.0', actual: 'think', marker: 'think' },
  { what: 'producer of a cache', file: 'model.yaml', from: 'producers: [encoder_chunk]', to: 'producers: [nobody]', key: 'caches.text_encoder_output.producers.0', actual: 'nobody', marker: 'nobody' },
  { what: 'component of a processor', file: 'model.yaml', from: 'director: director_prefill', to: 'director: poet_lm', key: 'processors.prompt.director', actual: 'poet_lm', marker: 'poet_lm' },
  { what: 'manifest entry of a component', file: 'model.yaml', from: 'loadId: vae_decode', to: 'loadId: vae_code', key: 'components.vae_decode.loadId', actual: 'vae_code', marker: 'vae_code' },
  { what: 'loop of a program', file: 'programs.yaml', from: 'sound: audio', to: 'sound: music', key: 'programs.drive.loops.sound', actual: 'music', marker: 'music' },
  { what: 'capability of a program', file: 'programs.yaml', from: 'requires: [text_to_video', to: 'requires: [teleport, text_to_video', key: 'programs.drive.requires.0', actual: 'teleport', marker: 'teleport' },
  { what: 'processor of a program', file: 'programs.yaml', from: 'prompt: prompt', to: 'prompt: speech', key: 'programs.drive.processors.prompt', actual: 'speech', marker: 'speech' },
  { what: 'program of the deployment', file: 'deployment.yaml', from: 'programs: [drive,', to: 'programs: [fly,', key: 'programs.0', actual: 'fly', marker: 'fly' },
  { what: 'variant of the deployment', file: 'deployment.yaml', from: 'variant: drive-fp32', to: 'variant: drive-fp8', key: 'variant', actual: 'drive-fp8', marker: 'drive-fp8' },
  { what: 'plan of the deployment', file: 'deployment.yaml', from: 'parallelPlan: replicated', to: 'parallelPlan: ring', key: 'parallelPlan', actual: 'ring', marker: 'ring' },
];
for (const { what, file, from, to, key, actual, marker } of REFERENCES) {
  test(`an unknown ${what} is named with file, line, key and both operands`, () => {
    const fault = faultOf(file, (text) => text.replace(from, to), marker);
    assert.equal(fault.file, file);
    assert.equal(fault.key, key);
    assert.equal(fault.actual, actual);
    assert.ok(Array.isArray(fault.expected) && !fault.expected.includes(actual), 'the choices are listed');
  });
}

test('a shape or type that differs from the manifest shows both', () => {
  const shape = faultOf('model.yaml', (text) => text.replace('frame: { dtype: float32, shape: [batch, 2] }', 'frame: { dtype: float32, shape: [batch, 3] }'), '[batch, 3]');
  assert.deepEqual([shape.key, shape.expected, shape.actual], ['components.vae_decode.inputs.frame', 'float32[batch,2]', 'float32[batch,3]']);
  const dtype = faultOf('model.yaml', (text) => text.replace('pcm: { dtype: int16', 'pcm: { dtype: float32'), 'pcm:');
  assert.deepEqual([dtype.expected, dtype.actual], ['int16[batch,2000]', 'float32[batch,2000]']);
  const missing = faultOf('model.yaml', (text) => text.replace(/ {6}tail_next: .*\n/, ''));
  assert.equal(missing.key, 'components.audio_synth.outputs.tail_next');
});

test('numbers that must agree across files do', () => {
  const window = faultOf('loops.yaml', (text) => text.replace('windowChunks: 7', 'windowChunks: 8'), 'windowChunks');
  assert.deepEqual([window.expected, window.actual], [7, 8]);
  const rotary = faultOf('loops.yaml', (text) => text.replace('count: 12', 'count: 10'), 'count: 10');
  assert.deepEqual([rotary.expected, rotary.actual], [12, 10]);
  const initial = faultOf('loops.yaml', (text) => text.replace('phase: [0]', 'phase: [0, 0]'), 'phase');
  assert.deepEqual([initial.expected, initial.actual], [1, 2]);
  const devices = faultOf('deployment.yaml', (text) => text.replace('parallelPlan: replicated', 'parallelPlan: single').replace('devices: 1', 'devices: 2'), 'devices: 2');
  assert.deepEqual([devices.expected, devices.actual], ['1 to 1', 2]);
});

test('a manifest of another model, a file without checksum and a failed parity check are refused', () => {
  assert.equal(faultOf('manifest.json', (text) => text.replace('"model": "drive"', '"model": "boat"'), '"boat"').actual, 'boat');
  const uncovered = faultOf('manifest.json', (text) => text.replace('"file": "weights/vae_decode.onnx"', '"file": "weights/vae.onnx"'), 'weights/vae.onnx');
  assert.deepEqual([uncovered.key, uncovered.actual], ['components.vae_decode.file', 'weights/vae.onnx']);
  const parity = faultOf('report.json', (text) => text.replace('"passed": true', '"passed": false'));
  assert.equal(parity.key, 'parity.0');
});

test('a weights file that is missing, cut short or altered is named with what was expected', () => {
  const missing = copyOfModel({ copyWeights: true });
  rmSync(join(missing, 'weights/vae_decode.onnx'));
  assert.throws(() => loadModelSpec(missing), (error: SpecError) => error.fault.key === 'files.weights/vae_decode.onnx' && /missing/.test(error.message));
  const cut = copyOfModel({ copyWeights: true });
  writeFileSync(join(cut, 'weights/vae_decode.onnx'), readFileSync(join(cut, 'weights/vae_decode.onnx')).subarray(0, 1000));
  assert.throws(() => loadModelSpec(cut), (error: SpecError) => error.fault.actual === 1000 && error.fault.key.endsWith('bytes'));
  const altered = readFileSync(join(cut, 'weights/denoise_step.onnx'));
  writeFileSync(join(cut, 'weights/vae_decode.onnx'), readFileSync(join(MODEL_DIR, 'weights/vae_decode.onnx')));
  altered[altered.length >> 1]! ^= 1;
  writeFileSync(join(cut, 'weights/denoise_step.onnx'), altered);
  assert.throws(() => loadModelSpec(cut), (error: SpecError) => {
    assert.equal(error.fault.file, 'manifest.json');
    assert.equal(error.fault.key, 'files.weights/denoise_step.onnx.sha256');
    assert.match(String(error.fault.expected), /^[0-9a-f]{64}$/);
    assert.match(String(error.fault.actual), /^[0-9a-f]{64}$/);
    return true;
  });
});

test('one altered bit of the shared weights is found, and the file named', () => {
  const dir = copyOfModel({ copyWeights: true });
  const path = join(dir, 'weights/drive.weights');
  const content = readFileSync(path);
  content[content.length >> 1]! ^= 1;
  writeFileSync(path, content);
  assert.throws(() => loadModelSpec(dir), (error: SpecError) => error.fault.key === 'files.weights/drive.weights.sha256' && /checksum of weights\/drive\.weights/.test(error.message));
});

test('the message reads file:line: key: problem: expected, got', () => {
  const dir = copyOfModel();
  edit(dir, 'programs.yaml', (text) => text.replace('sound: audio', 'sound: music'));
  assert.throws(() => loadModelSpec(dir), /^SpecError: programs\.yaml:\d+: programs\.drive\.loops\.sound: unknown loop: expected \[.*"audio".*\], got music$/);
});
