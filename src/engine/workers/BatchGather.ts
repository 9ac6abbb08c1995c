import type { Tensor } from 'onnxruntime-node';
import { DeviceError } from '../model/device_error.ts';
import type { ComponentSpec } from '../model/spec/component_spec.ts';
import { BYTES_PER_ELEMENT, unitElements, unitShape, type TensorSignature } from '../model/spec/tensor_signature.ts';
import type { AdapterTensors } from '../model/spec/adapter_spec.ts';
import type { PlannedUnit, UnitInput } from '../model/work.ts';
import type { BlockStore } from './BlockStore.ts';
import type { NoiseCache } from './NoiseCache.ts';
import { tensorOver, type ResidentBlock } from './resident_block.ts';

/** One input of a graph, with what would be derived from its signature at every step. */
interface Binding {
  readonly name: string;
  readonly dtype: TensorSignature['dtype'];
  readonly shape: readonly number[];
  readonly elements: number;
  /** Buffers by number of rows. */
  readonly staging: Map<number, Tensor>;
}

type Data = Float32Array | BigInt64Array | Int32Array | Int16Array | Uint8Array;

/**
 * Makes a graph's input tensors from what the units of a batch declare. One unit's blocks and noise go in as they are, without a copy;
 * several are laid side by side in a buffer that is kept per input and batch size. Safe to reuse: `session.run` blocks the
 * thread, and batches run one after another.
 */
export class BatchGather {
  readonly #blocks: BlockStore<ResidentBlock>;
  readonly #noise: NoiseCache;
  readonly #bindings = new Map<string, readonly Binding[]>();
  readonly #zeros = new Map<string, Tensor>();
  /** Of adapters, by `id/name`: bound once, read by every unit that names them. */
  readonly #adapters = new Map<string, Tensor>();

  constructor(blocks: BlockStore<ResidentBlock>, noise: NoiseCache) {
    this.#blocks = blocks;
    this.#noise = noise;
  }

  /**
   * @param rows ≥ units.length; further rows repeat the last unit.
   * @throws {DeviceError} a unit lacks an input, or gives it another size than the component's.
   */
  feeds(componentId: string, component: ComponentSpec, units: readonly PlannedUnit[], rows: number): Record<string, Tensor> {
    const feeds: Record<string, Tensor> = {};
    for (const binding of this.#bindingsOf(componentId, component)) {
      feeds[binding.name] = rows === 1 ? this.#single(binding, declared(units[0]!, binding.name)) : this.#joined(binding, units, rows);
    }
    return feeds;
  }

  /** Makes the tensors of adapters known to units that name them. */
  bindAdapters(adapters: Readonly<Record<string, AdapterTensors>>): void {
    for (const [id, tensors] of Object.entries(adapters)) {
      for (const [name, buffer] of Object.entries(tensors) as [string, SharedArrayBuffer][]) this.#adapters.set(`${id}/${name}`, tensorOver('float32', buffer, [buffer.byteLength / BYTES_PER_ELEMENT.float32]));
    }
  }

  /** Frees the buffers; they come back when needed. */
  clear(): void {
    this.#bindings.clear();
    this.#zeros.clear();
  }

  #bindingsOf(componentId: string, component: ComponentSpec): readonly Binding[] {
    let bindings = this.#bindings.get(componentId);
    if (bindings === undefined) {
      bindings = Object.entries(component.inputs).map(([name, signature]) => ({
        name,
        dtype: signature.dtype,
        shape: unitShape(signature),
        elements: unitElements(signature),
        staging: new Map(),
      }));
      this.#bindings.set(componentId, bindings);
    }
    return bindings;
  }

  #single(binding: Binding, input: UnitInput): Tensor {
    switch (input.kind) {
      case 'block':
        return checked(this.#block(input.block), binding);
      case 'noise':
        return checked(this.#noise.draw(input), binding);
      case 'zeros':
        return checked(this.#zeroTensor(binding.dtype, input.shape), binding);
      case 'adapter':
        return checked(this.#adapter(input), binding).reshape([1, ...binding.shape]);
      case 'floats':
      case 'ints':
      case 'bytes':
      case 'mix': {
        const staging = stagingTensor(binding, 1);
        this.#copyRow(input, binding, staging.data as Data, 0);
        return staging;
      }
    }
  }

  #joined(binding: Binding, units: readonly PlannedUnit[], rows: number): Tensor {
    const staging = stagingTensor(binding, rows);
    const data = staging.data as Data;
    const { elements } = binding;
    for (let row = 0; row < rows; row++) {
      if (row >= units.length) data.copyWithin(row * elements, (row - 1) * elements, row * elements);
      else this.#copyRow(declared(units[row]!, binding.name), binding, data, row * elements);
    }
    return staging;
  }

  #copyRow(input: UnitInput, binding: Binding, data: Data, at: number): void {
    const { elements } = binding;
    switch (input.kind) {
      case 'zeros':
        checkCount(binding, countOf(input.shape));
        if (data instanceof BigInt64Array) data.fill(0n, at, at + elements);
        else data.fill(0, at, at + elements);
        return;
      case 'floats':
      case 'ints':
        checkCount(binding, input.values.length);
        if (data instanceof BigInt64Array) for (let index = 0; index < elements; index++) data[at + index] = BigInt(input.values[index]!);
        else data.set(input.values, at);
        return;
      case 'bytes':
        if (binding.dtype !== 'uint8') throw new DeviceError(`input ${binding.name}: expected ${binding.dtype}, got bytes`);
        checkCount(binding, input.bytes.byteLength);
        data.set(new Uint8Array(input.bytes) as never, at);
        return;
      case 'mix':
        if (!(data instanceof Float32Array)) throw new DeviceError(`input ${binding.name}: blocks of ${binding.dtype} have no weighted sum`);
        data.fill(0, at, at + elements);
        for (const { block, weight } of input.parts) {
          const part = checked(this.#block(block), binding).data as Float32Array;
          for (let index = 0; index < elements; index++) data[at + index]! += weight * part[index]!;
        }
        return;
      case 'block':
      case 'adapter':
      case 'noise': {
        const tensor = checked(input.kind === 'block' ? this.#block(input.block) : input.kind === 'adapter' ? this.#adapter(input) : this.#noise.draw(input), binding);
        (data as Float32Array).set(tensor.data as Float32Array, at);
      }
    }
  }

  #block(id: number): Tensor {
    const tensor = this.#blocks.get(id)?.tensor;
    if (tensor === undefined) throw new DeviceError(`block ${id} is not held by this executor`);
    return tensor;
  }

  #adapter({ adapter, tensor: name }: Extract<UnitInput, { kind: 'adapter' }>): Tensor {
    const tensor = this.#adapters.get(`${adapter}/${name}`);
    if (tensor === undefined) throw new DeviceError(`adapter ${adapter} is not loaded`);
    return tensor;
  }

  #zeroTensor(dtype: TensorSignature['dtype'], shape: readonly number[]): Tensor {
    const key = `${dtype}/${shape.join('x')}`;
    let tensor = this.#zeros.get(key);
    if (tensor === undefined) {
      tensor = newTensor(dtype, [1, ...shape]);
      this.#zeros.set(key, tensor);
    }
    return tensor;
  }
}

/** A tensor of zeros. */
export function newTensor(dtype: TensorSignature['dtype'], dims: readonly number[]): Tensor {
  return tensorOver(dtype, new ArrayBuffer(countOf(dims) * BYTES_PER_ELEMENT[dtype]), dims);
}

function stagingTensor({ staging, dtype, shape }: Binding, rows: number): Tensor {
  let tensor = staging.get(rows);
  if (tensor === undefined) {
    tensor = newTensor(dtype, [rows, ...shape]);
    staging.set(rows, tensor);
  }
  return tensor;
}

function declared(unit: PlannedUnit, name: string): UnitInput {
  const input = unit.plan.inputs[name];
  if (input === undefined) throw new DeviceError(`unit ${unit.unitId} declares no input ${name}`);
  return input;
}

function checked(tensor: Tensor, binding: Binding): Tensor {
  if (tensor.type !== binding.dtype) throw new DeviceError(`input ${binding.name}: expected ${binding.dtype}, got ${tensor.type}`);
  checkCount(binding, tensor.size);
  return tensor;
}

function checkCount({ name, elements }: Binding, actual: number): void {
  if (elements !== actual) throw new DeviceError(`input ${name}: expected ${elements} elements, got ${actual}`);
}

function countOf(shape: readonly number[]): number {
  return shape.reduce((product, axis) => product * axis, 1);
}
