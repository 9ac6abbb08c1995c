import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { loadModelSpec } from '../../../../src/engine/model/spec/load_model_spec.ts';
import { SpecError } from '../../../../src/engine/model/spec/spec_error.ts';
import { MODEL_DIR } from '../ExecutorBench.ts';
import { metadataOf, modelWith, safetensorsFile, seededTensors, type TestTensor } from './adapter_files.ts';

const scratch: string[] = [];
after(() => scratch.forEach((dir) => rmSync(dir, { recursive: true })));

function model(...args: Parameters<typeof modelWith>): string {
  const dir = modelWith(...args);
  scratch.push(dir);
  return dir;
}

function faultOf(dir: string, verifyChecksums = false): SpecError['fault'] {
  try {
    loadModelSpec(dir, { verifyChecksums });
  } catch (error) {
    assert.ok(error instanceof SpecError, String(error));
    return error.fault;
  }
  return assert.fail('the model loaded');
}

/** The fault of loading a model whose adapter `noir` was altered. */
function faultOfFile(tensors: Record<string, TestTensor>, metadata: Record<string, string> = metadataOf('noir', 2)): SpecError['fault'] {
  const fault = faultOf(model({ noir: safetensorsFile(tensors, metadata) }));
  assert.equal(fault.file, 'adapters/noir.safetensors');
  return fault;
}

const ATTENTION = 'picture_experts.3.attention_output';
const FEEDFORWARD = 'picture_experts.3.feedforward_out';

test('an adapter is packed as the graphs take it: transposed, alpha over rank in the second factor, zeros where nothing is', () => {
  const tensors = seededTensors(1, 2, [3]);
  const { adapters, checkpoint } = loadModelSpec(model({ noir: safetensorsFile(tensors, metadataOf('noir', 2, 4)) }), { verifyChecksums: false });
  const { noir } = adapters;
  assert.ok(noir);
  assert.deepEqual([noir.id, noir.title, noir.rank, noir.version], ['noir', 'NOIR', 2, checkpoint.files['adapters/noir.safetensors']!.sha256]);
  const down = new Float32Array(noir.tensors.feedforward_down);
  const up = new Float32Array(noir.tensors.feedforward_up);
  assert.deepEqual([down.length, up.length], [6 * 576 * 8, 6 * 8 * 192]);
  const a = tensors[`${FEEDFORWARD}.lora_A`]!.values;
  const b = tensors[`${FEEDFORWARD}.lora_B`]!.values;
  for (let layer = 0; layer < 6; layer++) {
    for (let k = 0; k < 8; k++) {
      const there = layer === 3 && k < 2;
      for (const column of [0, 17, 575]) assert.equal(down[(layer * 576 + column) * 8 + k], there ? Math.fround(a[k * 576 + column]!) : 0);
      for (const row of [0, 17, 191]) assert.equal(up[(layer * 8 + k) * 192 + row], there ? Math.fround(Math.fround(b[row * 2 + k]!) * 2) : 0);
    }
  }
});

test('an adapter is no part of the weights: their version stays, whatever adapters there are', () => {
  const plain = loadModelSpec(MODEL_DIR, { verifyChecksums: false }).checkpoint.weightsVersion;
  const styled = loadModelSpec(model({ noir: safetensorsFile(seededTensors(1, 2), metadataOf('noir', 2)) }), { verifyChecksums: false });
  assert.equal(styled.checkpoint.weightsVersion, plain);
});

test('a key that names nothing is a fault that names it', () => {
  const fault = faultOfFile({ ...seededTensors(1, 2), 'picture_experts.6.attention_output.lora_A': { shape: [2, 192], values: Array<number>(384).fill(0) } });
  assert.equal(fault.key, 'picture_experts.6.attention_output.lora_A');
  assert.match(fault.problem, /matches nothing/);
  assert.match(faultOfFile({ [`${ATTENTION}.weight`]: { shape: [1], values: [1] } }).key, /weight$/);
});

test('a file that matches no layer at all is a fault', () => {
  assert.match(faultOfFile({}).problem, /no layer of the model is matched/);
});

test('a wrong shape names key and both shapes; so does a rank that the metadata denies', () => {
  const wrong = faultOfFile({ ...seededTensors(1, 2), [`${ATTENTION}.lora_A`]: { shape: [2, 191], values: Array<number>(382).fill(0) } });
  assert.deepEqual([wrong.key, wrong.expected, wrong.actual], [`${ATTENTION}.lora_A`, [2, 192], [2, 191]]);
  const rank = faultOfFile(seededTensors(1, 3));
  assert.deepEqual([rank.expected, rank.actual], [[2, 192], [3, 192]]);
});

test('a factor without the other, numbers that are none, and an adapter that changes nothing are faults', () => {
  const { [`${ATTENTION}.lora_B`]: _, ...lone } = seededTensors(1, 2);
  assert.equal(faultOfFile(lone).key, `${ATTENTION}.lora_B`);
  const broken = faultOfFile({ ...seededTensors(1, 2), [`${ATTENTION}.lora_B`]: { shape: [192, 2], values: Array<number>(384).fill(Number.NaN) } });
  assert.deepEqual([broken.key, broken.problem], [`${ATTENTION}.lora_B`, 'values']);
  const zero = Object.fromEntries(Object.entries(seededTensors(1, 2)).map(([key, { shape, values }]) => [key, { shape, values: key.endsWith('B') ? Array<number>(values.length).fill(0) : values }]));
  assert.match(faultOfFile(zero).problem, /changes nothing/);
});

test('another base, another id, a rank out of range and a missing alpha are faults of the metadata', () => {
  const of = (change: Record<string, string>) => faultOfFile(seededTensors(1, 2), { ...metadataOf('noir', 2), ...change }).key;
  assert.equal(of({ base: 'f'.repeat(64) }), '__metadata__.base');
  assert.equal(of({ id: 'glow' }), '__metadata__.id');
  assert.equal(of({ rank: '9' }), '__metadata__.rank');
  assert.equal(of({ alpha: '' }), '__metadata__.alpha');
});

test('a file that was altered is refused by its checksum, one without checksum by the manifest', () => {
  const dir = model({ noir: safetensorsFile(seededTensors(1, 2), metadataOf('noir', 2)) });
  writeFileSync(join(dir, 'adapters/noir.safetensors'), safetensorsFile(seededTensors(2, 2), metadataOf('noir', 2)));
  const altered = faultOf(dir, true);
  assert.equal(altered.key, 'files.adapters/noir.safetensors.sha256');
  const unlisted = faultOf(model({ noir: safetensorsFile(seededTensors(1, 2), metadataOf('noir', 2)) }, ({ manifest }) => delete (manifest['files'] as Record<string, unknown>)['adapters/noir.safetensors']));
  assert.deepEqual([unlisted.file, unlisted.key], ['model.yaml', 'adapters.noir.file']);
});

test('what adapters are for is checked across files: compatibility, graphs and their inputs', () => {
  const noir = { noir: safetensorsFile(seededTensors(1, 2), metadataOf('noir', 2)) };
  assert.equal(faultOf(model(noir, ({ manifest }) => delete manifest['adapter_compatibility'])).key, 'adapter_compatibility');
  assert.equal(
    faultOf(model(noir, ({ manifest }) => ((manifest['adapter_compatibility'] as { targets: Record<string, unknown> }).targets['picture_experts.0.attention_output'] = [192, 190]))).key,
    'adapter_compatibility.targets.picture_experts.0.attention_output',
  );
  const lacking = faultOf(
    model(noir, ({ model: { components }, manifest }) => {
      delete (components as Record<string, { inputs: Record<string, unknown> }>)['clean_write_adapted']!.inputs['adapter_scale'];
      const converted = (manifest['components'] as Record<string, { inputs: { name: string }[] }>)['clean_write_adapted']!;
      converted.inputs = converted.inputs.filter(({ name }) => name !== 'adapter_scale');
    }),
  );
  assert.equal(lacking.key, 'components.clean_write_adapted.inputs.adapter_scale');
});
