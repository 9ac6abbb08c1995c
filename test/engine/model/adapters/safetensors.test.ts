import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { readSafetensors } from '../../../../src/engine/model/adapters/safetensors.ts';
import { SpecError } from '../../../../src/engine/model/spec/spec_error.ts';
import { framed, safetensorsFile } from './adapter_files.ts';

const entry = (change: Record<string, unknown> = {}) => ({ dtype: 'F32', shape: [2], data_offsets: [0, 8], ...change });
const file = (header: unknown, bytes = 8): Buffer => framed(typeof header === 'string' ? header : JSON.stringify(header), Buffer.alloc(bytes));

function faultOf(bytes: Uint8Array): SpecError['fault'] {
  try {
    readSafetensors('a.safetensors', bytes);
  } catch (error) {
    assert.ok(error instanceof SpecError, String(error));
    assert.equal(error.fault.file, 'a.safetensors');
    return error.fault;
  }
  return assert.fail('it was read');
}

test('tensors and metadata come back as they were written, wherever the bytes lie in their buffer', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string({ minLength: 1 }).filter((key) => key !== '__metadata__' && key !== '__proto__'), fc.array(fc.float({ noNaN: true }), { maxLength: 6 })), fc.dictionary(fc.string().filter((key) => key !== '__proto__'), fc.string()), fc.nat(7), (values, metadata, shift) => {
      const written = safetensorsFile(Object.fromEntries(Object.entries(values).map(([key, numbers]) => [key, { shape: [numbers.length], values: numbers }])), metadata);
      const shifted = Buffer.concat([Buffer.alloc(shift), written]).subarray(shift);
      const { tensors, metadata: read } = readSafetensors('a', shifted);
      assert.deepEqual({ ...read }, { ...metadata });
      assert.deepEqual(new Map([...tensors].map(([key, { data }]) => [key, [...new Float32Array(data)]])), new Map(Object.entries(values).map(([key, numbers]) => [key, [...Float32Array.from(numbers)]])));
    }),
  );
});

const MALFORMED: readonly { readonly what: string; readonly bytes: Uint8Array; readonly key: string; readonly problem: RegExp }[] = [
  { what: 'nothing at all', bytes: Buffer.alloc(0), key: '', problem: /too short/ },
  { what: 'a header longer than the file', bytes: Buffer.from([255, 255, 255, 255, 255, 255, 255, 255, 123, 125]), key: '', problem: /longer than the file/ },
  { what: 'a header that is not JSON', bytes: file('{"a": '), key: '', problem: /not well-formed/ },
  { what: 'a header that is not UTF-8', bytes: Buffer.concat([Buffer.from([2, 0, 0, 0, 0, 0, 0, 0]), Buffer.from([0xc3, 0x28])]), key: '', problem: /not well-formed/ },
  { what: 'a header that is a list', bytes: file('[]', 0), key: '', problem: /not an object/ },
  { what: 'metadata that is a number', bytes: file({ __metadata__: { rank: 8 }, t: entry() }), key: '__metadata__.rank', problem: /not text/ },
  { what: 'a tensor that is a number', bytes: file({ t: 1 }), key: 't', problem: /not an object/ },
  { what: 'an unknown element type', bytes: file({ t: entry({ dtype: 'F8' }) }), key: 't', problem: /element type/ },
  { what: 'a type named like a method', bytes: file({ t: entry({ dtype: 'toString' }) }), key: 't', problem: /element type/ },
  { what: 'a negative axis', bytes: file({ t: entry({ shape: [-2] }) }), key: 't', problem: /shape/ },
  { what: 'offsets that are not two', bytes: file({ t: entry({ data_offsets: [0] }) }), key: 't', problem: /data_offsets/ },
  { what: 'offsets beyond the file', bytes: file({ t: entry({ data_offsets: [8, 16] }) }), key: 't', problem: /outside/ },
  { what: 'offsets in reverse', bytes: file({ t: entry({ data_offsets: [8, 0] }) }), key: 't', problem: /outside/ },
  { what: 'fewer bytes than the shape', bytes: file({ t: entry({ shape: [3] }) }), key: 't', problem: /bytes of F32 \[3\]/ },
  { what: 'an overlap', bytes: file({ t: entry(), u: entry({ shape: [1], data_offsets: [4, 8] }) }), key: 'u', problem: /overlaps/ },
  { what: 'a gap', bytes: file({ t: entry({ shape: [1], data_offsets: [4, 8] }) }), key: 't', problem: /no tensor lie before/ },
  { what: 'bytes at the end', bytes: file({ t: entry() }, 12), key: '', problem: /at the end/ },
];
for (const { what, bytes, key, problem } of MALFORMED) {
  test(`${what} is a fault that names file and key`, () => {
    const fault = faultOf(bytes);
    assert.equal(fault.key, key);
    assert.match(fault.problem, problem);
  });
}

test('whatever is cut off or altered, a file is read or is a fault, and never anything else', () => {
  const whole = safetensorsFile({ a: { shape: [2, 3], values: [1, 2, 3, 4, 5, 6] }, b: { shape: [1], values: [7] } }, { rank: '8' });
  fc.assert(
    fc.property(fc.nat(whole.length), fc.array(fc.record({ at: fc.nat(whole.length - 1), to: fc.nat(255) }), { maxLength: 4 }), (length, changes) => {
      const bytes = Buffer.from(whole);
      for (const { at, to } of changes) bytes[at] = to;
      try {
        readSafetensors('a', bytes.subarray(0, length));
      } catch (error) {
        assert.ok(error instanceof SpecError, String(error));
      }
    }),
    { numRuns: 2000 },
  );
});
