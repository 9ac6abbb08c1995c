import type { InferenceSession, Tensor } from 'onnxruntime-node';
import { DeviceError } from '../model/device_error.ts';
import type { DeviceModel } from '../model/loop_kernel.ts';
import type { ComponentSpec } from '../model/spec/component_spec.ts';
import { unitShape, type OutputSignature } from '../model/spec/tensor_signature.ts';
import type { PlannedUnit, UnitOutput, WorkUnitBatch } from '../model/work.ts';
import type { SharedPool } from '../../streams/shared_pool.ts';
import type { BatchGather } from './BatchGather.ts';
import type { BlockStore } from './BlockStore.ts';
import { residentBlock, type ResidentBlock } from './resident_block.ts';
import type { SharedBuffers } from './SharedBuffers.ts';

export interface SessionPools {
  readonly video: SharedPool;
  readonly audio: SharedPool;
}

export interface OnnxDeviceModelParts {
  readonly modelId: string;
  readonly components: Readonly<Record<string, ComponentSpec>>;
  /** @throws {DeviceError} where its weights sleep. */
  readonly sessionOf: (componentId: string) => InferenceSession;
  readonly blocks: BlockStore<ResidentBlock>;
  /** Where the memory of new blocks comes from. */
  readonly buffers: SharedBuffers;
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
      this.#place(unit, name, output, signature, rowOf(tensor as Tensor, row, rows), values);
    }
    return values;
  }

  /** Copies one output to where it belongs: the binding writes to no memory but its own, and a batch's rows part here. */
  #place(unit: PlannedUnit, name: string, output: UnitOutput, signature: OutputSignature, data: Elements, values: Record<string, Float32Array>): void {
    switch (output.kind) {
      case 'block': {
        const buffer = this.#parts.buffers.take(data.byteLength);
        new Uint8Array(buffer).set(bytesOf(data));
        const { sessionId, plan } = unit;
        const memory = signature.to === 'kv' ? 'kv' : 'activations';
        this.#parts.blocks.put(residentBlock({ id: output.block, sessionId, memory, published: plan.cache?.publish === true, dtype: signature.dtype, dims: [1, ...unitShape(signature)], buffer }));
        return;
      }
      case 'slot': {
        const pool = this.#parts.poolsOf(unit.sessionId)?.[output.pool];
        if (pool === undefined) throw new DeviceError(`session ${unit.sessionId} has no ${output.pool} pool`);
        pool.bytes(output.slot).set(bytesOf(data));
        return;
      }
      case 'value':
        values[name] = Float32Array.from(data as Float32Array, Number);
    }
  }
}

type Elements = Float32Array | BigInt64Array | Int32Array | Int16Array | Uint8Array;

/** One unit's part of an output, where it lies. */
function rowOf(tensor: Tensor, row: number, rows: number): Elements {
  const data = tensor.data as Elements;
  const elements = data.length / rows;
  return rows === 1 ? data : data.subarray(row * elements, (row + 1) * elements);
}

function bytesOf({ buffer, byteOffset, byteLength }: Elements): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}
