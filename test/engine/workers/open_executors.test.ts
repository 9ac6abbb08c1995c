import { createHash } from 'node:crypto';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import assert from 'node:assert/strict';
import { SpecError } from '../../../src/engine/model/spec/spec_error.ts';
import { openExecutors } from '../../../src/engine/workers/open_executors.ts';
import { MODEL_DIR } from '../model/ExecutorBench.ts';

function copyOfModel(t: TestContext): string {
  const dir = mkdtempSync(join(tmpdir(), 'segue-model-'));
  t.after(() => rmSync(dir, { recursive: true }));
  cpSync(MODEL_DIR, dir, { recursive: true });
  return dir;
}

/** Replaces a weights file and its checksum: what only the runtime can find out. */
function replaceGraph(dir: string, name: string, bytes: Buffer): void {
  writeFileSync(join(dir, name), bytes);
  const manifest = JSON.parse(readFileSync(join(dir, 'manifest.json'), 'utf8')) as { files: Record<string, { sha256: string; bytes: number }> };
  manifest.files[name] = { sha256: createHash('sha256').update(bytes).digest('hex'), bytes: bytes.length };
  writeFileSync(join(dir, 'manifest.json'), JSON.stringify(manifest));
}

test('one executor per declared device share, of the same weights', async (t) => {
  const dir = copyOfModel(t);
  const deployment = join(dir, 'deployment.yaml');
  writeFileSync(deployment, readFileSync(deployment, 'utf8').replace('devices: 1', 'devices: 2'));
  const { workers, model } = await openExecutors(dir, { calibrationRuns: 0, spare: false });
  assert.deepEqual(workers.map(({ id }) => id), ['executor-0', 'executor-1']);
  for (const worker of workers) assert.equal(worker.health().state, 'ready');
  assert.match(model.weightsVersion, /^drive-/);
  await Promise.all(workers.map((worker) => worker.close()));
});

test('a graph that the runtime cannot read is a SpecError naming file and component, and no thread is left', async (t) => {
  const dir = copyOfModel(t);
  replaceGraph(dir, 'weights/vae_decode.onnx', Buffer.from('not a graph'));
  await assert.rejects(openExecutors(dir, { calibrationRuns: 0, spare: false }), (error: unknown) => {
    assert.ok(error instanceof SpecError, String(error));
    assert.equal(error.fault.file, 'weights/vae_decode.onnx');
    assert.equal(error.fault.key, 'components.vae_decode');
    return true;
  });
});

test('a graph whose tensors are not those of the spec is a SpecError with both', async (t) => {
  const dir = copyOfModel(t);
  replaceGraph(dir, 'weights/start_bank.onnx', readFileSync(join(dir, 'weights/text_encoder.onnx')));
  await assert.rejects(openExecutors(dir, { calibrationRuns: 0, spare: false }), /start_bank: input index of the graph: expected int64\[batch,1\], got nothing/);
});
