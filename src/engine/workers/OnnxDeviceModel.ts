import { Tensor, type InferenceSession } from 'onnxruntime-node';
import { DeviceError } from '../model/device_error.ts';
import type { DeviceModel } from '../model/loop_kernel.ts';
import type { ComponentSpec } from '../model/spec/component_spec.ts';
import { unitShape, type OutputSignature } from '../model/spec/tensor_signature.ts';
import type { PlannedUnit, UnitOutput, WorkUnitBatch } from '../model/work.ts';
import type { SharedPool } from '../../streams/shared_pool.ts';
import type { BatchGather } from './BatchGather.ts';
import type { BlockStore } from './BlockStore.ts';

export interface SessionPools {
  readonly video: SharedPool;
  readonly audio: SharedPool;
}

export interface OnnxDeviceModelParts {
  readonly modelId: string;
  readonly components: Readonly<Record<string, ComponentSpec>>;
  /** @throws {DeviceError} where its weights sleep. */
  readonly sessionOf: (componentId: string) => InferenceSession;
  readonly blocks: BlockStore;
  readonly gather: BatchGather;
  readonly poolsOf: (sessionId: string) => SessionPools | undefined;
  readonly batchInvariant: boolean;
}

/** Outputs of one unit that go back to the engine as numbers. */
type UnitValues = Readonly<Record<string, Float32Array>>;

/** Runs a component's graph for a batch: gather along the batch axis, one `session.run`, scatter to blocks, slots and values. */
export class OnnxDeviceModel implements DeviceModel {
  readonly modelId: string;
  /**
   * Asked once per run, after the graph and before the first output is written: returns which units may still publish.
   * Set by the executor around each batch.
   */
  beginPublish: () => (unit: PlannedUnit) => boolean = () => () => true;
  readonly #parts: OnnxDeviceModelParts;

  constructor(parts: OnnxDeviceModelParts) {
    this.modelId = parts.modelId;
    this.#parts = parts;
  }

  async run(batch: WorkUnitBatch): Promise<{ values: UnitValues[]; deviceMs: number }> {
    const { components, sessionOf, gather, batchInvariant } = this.#parts;
    const component = components[batch.component];
    if (component === undefined) throw new DeviceError(`model ${this.modelId} has no component ${batch.component}`);
    const startMs = performance.now();
    const { units } = batch;
    // A matrix product of one row takes another path through the BLAS than the same row among others; two rows and more agree bit for bit.
    const rows = batchInvariant ? Math.max(2, units.length) : units.length;
    const feeds = gather.feeds(batch.component, component, units, rows);
    let results: InferenceSession.ReturnType;
    try {
      results = await sessionOf(batch.component).run(feeds);
    } catch (error) {
      if (error instanceof DeviceError) throw error;
      throw new DeviceError(error instanceof Error ? error.message : String(error), { cause: error });
    }
    const mayPublish = this.beginPublish();
    const values = units.map((unit, row) => (mayPublish(unit) ? this.#publish(unit, row, rows, component, results) : {}));
    return { values, deviceMs: performance.now() - startMs };
  }

  #publish(unit: PlannedUnit, row: number, rows: number, component: ComponentSpec, results: InferenceSession.ReturnType): UnitValues {
    const values: Record<string, Float32Array> = {};
    for (const [name, output] of Object.entries(unit.outputs)) {
      const signature = component.outputs[name];
      const tensor = results[name];
      if (signature === undefined || tensor === undefined) throw new DeviceError(`component ${unit.plan.component} has no output ${name}`);
      this.#place(unit, name, output, signature, rowOf(tensor as Tensor, row, rows, signature), values);
    }
    return values;
  }

  #place(unit: PlannedUnit, name: string, output: UnitOutput, signature: OutputSignature, tensor: Tensor, values: Record<string, Float32Array>): void {
    switch (output.kind) {
      case 'block': {
        const memory = signature.to === 'kv' ? 'kv' : 'activations';
        this.#parts.blocks.put(output.block, { tensor, sessionId: unit.sessionId, memory, published: unit.plan.cache?.publish === true });
        return;
      }
      case 'slot': {
        const pool = this.#parts.poolsOf(unit.sessionId)?.[output.pool];
        if (pool === undefined) throw new DeviceError(`session ${unit.sessionId} has no ${output.pool} pool`);
        const data = tensor.data as Uint8Array;
        // Copied: a preallocated output in shared memory is not written in place by the binding, and a frame is 86 KB (about 5 µs).
        pool.bytes(output.slot).set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength));
        return;
      }
      case 'value':
        values[name] = Float32Array.from(tensor.data as Float32Array, Number);
    }
  }
}

/** One unit's part of an output: the tensor itself where it is alone, else a copy, so that a kept row doesn't keep the whole batch alive. */
function rowOf(tensor: Tensor, row: number, rows: number, signature: OutputSignature): Tensor {
  if (rows === 1) return tensor;
  const data = tensor.data as Float32Array;
  const elements = data.length / rows;
  return new Tensor(tensor.type as 'float32', data.slice(row * elements, (row + 1) * elements), [1, ...unitShape(signature)]);
}
