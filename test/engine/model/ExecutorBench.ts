import assert from 'node:assert/strict';
import { createKernels, type Kernels } from '../../../src/engine/model/kernels/create_kernels.ts';
import type { Conditioning, LoopContext, LoopKernel, LoopState, StepOutputs } from '../../../src/engine/model/loop_kernel.ts';
import { deepFreeze } from '../../../src/engine/model/spec/authoring_file.ts';
import { loadModelSpec } from '../../../src/engine/model/spec/load_model_spec.ts';
import type { ModelSpec } from '../../../src/engine/model/spec/model_spec.ts';
import type { BlockId, PlannedUnit, StepResult, UnitOutput, WorkPlan } from '../../../src/engine/model/work.ts';
import { OnnxWorker } from '../../../src/engine/workers/OnnxWorker.ts';
import { SharedPool } from '../../../src/streams/shared_pool.ts';

export const MODEL_DIR = new URL('../../../models/drive/', import.meta.url).pathname;

/** A unit with where its outputs went, and what came back. */
export interface RanUnit {
  readonly unit: PlannedUnit;
  readonly result: StepResult;
}

/** A real executor thread with the real weights, and the least of a runtime around it: it names blocks and slots and commits steps. */
export class ExecutorBench {
  readonly spec: ModelSpec;
  readonly kernels: Required<Kernels>;
  readonly worker: OnnxWorker;
  readonly #pools = { video: SharedPool.create(224 * 128 * 3, 64), audio: SharedPool.create(4000, 64) };
  #nextId = 1;

  private constructor(spec: ModelSpec, worker: OnnxWorker) {
    this.spec = spec;
    this.worker = worker;
    this.kernels = createKernels(spec) as Required<Kernels>;
  }

  static async open({ modelDir = MODEL_DIR, batchInvariant = false, spare = false, minWatchdogMs = 2000, sessions = ['a', 'b', 'c', 'blocker'] } = {}): Promise<ExecutorBench> {
    const worker = new OnnxWorker({ id: batchInvariant ? 'invariant' : 'plain', testMode: true, batchInvariant, spare, calibrationRuns: 0, maxInFlight: 2, minWatchdogMs });
    const bench = new ExecutorBench(loadModelSpec(modelDir), worker);
    await worker.loadModel(modelDir);
    for (const session of sessions) worker.attach(session, { video: bench.#pools.video.descriptor, audio: bench.#pools.audio.descriptor });
    return bench;
  }

  close(): Promise<void> {
    return this.worker.close();
  }

  nextId(): number {
    return this.#nextId++;
  }

  unitOf(kernel: string, sessionId: string, plan: WorkPlan): PlannedUnit {
    const outputs: Record<string, UnitOutput> = {};
    for (const [name, declared] of Object.entries(plan.outputs)) {
      switch (declared.kind) {
        case 'block':
          outputs[name] = { kind: 'block', block: this.nextId(), bytes: declared.bytes };
          break;
        case 'slot': {
          const slot = this.#pools[declared.pool].acquire();
          assert.ok(slot !== null, `pool ${declared.pool} is exhausted`);
          outputs[name] = { kind: 'slot', pool: declared.pool, slot };
          break;
        }
        case 'value':
          outputs[name] = declared;
      }
    }
    return { unitId: this.nextId(), sessionId, loopId: `${kernel}-${sessionId}`, kernel, modelId: this.spec.modelId, plan, outputs, epoch: 0 };
  }

  /** Runs units of one component together. */
  async runUnits(units: readonly PlannedUnit[]): Promise<RanUnit[]> {
    const { kernel, modelId, plan } = units[0]!;
    const results = await this.worker.executeWork({ batchId: this.nextId(), modelId, component: plan.component, kernel, units });
    assert.deepEqual(results.map(({ unitId }) => unitId), units.map(({ unitId }) => unitId));
    return units.map((unit, index) => ({ unit, result: results[index]! }));
  }

  /** One committed step: plan, run, advance. The blocks that the new state no longer needs are freed unless `keep`. */
  async step<State extends LoopState>(kernel: LoopKernel<never, State, unknown>, sessionId: string, state: State, ctx: LoopContext, { keep = false } = {}): Promise<{ state: State; ran: RanUnit } | null> {
    const plan = kernel.planStep(deepFreeze(state), deepFreeze(ctx));
    if (plan === null) return null;
    const [ran] = (await this.runUnits([this.unitOf(kernel.kind, sessionId, plan)])) as [RanUnit];
    assert.ok(ran.result.ok, ran.result.ok ? '' : ran.result.message);
    const next = deepFreeze(kernel.advance(state, ran.unit, outputsOf(ran)));
    if (!keep) this.worker.release(state.blocks.filter((block) => !next.blocks.includes(block)));
    return { state: next, ran };
  }

  /** Steps until the kernel has nothing to plan. */
  async runToEnd<State extends LoopState>(kernel: LoopKernel<never, State, unknown>, sessionId: string, state: State, ctx: LoopContext): Promise<State> {
    for (let next = await this.step(kernel, sessionId, state, ctx); next !== null; next = await this.step(kernel, sessionId, state, ctx)) state = next.state;
    return state;
  }

  async encodePrompt(sessionId: string, ids: readonly number[]): Promise<Readonly<Record<string, BlockId>>> {
    const kernel = this.kernels.encoder_chunk;
    const ctx = contextOf({ seed: 0 });
    return kernel.finalize(await this.runToEnd(kernel, sessionId, kernel.initState({ ids }, ctx), ctx), ctx);
  }

  /** A step of the start bank. */
  bankUnit(sessionId: string, index = 0): PlannedUnit {
    const kernel = this.kernels.start_bank;
    const ctx = contextOf({ seed: 0 });
    return this.unitOf('start_bank', sessionId, kernel.planStep(kernel.initState({ index }, ctx), ctx)!);
  }

  /** Attaches a session to pools of its own, and plans one picture of `latents` into a slot of them. */
  pictureUnit(sessionId: string, latents: BlockId, { slots, slot, frame }: { readonly slots: number; readonly slot: number; readonly frame: number }): { readonly pools: { readonly video: SharedPool; readonly audio: SharedPool }; readonly unit: PlannedUnit } {
    const pools = { video: SharedPool.create(224 * 128 * 3, slots), audio: SharedPool.create(4000, slots) };
    this.worker.attach(sessionId, { video: pools.video.descriptor, audio: pools.audio.descriptor });
    const kernel = this.kernels.vae_tile_decode;
    const ctx = contextOf({ seed: 0 });
    const planned = this.unitOf('vae_tile_decode', sessionId, kernel.planStep(kernel.initState({ latents, frames: [frame], start90k: 0 }, ctx), ctx)!);
    return { pools, unit: { ...planned, outputs: { rgb: { kind: 'slot', pool: 'video', slot } } } };
  }

  async startLatents(sessionId: string, index: number): Promise<BlockId> {
    const kernel = this.kernels.start_bank;
    const ctx = contextOf({ seed: 0 });
    return kernel.finalize(await this.runToEnd(kernel, sessionId, kernel.initState({ index }, ctx), ctx), ctx);
  }

  /** Everything that a unit gave, as numbers, by output name. */
  async readOutputs({ unit, result }: RanUnit): Promise<Record<string, readonly number[]>> {
    const read: Record<string, readonly number[]> = {};
    for (const [name, output] of Object.entries(unit.outputs)) {
      if (output.kind === 'block') read[name] = [...(await this.worker.read([output.block]))[0]!];
      if (output.kind === 'slot') read[name] = samplesOf(this.#pools[output.pool].bytes(output.slot), output.pool);
    }
    return { ...read, ...(result.ok ? result.values : {}) };
  }

  blocksOf({ outputs }: PlannedUnit): BlockId[] {
    return Object.values(outputs).flatMap((output) => (output.kind === 'block' ? [output.block] : []));
  }

  /** Frees what a unit wrote. */
  discard(unit: PlannedUnit): void {
    this.worker.release(this.blocksOf(unit));
    this.discardSlots(unit);
  }

  discardSlots(unit: PlannedUnit): void {
    for (const output of Object.values(unit.outputs)) if (output.kind === 'slot') this.#pools[output.pool].release(output.slot);
  }

  /** Blocks that the executor holds now. */
  async heldBlocks(): Promise<number> {
    await this.worker.read([]);
    return this.worker.health().blocks!;
  }
}

export function contextOf({ seed, lineage = 0, prompt = null, steer = 0, speed = 2, version = 1, adapter = null, steps }: { seed: number; lineage?: number; prompt?: Conditioning['prompt']; steer?: number; speed?: number; version?: number; adapter?: Conditioning['adapter']; steps?: number }): LoopContext {
  return { seed, lineage, conditioning: { version, actionSequence: version, steer, speed, prompt, ...(adapter == null ? {} : { adapter }), ...(steps === undefined ? {} : { steps }) } };
}

export function outputsOf({ unit, result }: RanUnit): StepOutputs {
  assert.ok(result.ok);
  const pick = <T>(kind: UnitOutput['kind'], of: (output: UnitOutput) => T) =>
    Object.fromEntries(Object.entries(unit.outputs).filter(([, output]) => output.kind === kind).map(([name, output]) => [name, of(output)]));
  return {
    blocks: pick('block', (output) => (output as { block: number }).block),
    slots: pick('slot', (output) => (output as { slot: number }).slot),
    values: result.values,
    next: result.next,
  };
}

function samplesOf(bytes: Uint8Array, pool: 'video' | 'audio'): readonly number[] {
  return pool === 'video' ? [...bytes] : [...new Int16Array(bytes.buffer, bytes.byteOffset, 2000)];
}
