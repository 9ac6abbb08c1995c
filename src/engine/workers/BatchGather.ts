import { Tensor } from 'onnxruntime-node';
import { DeviceError } from '../model/device_error.ts';
import type { ComponentSpec } from '../model/spec/component_spec.ts';
import { unitElements, unitShape, type TensorSignature } from '../model/spec/tensor_signature.ts';
import type { PlannedUnit, UnitInput } from '../model/work.ts';
import type { BlockStore } from './BlockStore.ts';
import type { NoiseCache } from './NoiseCache.ts';

type Data = Float32Array | BigInt64Array | Int32Array | Int16Array | Uint8Array;

/**
 * Makes a graph's input tensors from what the units of a batch declare. One unit's blocks and noise go in as they are, without a copy;
 * several are laid side by side in a buffer that is kept per input and batch size. Safe to reuse: `session.run` blocks the
 * thread, and batches run one after another.
 */
export class BatchGather {
  readonly #blocks: BlockStore;
  readonly #noise: NoiseCache;
  readonly #staging = new Map<string, Tensor>();
  readonly #zeros = new Map<string, Tensor>();

  constructor(blocks: BlockStore, noise: NoiseCache) {
    this.#blocks = blocks;
    this.#noise = noise;
  }

  /**
   * @param rows ≥ units.length; further rows repeat the last unit.
   * @throws {DeviceError} a unit lacks an input, or gives it another size than the component's.
   */
  feeds(componentId: string, component: ComponentSpec, units: readonly PlannedUnit[], rows: number): Record<string, Tensor> {
    const feeds: Record<string, Tensor> = {};
    for (const [name, signature] of Object.entries(component.inputs)) {
      const inputs = units.map((unit) => this.#declared(unit, name));
      feeds[name] = rows === 1 ? this.#single(componentId, name, signature, inputs[0]!) : this.#joined(componentId, name, signature, inputs, rows);
    }
    return feeds;
  }

  /** Frees the buffers; they come back when needed. */
  clear(): void {
    this.#staging.clear();
    this.#zeros.clear();
  }

  #declared(unit: PlannedUnit, name: string): UnitInput {
    const input = unit.plan.inputs[name];
    if (input === undefined) throw new DeviceError(`unit ${unit.unitId} declares no input ${name}`);
    return input;
  }

  #single(componentId: string, name: string, signature: TensorSignature, input: UnitInput): Tensor {
    switch (input.kind) {
      case 'block':
        return checked(this.#block(input.block), name, signature);
      case 'noise':
        return checked(this.#noise.draw(input), name, signature);
      case 'zeros':
        return checked(this.#zeroTensor(signature.dtype, input.shape), name, signature);
      case 'floats':
      case 'ints':
        return this.#joined(componentId, name, signature, [input], 1);
    }
  }

  #joined(componentId: string, name: string, signature: TensorSignature, inputs: readonly UnitInput[], rows: number): Tensor {
    const staging = this.#stagingTensor(componentId, name, signature, rows);
    const data = staging.data as Data;
    const elements = data.length / rows;
    for (let row = 0; row < rows; row++) {
      if (row >= inputs.length) data.copyWithin(row * elements, (row - 1) * elements, row * elements);
      else this.#copyRow(inputs[row]!, name, signature, data, row * elements, elements);
    }
    return staging;
  }

  #copyRow(input: UnitInput, name: string, signature: TensorSignature, data: Data, at: number, elements: number): void {
    switch (input.kind) {
      case 'zeros':
        checkCount(name, elements, input.shape.reduce((product, axis) => product * axis, 1));
        if (data instanceof BigInt64Array) data.fill(0n, at, at + elements);
        else data.fill(0, at, at + elements);
        return;
      case 'floats':
      case 'ints':
        checkCount(name, elements, input.values.length);
        if (data instanceof BigInt64Array) for (let index = 0; index < elements; index++) data[at + index] = BigInt(input.values[index]!);
        else data.set(input.values, at);
        return;
      case 'block':
      case 'noise': {
        const tensor = checked(input.kind === 'block' ? this.#block(input.block) : this.#noise.draw(input), name, signature);
        (data as Float32Array).set(tensor.data as Float32Array, at);
      }
    }
  }

  #block(id: number): Tensor {
    const tensor = this.#blocks.get(id);
    if (tensor === undefined) throw new DeviceError(`block ${id} is not held by this executor`);
    return tensor;
  }

  #stagingTensor(componentId: string, name: string, signature: TensorSignature, rows: number): Tensor {
    const key = `${componentId}/${name}/${rows}`;
    let tensor = this.#staging.get(key);
    if (tensor === undefined) {
      tensor = newTensor(signature.dtype, [rows, ...unitShape(signature)]);
      this.#staging.set(key, tensor);
    }
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
  const length = dims.reduce((product, axis) => product * axis, 1);
  switch (dtype) {
    case 'float32':
      return new Tensor('float32', new Float32Array(length), dims);
    case 'int64':
      return new Tensor('int64', new BigInt64Array(length), dims);
    case 'int32':
      return new Tensor('int32', new Int32Array(length), dims);
    case 'int16':
      return new Tensor('int16', new Int16Array(length), dims);
    case 'uint8':
      return new Tensor('uint8', new Uint8Array(length), dims);
  }
}

function checked(tensor: Tensor, name: string, signature: TensorSignature): Tensor {
  if (tensor.type !== signature.dtype) throw new DeviceError(`input ${name}: expected ${signature.dtype}, got ${tensor.type}`);
  checkCount(name, unitElements(signature), tensor.size);
  return tensor;
}

function checkCount(name: string, expected: number, actual: number): void {
  if (expected !== actual) throw new DeviceError(`input ${name}: expected ${expected} elements, got ${actual}`);
}
