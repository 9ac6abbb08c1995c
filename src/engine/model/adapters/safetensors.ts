import { SpecError } from '../spec/spec_error.ts';

/** One tensor of a safetensors file. */
export interface SafeTensor {
  readonly dtype: string;
  readonly shape: readonly number[];
  /** Little-endian elements, row by row; a copy, aligned for every element type. */
  readonly data: ArrayBuffer;
}

export interface SafetensorsFile {
  readonly metadata: Readonly<Record<string, string>>;
  readonly tensors: ReadonlyMap<string, SafeTensor>;
}

/** Bytes of an element; types that the format knows and this table doesn't are refused by name. */
const ELEMENT_BYTES: Readonly<Record<string, number>> = { F64: 8, F32: 4, F16: 2, BF16: 2, I64: 8, I32: 4, I16: 2, I8: 1, U8: 1, BOOL: 1 };
/** As the format's own reader bounds it: a length beyond is a damaged file, not a large header. */
const MAX_HEADER_BYTES = 100_000_000;
const LENGTH_BYTES = 8;

/**
 * Reads a safetensors file: 8 bytes with the length of the header (little-endian), the header (JSON: type, shape and byte range of each
 * tensor by name, and `__metadata__`), the bytes. Ranges must lie one after another over all of them, as the format demands, so
 * nothing can hide between tensors.
 *
 * @param name of the file, for faults.
 * @throws {SpecError} naming file and tensor, for a file that is not one.
 */
export function readSafetensors(name: string, bytes: Uint8Array): SafetensorsFile {
  const fault = (key: string, problem: string, expected: unknown, actual: unknown): SpecError => new SpecError({ file: name, line: null, key, problem, expected, actual });
  if (bytes.byteLength < LENGTH_BYTES) throw fault('', 'file is too short for a header length', `≥ ${LENGTH_BYTES} bytes`, bytes.byteLength);
  const length = new DataView(bytes.buffer, bytes.byteOffset, LENGTH_BYTES).getBigUint64(0, true);
  const room = Math.min(MAX_HEADER_BYTES, bytes.byteLength - LENGTH_BYTES);
  if (length > BigInt(room)) throw fault('', 'header is longer than the file', `≤ ${room} bytes`, String(length));
  const dataFrom = LENGTH_BYTES + Number(length);
  const header = headerOf(bytes.subarray(LENGTH_BYTES, dataFrom), fault);
  const data = bytes.subarray(dataFrom);
  const { __metadata__: metadata = {}, ...entries } = header;
  if (!isRecord(metadata)) throw fault('__metadata__', 'metadata is not an object', 'texts by name', metadata);
  for (const [key, value] of Object.entries(metadata)) if (typeof value !== 'string') throw fault(`__metadata__.${key}`, 'metadata is not text', 'text', value);
  const tensors = new Map<string, SafeTensor>();
  const ranges: { readonly key: string; readonly begin: number; readonly end: number }[] = [];
  for (const [key, entry] of Object.entries(entries)) {
    if (!isRecord(entry)) throw fault(key, 'tensor is not an object', '{ dtype, shape, data_offsets }', entry);
    const { dtype, shape, data_offsets: offsets } = entry;
    const elementBytes = typeof dtype === 'string' && Object.hasOwn(ELEMENT_BYTES, dtype) ? ELEMENT_BYTES[dtype] : undefined;
    if (typeof dtype !== 'string' || elementBytes === undefined) throw fault(key, 'element type', Object.keys(ELEMENT_BYTES), dtype);
    if (!isCounts(shape)) throw fault(key, 'shape', 'whole numbers ≥ 0', shape);
    if (!isCounts(offsets) || offsets.length !== 2) throw fault(key, 'data_offsets', '[begin, end]', offsets);
    const [begin, end] = offsets as [number, number];
    if (begin > end || end > data.byteLength) throw fault(key, 'tensor lies outside of the file', `within 0 to ${data.byteLength}`, offsets);
    const size = shape.reduce((product, axis) => product * axis, elementBytes);
    if (end - begin !== size) throw fault(key, `bytes of ${dtype} [${shape.join(', ')}]`, size, end - begin);
    ranges.push({ key, begin, end });
    // Not `slice`: a Buffer's would be a view of the whole file.
    tensors.set(key, { dtype, shape, data: new Uint8Array(data.subarray(begin, end)).buffer });
  }
  ranges.sort((a, b) => a.begin - b.begin || a.end - b.end);
  let covered = 0;
  for (const { key, begin, end } of ranges) {
    if (begin !== covered) throw fault(key, begin < covered ? 'tensor overlaps another' : 'bytes that belong to no tensor lie before it', covered, begin);
    covered = end;
  }
  if (covered !== data.byteLength) throw fault('', 'bytes that belong to no tensor lie at the end', covered, data.byteLength);
  return { metadata: metadata as Record<string, string>, tensors };
}

function headerOf(bytes: Uint8Array, fault: (key: string, problem: string, expected: unknown, actual: unknown) => SpecError): Record<string, unknown> {
  let header: unknown;
  try {
    header = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(bytes));
  } catch (error) {
    throw fault('', 'header is not well-formed', 'JSON', error instanceof Error ? error.message : error);
  }
  if (!isRecord(header)) throw fault('', 'header is not an object', 'tensors by name', header);
  return header;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isCounts(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((axis) => Number.isSafeInteger(axis) && axis >= 0);
}
