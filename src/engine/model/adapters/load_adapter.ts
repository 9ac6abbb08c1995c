import { ADAPTER_MATRICES, adapterTarget, type Adapter, type AdapterCompatibility, type AdapterMatrix, type AdapterSpec, type AdapterTensorName, type AdapterTensors } from '../spec/adapter_spec.ts';
import type { ComponentSpec } from '../spec/component_spec.ts';
import { SpecError } from '../spec/spec_error.ts';
import { readSafetensors, type SafeTensor, type SafetensorsFile } from './safetensors.ts';

export interface AdapterSource {
  readonly id: string;
  readonly spec: AdapterSpec;
  /** Of the file, as the manifest has it. */
  readonly sha256: string;
  readonly compatibility: AdapterCompatibility;
  /** Inputs of a graph that takes adapters. */
  readonly inputs: ComponentSpec['inputs'];
}

/** The two factors of one update: rank × in, and out × rank. */
type Factor = 'lora_A' | 'lora_B';
type Fault = (key: string, problem: string, expected: unknown, actual: unknown) => SpecError;

const KEY = /^(.+)\.(lora_[AB])$/;

/**
 * Checks an adapter's file against the model that it is for, and packs it as the adapted graphs take it: `down` [layer, in, rank] is A
 * transposed, `up` [layer, rank, out] is B transposed and scaled by alpha / rank. Ranks are padded with zeros; a layer
 * that the file leaves out stays zero.
 *
 * @throws {SpecError} naming file and key: not a safetensors file, another base, a key that names no target, a lone factor, a wrong type or shape, no layer at all.
 */
export function loadAdapter({ id, spec, sha256, compatibility, inputs }: AdapterSource, bytes: Uint8Array): Adapter {
  const fault: Fault = (key, problem, expected, actual) => new SpecError({ file: spec.file, line: null, key, problem, expected, actual });
  const file = readSafetensors(spec.file, bytes);
  const { rank, scale } = checkMetadata(file, id, compatibility, fault);
  const updates = updatesOf(file, compatibility, rank, fault);
  if (updates.size === 0) throw fault('', 'no layer of the model is matched', Object.keys(compatibility.targets), [...file.tensors.keys()]);
  if (![...updates.values()].some(({ lora_B: up }) => up.some((value) => value !== 0))) throw fault('', 'adapter changes nothing', 'a lora_B that is not zero', 'zeros');
  const tensors = emptyTensors(inputs);
  for (const [target, factors] of updates) {
    const { layer, matrix } = adapterTarget(target)!;
    pack(tensors, inputs, layer, matrix, factors, rank, scale);
  }
  return { id, ...spec, version: sha256, rank, tensors };
}

/** What an adapter that changes nothing holds. */
function emptyTensors(inputs: ComponentSpec['inputs']): AdapterTensors {
  const names = Object.values(ADAPTER_MATRICES).flatMap(({ down, up }) => [down, up]);
  const empty = (name: AdapterTensorName): [string, SharedArrayBuffer] => [name, new SharedArrayBuffer(4 * axesOf(inputs, name).reduce((product, axis) => product * axis, 1))];
  return Object.fromEntries(names.map(empty)) as unknown as AdapterTensors;
}

function checkMetadata({ metadata }: SafetensorsFile, id: string, { base, max_rank: maxRank }: AdapterCompatibility, fault: Fault): { readonly rank: number; readonly scale: number } {
  const at = (key: string): string => `__metadata__.${key}`;
  if (metadata['id'] !== id) throw fault(at('id'), 'adapter of another name', id, metadata['id']);
  if (metadata['base'] !== base) throw fault(at('base'), 'adapter was trained on another checkpoint', base, metadata['base']);
  const rank = Number(metadata['rank']);
  if (!(Number.isInteger(rank) && rank >= 1 && rank <= maxRank)) throw fault(at('rank'), 'rank', `1 to ${maxRank}`, metadata['rank']);
  const alpha = Number(metadata['alpha'] ?? Number.NaN);
  if (!Number.isFinite(alpha) || metadata['alpha']?.trim() === '') throw fault(at('alpha'), 'alpha', 'a number', metadata['alpha']);
  return { rank, scale: alpha / rank };
}

function updatesOf({ tensors }: SafetensorsFile, { targets }: AdapterCompatibility, rank: number, fault: Fault): ReadonlyMap<string, Readonly<Record<Factor, Float32Array>>> {
  const updates = new Map<string, Partial<Record<Factor, Float32Array>>>();
  for (const [key, tensor] of tensors) {
    const [, target, factor] = KEY.exec(key) ?? [];
    const shape = target === undefined || !Object.hasOwn(targets, target) ? undefined : targets[target];
    if (target === undefined || shape === undefined) throw fault(key, 'key matches nothing of the model', Object.keys(targets).map((name) => `${name}.lora_A, ….lora_B`), key);
    const [rows, columns] = shape;
    const values = valuesOf(key, tensor, factor === 'lora_A' ? [rank, columns] : [rows, rank], fault);
    updates.set(target, { ...updates.get(target), [factor as Factor]: values });
  }
  for (const [target, factors] of updates) {
    for (const factor of ['lora_A', 'lora_B'] as const) if (factors[factor] === undefined) throw fault(`${target}.${factor}`, 'factor is missing', 'both lora_A and lora_B', Object.keys(factors));
  }
  return updates as ReadonlyMap<string, Record<Factor, Float32Array>>;
}

function valuesOf(key: string, { dtype, shape, data }: SafeTensor, expected: readonly number[], fault: Fault): Float32Array {
  if (dtype !== 'F32') throw fault(key, 'element type', 'F32', dtype);
  if (shape.length !== expected.length || shape.some((axis, index) => axis !== expected[index])) throw fault(key, 'shape', expected, shape);
  const values = new Float32Array(data);
  // One of them would make every picture of the session nothing.
  if (!values.every(Number.isFinite)) throw fault(key, 'values', 'finite numbers', values.find((value) => !Number.isFinite(value)));
  return values;
}

function pack(tensors: AdapterTensors, inputs: ComponentSpec['inputs'], layer: number, matrix: AdapterMatrix, { lora_A: a, lora_B: b }: Readonly<Record<Factor, Float32Array>>, rank: number, scale: number): void {
  const { down: downName, up: upName } = ADAPTER_MATRICES[matrix];
  const [, columns, width] = axesOf(inputs, downName) as [number, number, number];
  const [, , rows] = axesOf(inputs, upName) as [number, number, number];
  const down = new Float32Array(tensors[downName]);
  const up = new Float32Array(tensors[upName]);
  const downFrom = layer * columns * width;
  const upFrom = layer * width * rows;
  for (let k = 0; k < rank; k++) {
    for (let column = 0; column < columns; column++) down[downFrom + column * width + k] = a[k * columns + column]!;
    for (let row = 0; row < rows; row++) up[upFrom + k * rows + row] = b[row * rank + k]! * scale;
  }
}

function axesOf(inputs: ComponentSpec['inputs'], name: AdapterTensorName): readonly number[] {
  return inputs[name]!.shape.slice(1) as number[];
}
