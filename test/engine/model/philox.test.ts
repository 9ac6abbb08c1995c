import { test } from 'node:test';
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { fillNormal, fillUniform, philox4x32 } from '../../../src/engine/model/philox.ts';

const word = fc.integer({ min: 0, max: 0x7fffffff });
const counters = fc.record({ seed: word, lineage: word, chunk: word, step: fc.integer({ min: 0, max: 64 }), stream: fc.integer({ min: 0, max: 64 }) });

// kat_vectors of the authors' Random123 distribution.
const KNOWN = [
  { counter: [0, 0, 0, 0], key: [0, 0], words: [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8] },
  { counter: [0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff], key: [0xffffffff, 0xffffffff], words: [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd] },
  { counter: [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344], key: [0xa4093822, 0x299f31d0], words: [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1] },
] as const;

test('philox4x32-10 gives the published known answers', () => {
  const out = new Uint32Array(4);
  for (const { counter, key, words } of KNOWN) {
    philox4x32(counter, key, out);
    assert.deepEqual([...out], [...words]);
  }
});

test('the same counter gives the same bits, whatever was drawn before and however many are drawn', () => {
  fc.assert(
    fc.property(counters, fc.integer({ min: 1, max: 300 }), fc.integer({ min: 1, max: 300 }), (counter, first, second) => {
      const a = new Float32Array(first);
      const b = new Float32Array(second);
      fillNormal(counter, a);
      fillUniform(counter, new Float32Array(7));
      fillNormal(counter, b);
      const shared = Math.min(first, second);
      assert.deepEqual(a.subarray(0, shared), b.subarray(0, shared));
    }),
  );
});

test('every field of the counter changes the draw', () => {
  fc.assert(
    fc.property(counters, fc.constantFrom('seed', 'lineage', 'chunk', 'step', 'stream'), (counter, field) => {
      const a = new Float32Array(16);
      const b = new Float32Array(16);
      fillNormal(counter, a);
      fillNormal({ ...counter, [field]: counter[field as keyof typeof counter] + 1 }, b);
      assert.notDeepEqual(a, b);
    }),
  );
});

test('normal samples have the moments of a standard normal and are finite', () => {
  fc.assert(
    fc.property(counters, (counter) => {
      const count = 1 << 14;
      const samples = new Float32Array(count);
      fillNormal(counter, samples);
      const moments = [0, 0, 0, 0];
      for (const sample of samples) for (let power = 1; power <= 4; power++) moments[power - 1]! += sample ** power / count;
      // Six standard errors: sqrt(1, 2, 15, 96) / sqrt(n).
      const [mean, square, cube, fourth] = moments as [number, number, number, number];
      const bound = 6 / Math.sqrt(count);
      assert.ok(samples.every(Number.isFinite));
      assert.ok(Math.abs(mean) < bound, `mean ${mean}`);
      assert.ok(Math.abs(square - 1) < bound * Math.SQRT2, `variance ${square}`);
      assert.ok(Math.abs(cube) < bound * Math.sqrt(15), `skew ${cube}`);
      assert.ok(Math.abs(fourth - 3) < bound * Math.sqrt(96), `kurtosis ${fourth}`);
    }),
    { numRuns: 40 },
  );
});

test('uniform samples lie in [0, 1) with the moments of a uniform', () => {
  const samples = new Float32Array(1 << 16);
  fillUniform({ seed: 5, lineage: 0, chunk: 3, step: 1, stream: 2 }, samples);
  let mean = 0;
  for (const sample of samples) {
    assert.ok(sample >= 0 && sample < 1);
    mean += sample / samples.length;
  }
  assert.ok(Math.abs(mean - 0.5) < 6 * Math.sqrt(1 / 12 / samples.length));
});

test('neighbouring streams are uncorrelated', () => {
  const a = new Float32Array(1 << 14);
  const b = new Float32Array(1 << 14);
  fillNormal({ seed: 1, lineage: 0, chunk: 0, step: 0, stream: 0 }, a);
  fillNormal({ seed: 1, lineage: 0, chunk: 0, step: 0, stream: 1 }, b);
  let product = 0;
  for (let index = 0; index < a.length; index++) product += (a[index]! * b[index]!) / a.length;
  assert.ok(Math.abs(product) < 6 / Math.sqrt(a.length), `correlation ${product}`);
});
