import { declareOutputs } from '../model/kernels/component_graph.ts';
import type { KernelSource } from '../model/kernels/create_kernels.ts';
import { shapeKeyOf, type ComponentSpec } from '../model/spec/component_spec.ts';
import { unitBytes, unitElements, unitShape } from '../model/spec/tensor_signature.ts';
import type { PlannedUnit, UnitInput, UnitOutput, WorkUnitBatch } from '../model/work.ts';
import { SharedPool } from '../../streams/shared_pool.ts';
import type { BlockStore } from './BlockStore.ts';
import type { OnnxDeviceModel, SessionPools } from './OnnxDeviceModel.ts';
import { residentBlock, type ResidentBlock } from './resident_block.ts';
import type { CostEntry } from './Worker.ts';

/** Runs before the first measured one: they touch the weights and grow the runtime's arena. */
const WARM_UP_RUNS = 2;
/**
 * Other work on the machine can only add to a run, so the cost is taken from the least disturbed ones: a busy moment at start must not
 * refuse sessions for ever. What units really take is followed while they run.
 */
const UNDISTURBED = 0.1;
export const CALIBRATION_SESSION = '__calibration';
const CALIBRATION_END = { type: 'detach', sessionId: CALIBRATION_SESSION } as const;

/** Milliseconds of one batch, by component, for batches of 1, 2 and the loop's `maxBatch`, gathering and scattering included. */
export async function measureCost(source: KernelSource, device: OnnxDeviceModel, blocks: BlockStore<ResidentBlock>, runs: number): Promise<CostEntry[]> {
  const cost: CostEntry[] = [];
  if (runs === 0) return cost;
  for (const [componentId, component] of Object.entries(source.components)) {
    const maxBatch = Math.max(1, ...Object.values(source.loops).filter(({ components, adapted = [] }) => [...components, ...adapted].includes(componentId)).map(({ step }) => step.maxBatch));
    // Singles count most and are measured longest; sizes in between are taken in proportion.
    for (const batch of new Set([1, Math.min(2, maxBatch), maxBatch])) {
      const measured = batch === 1 ? runs : Math.ceil(runs / 2);
      const samples: number[] = [];
      const work = exampleBatch(device.modelId, componentId, component, batch, blocks);
      const written = { type: 'release', blocks: work.units.flatMap(({ outputs }) => Object.values(outputs).flatMap((output) => (output.kind === 'block' ? [output.block] : []))) } as const;
      for (let run = 0; run < WARM_UP_RUNS + measured; run++) {
        const startMs = performance.now();
        await device.run(work);
        if (run >= WARM_UP_RUNS) samples.push(performance.now() - startMs);
        blocks.free(written);
      }
      blocks.free(CALIBRATION_END);
      samples.sort((a, b) => a - b);
      cost.push({ component: componentId, shapeKey: shapeKeyOf(componentId, component), batch, p50Ms: quantile(samples, UNDISTURBED), p95Ms: quantile(samples, 0.95) });
    }
  }
  return cost;
}

/** Runs every component a few times and measures nothing: a spare that takes over must not be slow at first. */
export async function warmUp(source: KernelSource, device: OnnxDeviceModel, blocks: BlockStore<ResidentBlock>): Promise<void> {
  for (const [componentId, component] of Object.entries(source.components)) {
    for (let run = 0; run < WARM_UP_RUNS; run++) {
      await device.run(exampleBatch(device.modelId, componentId, component, 1, blocks));
      blocks.free(CALIBRATION_END);
    }
  }
}

/** Pools that hold one output of each kind, for the measuring session. */
export function calibrationPools(source: KernelSource): SessionPools {
  const bytesTo = (pool: 'video' | 'audio') =>
    Math.max(8, ...Object.values(source.components).flatMap(({ outputs }) => Object.values(outputs).filter(({ to }) => to === pool).map(unitBytes)));
  const create = (pool: 'video' | 'audio') => SharedPool.create(Math.ceil(bytesTo(pool) / 8) * 8, 1);
  return { video: create('video'), audio: create('audio') };
}

function exampleBatch(modelId: string, componentId: string, component: ComponentSpec, size: number, blocks: BlockStore<ResidentBlock>): WorkUnitBatch {
  const units = Array.from({ length: size }, (_, index) => exampleUnit(modelId, componentId, component, index, blocks));
  return { batchId: 0, modelId, component: componentId, kernel: CALIBRATION_SESSION, units };
}

/** Blocks of calibration have negative ids: the engine's are positive. */
function exampleUnit(modelId: string, componentId: string, component: ComponentSpec, index: number, blocks: BlockStore<ResidentBlock>): PlannedUnit {
  let nextBlock = -1 - index * 1000;
  const inputs: Record<string, UnitInput> = {};
  for (const [name, signature] of Object.entries(component.inputs)) {
    const shape = unitShape(signature);
    const elements = unitElements(signature);
    if (signature.dtype !== 'float32') inputs[name] = { kind: 'ints', values: Array<number>(elements).fill(1), shape };
    else if (elements < 300) inputs[name] = { kind: 'floats', values: Array<number>(elements).fill(0.5), shape };
    else {
      // Values of ordinary size: zeros and denormals would take other paths.
      const buffer = new SharedArrayBuffer(4 * elements);
      new Float32Array(buffer).forEach((_, at, data) => (data[at] = ((at % 13) - 6) / 6));
      blocks.put(residentBlock({ id: nextBlock, sessionId: CALIBRATION_SESSION, memory: 'activations', published: false, dtype: 'float32', dims: [1, ...shape], buffer }));
      inputs[name] = { kind: 'block', block: nextBlock-- };
    }
  }
  const declared = declareOutputs(component);
  const outputs: Record<string, UnitOutput> = {};
  for (const [name, declaration] of Object.entries(declared)) {
    if (declaration.kind === 'block') outputs[name] = { kind: 'block', block: nextBlock--, bytes: declaration.bytes };
    else outputs[name] = declaration.kind === 'slot' ? { ...declaration, slot: 0 } : declaration;
  }
  const shapeKey = shapeKeyOf(componentId, component);
  const plan = { kind: 'encoder_chunk', component: componentId, step: 0, shapeKey, maxBatch: 1, inputs, outputs: declared, state: {}, boundary: true, leadsTo: null, cache: null } as const;
  return { unitId: -1 - index, sessionId: CALIBRATION_SESSION, loopId: CALIBRATION_SESSION, kernel: CALIBRATION_SESSION, modelId, plan, outputs, epoch: 0 };
}

function quantile(sorted: readonly number[], q: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))]!;
}
