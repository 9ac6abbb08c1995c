import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';
import { CompileCache, CompileError, runtimeVersion } from '../compile/CompileCache.ts';
import { DeviceError } from '../model/device_error.ts';
import { createKernels, type KernelSource, type Kernels, type StepRunner } from '../model/kernels/create_kernels.ts';
import type { ComponentSpec } from '../model/spec/component_spec.ts';
import type { LoopKind } from '../model/spec/loop_spec.ts';
import { unitBytes } from '../model/spec/tensor_signature.ts';
import type { MemoryTag, PlannedUnit, StepFailure, StepResult, WorkUnitBatch } from '../model/work.ts';
import { DroppedMemory } from '../../observe/DroppedMemory.ts';
import { SharedPool } from '../../streams/shared_pool.ts';
import { ArmedFaults } from './ArmedFaults.ts';
import { BatchGather } from './BatchGather.ts';
import { BlockStore, type SharedBlock } from './BlockStore.ts';
import { CALIBRATION_SESSION, calibrationPools, measureCost, warmUp } from './calibration.ts';
import { CancelWords } from './CancelWords.ts';
import type { AttachedSession, CheckedFile, ComponentFile, ExecutorStart, FromExecutor, HeldBlocks, ToExecutor } from './executor_messages.ts';
import { NoiseCache } from './NoiseCache.ts';
import { OnnxDeviceModel, type SessionPools } from './OnnxDeviceModel.ts';
import { residentBlock, sharedBlock, type ResidentBlock } from './resident_block.ts';
import { SharedBuffers } from './SharedBuffers.ts';

interface Loaded {
  readonly source: KernelSource;
  readonly files: readonly ComponentFile[];
  readonly checked: readonly CheckedFile[];
  readonly compiled: CompileCache;
  readonly device: OnnxDeviceModel;
  readonly kernels: Kernels;
}

/**
 * The executor's side of the port: sessions, blocks and pools of one device share. Messages are handled strictly in order, one at a time,
 * so a release that was sent after a batch frees what that batch wrote, however late it ran.
 */
export class OnnxExecutor {
  readonly #start: ExecutorStart;
  readonly #post: (message: FromExecutor) => void;
  readonly #cancel: CancelWords;
  readonly #buffers = new SharedBuffers();
  readonly #blocks = new BlockStore<ResidentBlock>(({ buffer }) => this.#buffers.give(buffer));
  readonly #gather = new BatchGather(this.#blocks, new NoiseCache());
  readonly #pools = new Map<string, SessionPools>();
  readonly #droppedMemory = new DroppedMemory();
  readonly #asleep = new Set<MemoryTag>();
  /** Bounded by the client: at most `maxInFlight` batches, and releases of blocks that exist. */
  readonly #inbox: ToExecutor[] = [];
  readonly #faults = new ArmedFaults();
  #draining = false;
  #stopped = false;
  #loaded: Loaded | null = null;

  constructor(start: ExecutorStart, post: (message: FromExecutor) => void) {
    this.#start = start;
    this.#post = post;
    this.#cancel = new CancelWords(start.cancelWords);
  }

  /** Resolves when everything received so far is handled. */
  async receive(message: ToExecutor): Promise<void> {
    this.#inbox.push(message);
    if (this.#draining) return;
    this.#draining = true;
    try {
      for (let next = this.#inbox.shift(); next !== undefined; next = this.#inbox.shift()) await this.#handle(next);
    } finally {
      this.#draining = false;
    }
  }

  async #handle(message: ToExecutor): Promise<void> {
    if (this.#stopped) return;
    switch (message.type) {
      case 'load':
        return this.#load(message);
      case 'attach':
        this.#attach(message);
        return;
      case 'detach':
        this.#detach(message.sessionId);
        this.#blocks.free(message);
        return;
      case 'execute':
        this.#post({ type: 'results', batchId: message.batch.batchId, ...(await this.#execute(message.batch, message.cancelWord)), held: this.#held() });
        return;
      case 'release':
        this.#blocks.free(message);
        return;
      case 'adopt':
        for (const session of message.sessions) this.#attach(session);
        for (const block of message.blocks) this.#blocks.put(residentBlock(block));
        return;
      case 'reset':
        this.#forget();
        this.#post({ type: 'answer', request: message.request, blocks: [], held: this.#held() });
        return;
      case 'read':
        this.#post({ type: 'answer', request: message.request, blocks: message.blocks.map((id) => this.#copyOf(id)), held: this.#held() });
        return;
      case 'sleep':
      case 'wake':
        try {
          await (message.type === 'sleep' ? this.#sleep(message.tags) : this.#wake(message.tags));
          this.#post({ type: 'answer', request: message.request, blocks: [], held: this.#held() });
        } catch (error) {
          this.#post({ type: 'answer.failed', request: message.request, message: textOf(error) });
        }
        return;
      case 'fault':
        if (this.#start.options.testMode) this.#faults.arm(message.fault);
        return;
      case 'stop':
        this.#stopped = true;
        await this.#loaded?.compiled.clear();
        this.#forget();
        this.#post({ type: 'stopped' });
    }
  }

  #attach({ sessionId, video, audio }: AttachedSession): void {
    this.#pools.set(sessionId, { video: SharedPool.attach(video), audio: SharedPool.attach(audio) });
  }

  #detach(sessionId: string): void {
    const pools = this.#pools.get(sessionId);
    if (pools === undefined) return;
    this.#pools.delete(sessionId);
    this.#droppedMemory.dropped(pools.video.buffer, pools.audio.buffer);
  }

  #forget(): void {
    this.#blocks.clear();
    this.#buffers.clear();
    this.#pools.clear();
    this.#faults.clear();
  }

  async #load({ modelId, source, files, checked, adapters = {} }: Extract<ToExecutor, { type: 'load' }>): Promise<void> {
    const { provider, intraOpThreads, batchInvariant, calibrationRuns, spare } = this.#start.options;
    const compiled = new CompileCache({ modelId, provider, intraOpThreads });
    const device = new OnnxDeviceModel({
      modelId,
      components: source.components,
      sessionOf: (componentId) => {
        const session = compiled.get(componentId, source.components[componentId]!);
        if (session === undefined) throw new DeviceError(`weights of ${componentId} are asleep`);
        return session;
      },
      blocks: this.#blocks,
      buffers: this.#buffers,
      gather: this.#gather,
      poolsOf: (sessionId) => this.#pools.get(sessionId),
      batchInvariant,
    });
    this.#gather.bindAdapters(adapters);
    try {
      // The first thread's files have just been checked; a later one's may have been replaced meanwhile.
      if (spare) checkUnchanged(checked);
      await compileAll(compiled, source, files);
      this.#pools.set(CALIBRATION_SESSION, calibrationPools(source));
      const cost = spare ? [] : await measureCost(source, device, this.#blocks, calibrationRuns);
      if (spare) await warmUp(source, device, this.#blocks);
      this.#loaded = { source, files, checked, compiled, device, kernels: createKernels(source) };
      this.#post({ type: 'loaded', cost, runtime: runtimeVersion() });
    } catch (error) {
      await compiled.clear();
      this.#post({ type: 'load.failed', message: textOf(error), componentId: error instanceof CompileError ? error.componentId : null });
    } finally {
      this.#pools.delete(CALIBRATION_SESSION);
      this.#blocks.free({ type: 'detach', sessionId: CALIBRATION_SESSION });
    }
  }

  /** One result per unit, in order. A unit's fault fails that unit alone. */
  async #execute(batch: WorkUnitBatch, cancelWord: number): Promise<{ results: StepResult[]; published: SharedBlock[] }> {
    const results = new Map<number, StepResult>();
    const indexOf = new Map(batch.units.map((unit, index) => [unit.unitId, index]));
    const runnable: PlannedUnit[] = [];
    for (const [index, unit] of batch.units.entries()) {
      const refusal = this.#refusal(unit, batch, this.#cancel.isCancelled(cancelWord, index));
      if (refusal === null) runnable.push(unit);
      else results.set(unit.unitId, refusal);
    }
    if (this.#loaded !== null) {
      const { device } = this.#loaded;
      device.beginPublish = () => {
        const cancelled = this.#cancel.beginPublish(cancelWord);
        return (unit) => {
          const gone = cancelled(indexOf.get(unit.unitId)!);
          if (gone) results.set(unit.unitId, failure(unit, 'cancelled', 'cancelled while it ran'));
          return !gone;
        };
      };
      const faulty = runnable.filter((unit) => this.#faults.awaits(unit));
      const healthy = runnable.filter((unit) => !faulty.includes(unit));
      // A unit with an armed fault runs alone: what it strikes must be its own.
      for (const group of [...faulty.map((unit) => [unit]), healthy]) {
        for (const result of await this.#runGroup(this.#loaded, batch, group)) if (!results.has(result.unitId)) results.set(result.unitId, result);
      }
    }
    const published: SharedBlock[] = [];
    const answers = batch.units.map((unit) => {
      const result = results.get(unit.unitId) ?? failure(unit, 'kernel_exception', 'the kernel returned no result for this unit');
      const blocks = Object.values(unit.outputs).flatMap((output) => (output.kind === 'block' ? [output.block] : []));
      if (result.ok) published.push(...blocks.flatMap((id) => this.#blocks.get(id) ?? []).map(sharedBlock));
      // A refused unit wrote nothing: what it names belongs to somebody else, or to nobody.
      else if (runnable.includes(unit)) this.#blocks.free({ type: 'release', blocks });
      return result;
    });
    return { results: answers, published };
  }

  async #runGroup(loaded: Loaded, batch: WorkUnitBatch, units: readonly PlannedUnit[]): Promise<StepResult[]> {
    if (units.length === 0) return [];
    try {
      const kernel: StepRunner | undefined = loaded.kernels[batch.kernel as LoopKind];
      if (kernel === undefined) throw new Error(`model ${batch.modelId} has no kernel ${batch.kernel}`);
      const armed = units.length === 1 ? this.#faults.strike(units[0]!) : units;
      return await kernel.runStep({ ...batch, units: armed }, loaded.device);
    } catch (error) {
      // Whose fault it was shows only when each runs alone.
      if (units.length > 1) return (await eachInTurn(units, (unit) => this.#runGroup(loaded, batch, [unit]))).flat();
      return [failure(units[0]!, error instanceof DeviceError ? 'runtime_error' : 'kernel_exception', textOf(error))];
    }
  }

  #refusal(unit: PlannedUnit, batch: WorkUnitBatch, cancelled: boolean): StepFailure | null {
    if (cancelled) return failure(unit, 'cancelled', 'cancelled before it ran');
    if (this.#loaded === null) return failure(unit, 'runtime_error', `model ${batch.modelId} is not loaded`);
    const pools = this.#pools.get(unit.sessionId);
    if (pools === undefined) return failure(unit, 'cancelled', `session ${unit.sessionId} is not attached`);
    const misplaced = this.#misplaced(unit, pools, this.#loaded.source.components[batch.component]);
    if (misplaced !== null) return failure(unit, 'runtime_error', misplaced);
    const sleeping = [...this.#asleep].find((tag) => tag === 'weights' || Object.values(unit.plan.outputs).some((output) => output.kind === 'block' && output.memory === tag));
    if (sleeping !== undefined) return failure(unit, 'runtime_error', `memory ${sleeping} is asleep`);
    return null;
  }

  /** Why an output can't be placed, or null. Checked before anything runs, so that publishing can't fail half-way. */
  #misplaced({ outputs }: PlannedUnit, pools: SessionPools, component: ComponentSpec | undefined): string | null {
    for (const [name, output] of Object.entries(outputs)) {
      const signature = component?.outputs[name];
      if (signature === undefined) return `there is no output ${name}`;
      if (output.kind === 'block' && this.#blocks.get(output.block) !== undefined) return `block ${output.block} is already written`;
      if (output.kind !== 'slot') continue;
      const { slots, slotBytes } = pools[output.pool];
      if (!(output.slot >= 0 && output.slot < slots)) return `${output.pool} slot ${output.slot} of ${slots}`;
      if (unitBytes(signature) > slotBytes) return `output ${name} is ${unitBytes(signature)} bytes, a ${output.pool} slot ${slotBytes}`;
    }
    return null;
  }

  /** Sleeping `kv` or `activations` discards those blocks: a loop rebuilds them from its latents. Sleeping `weights` frees the sessions. */
  async #sleep(tags: readonly MemoryTag[]): Promise<void> {
    for (const tag of tags) {
      this.#asleep.add(tag);
      if (tag === 'weights') await this.#loaded?.compiled.clear();
      else if (tag === 'staging') this.#gather.clear();
      else this.#blocks.free({ type: 'sleep', tags: [tag] });
    }
  }

  async #wake(tags: readonly MemoryTag[]): Promise<void> {
    for (const tag of tags) {
      if (tag === 'weights' && this.#asleep.has(tag) && this.#loaded !== null) {
        checkUnchanged(this.#loaded.checked);
        await compileAll(this.#loaded.compiled, this.#loaded.source, this.#loaded.files);
      }
      this.#asleep.delete(tag);
    }
  }

  #held(): HeldBlocks {
    return { count: this.#blocks.size, bytes: this.#blocks.bytes };
  }

  #copyOf(id: number): Float32Array | null {
    const tensor = this.#blocks.get(id)?.tensor;
    return tensor === undefined ? null : Float32Array.from(tensor.data as Float32Array, Number);
  }
}

async function compileAll(compiled: CompileCache, source: KernelSource, files: readonly ComponentFile[]): Promise<void> {
  for (const { componentId, path } of files) await compiled.compile(componentId, source.components[componentId]!, path);
}

/** @throws {DeviceError} where other weights lie there by now: nobody may compute with them under the name of those that were checked. */
function checkUnchanged(files: readonly CheckedFile[]): void {
  for (const { path, sha256 } of files) {
    if (createHash('sha256').update(readFileSync(path)).digest('hex') !== sha256) throw new DeviceError(`${basename(path)} is another file than the one that was checked`);
  }
}

async function eachInTurn<T, R>(items: readonly T[], run: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  for (const item of items) results.push(await run(item));
  return results;
}

function failure({ unitId, epoch }: PlannedUnit, code: StepFailure['code'], message: string): StepFailure {
  return { ok: false, unitId, epoch, code, message };
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
