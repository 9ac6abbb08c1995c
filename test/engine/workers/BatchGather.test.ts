import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ComponentSpec } from '../../../src/engine/model/spec/component_spec.ts';
import type { PlannedUnit, UnitInput } from '../../../src/engine/model/work.ts';
import { BatchGather } from '../../../src/engine/workers/BatchGather.ts';
import { BlockStore } from '../../../src/engine/workers/BlockStore.ts';
import { NoiseCache } from '../../../src/engine/workers/NoiseCache.ts';
import { residentBlock, type ResidentBlock } from '../../../src/engine/workers/resident_block.ts';

const COMPONENT = { inputs: { keys: { dtype: 'float32', shape: ['batch', 2, 2] }, ids: { dtype: 'int64', shape: ['batch', 1] } } } as unknown as ComponentSpec;

function gather(): BatchGather {
  const blocks = new BlockStore<ResidentBlock>();
  for (const [id, values] of [[1, [1, 2, 3, 4]], [2, [10, 20, 30, 40]], [3, [0, 0, 0, -10_000]]] as const) {
    const buffer = new SharedArrayBuffer(16);
    new Float32Array(buffer).set(values);
    blocks.put(residentBlock({ id, sessionId: 's', memory: 'kv', published: false, dtype: 'float32', dims: [1, 2, 2], buffer }));
  }
  return new BatchGather(blocks, new NoiseCache());
}

const unit = (keys: UnitInput, ids: UnitInput = { kind: 'ints', values: [5], shape: [1] }): PlannedUnit => ({ unitId: 1, plan: { inputs: { keys, ids } } }) as unknown as PlannedUnit;
const mix = (...parts: readonly (readonly [block: number, weight: number])[]): UnitInput => ({ kind: 'mix', parts: parts.map(([block, weight]) => ({ block, weight })) });
const keysOf = (units: readonly PlannedUnit[], rows = units.length): number[] => [...(gather().feeds('c', COMPONENT, units, rows)['keys']!.data as Float32Array)];

test('a mix is the weighted sum of its blocks, alone and beside others in a batch', () => {
  assert.deepEqual(keysOf([unit(mix([1, 0.5], [2, 0.5]))]), [5.5, 11, 16.5, 22]);
  assert.deepEqual(keysOf([unit(mix([1, 0.25], [2, 0.5], [3, 0.25]))]), [5.25, 10.5, 15.75, -2479]);
  assert.deepEqual(keysOf([unit({ kind: 'block', block: 1 }), unit(mix([1, 0.5], [2, 0.5]))], 4), [1, 2, 3, 4, ...Array<number[]>(3).fill([5.5, 11, 16.5, 22]).flat()]);
});

test('nothing is left in the buffer of what was mixed before, and the blocks stay as they are', () => {
  const gathered = gather();
  for (const round of [1, 2]) assert.deepEqual([...(gathered.feeds('c', COMPONENT, [unit(mix([1, 0.5], [2, 0.5]))], 1)['keys']!.data as Float32Array)], [5.5, 11, 16.5, 22], `round ${round}`);
  assert.deepEqual([...(gathered.feeds('c', COMPONENT, [unit({ kind: 'block', block: 1 })], 1)['keys']!.data as Float32Array)], [1, 2, 3, 4]);
});

test('a mix of what has no sum, or of a block that is not here, is refused', () => {
  assert.throws(() => keysOf([unit({ kind: 'block', block: 1 }, mix([1, 1]))]), /int64 have no weighted sum/);
  assert.throws(() => keysOf([unit(mix([1, 0.5], [9, 0.5]))]), /block 9 is not held/);
});
