import { test } from 'node:test';
import assert from 'node:assert/strict';
import { CompileCache, CompileError } from '../../../src/engine/compile/CompileCache.ts';
import { graphPath, loadModelSpec } from '../../../src/engine/model/spec/load_model_spec.ts';
import { MODEL_DIR } from '../model/ExecutorBench.ts';

const spec = loadModelSpec(MODEL_DIR, { verifyChecksums: false });
const component = spec.components['start_bank']!;
const path = graphPath(spec, 'start_bank');

test('a component is compiled once per key; every field of the key counts', async () => {
  const cache = new CompileCache({ modelId: 'drive', provider: 'cpu', intraOpThreads: 1 });
  const session = await cache.compile('start_bank', component, path);
  assert.equal(await cache.compile('start_bank', component, path), session);
  assert.equal(cache.get('start_bank', component), session);
  assert.equal(cache.get('start_bank', { ...component, precision: 'fp16' }), undefined);
  assert.equal(cache.get('start_bank', { ...component, inputs: { index: { dtype: 'int64', shape: ['batch', 2] } } }), undefined);
  assert.notDeepEqual(new CompileCache({ modelId: 'drive', provider: 'cpu', intraOpThreads: 2 }).keyOf('start_bank', component), cache.keyOf('start_bank', component));
  assert.equal(cache.size, 1);
  await cache.clear();
  assert.equal(cache.size, 0);
  assert.equal(cache.get('start_bank', component), undefined);
  assert.notEqual(await cache.compile('start_bank', component, path), session);
  await cache.clear();
});

test('a missing graph and a graph of another shape name the component', async () => {
  const cache = new CompileCache({ modelId: 'drive', provider: 'cpu', intraOpThreads: 1 });
  await assert.rejects(cache.compile('start_bank', component, `${path}.gone`), (error: unknown) => error instanceof CompileError && error.componentId === 'start_bank');
  const wrong = { ...component, outputs: { x: { ...component.outputs['x']!, shape: ['batch', 32, 64] as ('batch' | number)[] } } };
  await assert.rejects(cache.compile('start_bank', wrong, path), /output x of the graph: expected float32\[batch,32,64\], got float32\[batch,32,128\]/);
  assert.equal(cache.size, 0);
});
