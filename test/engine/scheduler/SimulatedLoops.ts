/** Loops that only take time, on the dispatcher that serves: each is a source of work whose units are scripted, so that what is judged is the schedule. */
import assert from 'node:assert/strict';
import type { BlockId, PlannedUnit, StepResult, WorkPlan, WorkUnitBatch } from '../../../src/engine/model/work.ts';
import type { DeviceModel, LoopState, StepOutputs } from '../../../src/engine/model/loop_kernel.ts';
import type { CommittedStep } from '../../../src/engine/programs/RealtimeProgram.ts';
import { Device } from '../../../src/engine/runtime/Device.ts';
import { Dispatcher } from '../../../src/engine/runtime/Dispatcher.ts';
import { DEFAULT_ENGINE_OPTIONS, type EngineOptions } from '../../../src/engine/runtime/engine_options.ts';
import { RunTimeline } from '../../../src/engine/runtime/RunTimeline.ts';
import { SimulatedWorker, type SimulatedOutcome } from '../../../src/engine/runtime/SimulatedWorker.ts';
import type { CommittedUnit, WorkSource } from '../../../src/engine/runtime/WorkSource.ts';
import type { AdmissionGrant } from '../../../src/engine/scheduler/AdmissionController.ts';
import { LoopScheduler, type ScheduledKernel } from '../../../src/engine/scheduler/LoopScheduler.ts';
import type { LoopTurn } from '../../../src/engine/scheduler/LoopTurn.ts';
import type { QueuedTurn } from '../../../src/engine/scheduler/ReadyQueue.ts';
import { TransferScheduler } from '../../../src/engine/scheduler/TransferScheduler.ts';
import type { WorkUnit } from '../../../src/engine/scheduler/WorkUnit.ts';
import { VirtualClock } from '../../../src/observe/virtual_clock.ts';
import type { SegueError } from '../../../src/protocol/errors.ts';
import { SharedPool } from '../../../src/streams/shared_pool.ts';

/** A component of the scripted model: what one unit of it takes, and how many may share a batch. */
export interface ScriptedComponent {
  readonly ms: number;
  readonly maxBatch: number;
}

export interface SimulatedLoopsOptions {
  readonly components: Readonly<Record<string, ScriptedComponent>>;
  readonly devices?: number;
  readonly engine?: Partial<EngineOptions>;
  readonly outcome?: (batch: WorkUnitBatch, predictedMs: number) => SimulatedOutcome;
}

const BLOCK_BYTES = 8;
const NO_ACTION = { sequence: 0, steer: 0, speed: 0, leftPresses: 0, rightPresses: 0 };
const LOADED = { modelId: 'scripted', weightsVersion: '1', fingerprint: 'virtual' };

/** Reads the block of the step before, makes one, and fills a slot. */
class ScriptedKernel implements ScheduledKernel {
  readonly kind = 'scripted';
  readonly #components: SimulatedLoopsOptions['components'];

  constructor(components: SimulatedLoopsOptions['components']) {
    this.#components = components;
  }

  planStep(state: LoopState): WorkPlan {
    const component = state.plan['component'] as string;
    return {
      kind: 'ar_token',
      component,
      step: state.version,
      shapeKey: component,
      maxBatch: this.#components[component]!.maxBatch,
      inputs: Object.fromEntries(state.blocks.map((block, index) => [`in_${index}`, { kind: 'block', block }])),
      outputs: { made: { kind: 'block', bytes: BLOCK_BYTES, memory: 'kv' }, out: { kind: 'slot', pool: 'video' } },
      state: state.plan,
      boundary: true,
      leadsTo: null,
      cache: null,
    };
  }

  advance(state: LoopState, _unit: PlannedUnit, outputs: StepOutputs): LoopState {
    return { version: state.version + 1, plan: state.plan, blocks: [outputs.blocks['made']!] };
  }

  async runStep(batch: WorkUnitBatch, device: DeviceModel): Promise<StepResult[]> {
    const { deviceMs } = await device.run(batch);
    return batch.units.map(({ unitId, epoch, plan }) => ({ ok: true, unitId, epoch, next: plan.state, values: {}, deviceMs }));
  }
}

export interface LoopRequest {
  readonly component: string;
  /** Units until it is done. */
  readonly units: number;
  /** It asks to be done by then; null: it fills slack. */
  readonly withinMs: number | null;
  readonly device?: number;
}

/** One loop, from its request to its last unit, and what became of every unit. */
export class SimulatedLoop implements WorkSource {
  readonly programId = 'scripted';
  readonly seed = 1;
  readonly latch = { read: () => NO_ACTION };
  readonly action = NO_ACTION;
  readonly reserve = { deadline: () => Infinity, charge: () => undefined };
  readonly boostedSinceMs = null;
  readonly pools = { video: SharedPool.create(8, 2), audio: SharedPool.create(8, 1) };
  readonly arrivedMs: number;
  /** Versions that were committed, and the epoch of each. */
  readonly commits: { readonly version: number; readonly epoch: number; readonly word: number; readonly atMs: number }[] = [];
  readonly faults: SegueError[] = [];
  endedMs: number | null = null;
  failures = 0;
  inFlight: WorkUnit | null = null;
  queued: QueuedTurn<WorkSource>[] = [];
  slackSinceMs: number | null = null;
  refusedSinceMs: number | null = null;
  epoch = 0;
  epochWord = 0;
  #failed = false;
  #state: LoopState;
  readonly sessionId: string;
  readonly request: LoopRequest;
  readonly device: Device<WorkSource>;
  readonly grant: AdmissionGrant;
  readonly #loops: SimulatedLoops;
  readonly #timeline: RunTimeline | null;

  constructor(sessionId: string, request: LoopRequest, device: Device<WorkSource>, grant: AdmissionGrant, loops: SimulatedLoops) {
    this.sessionId = sessionId;
    this.request = request;
    this.device = device;
    this.grant = grant;
    this.#loops = loops;
    this.arrivedMs = loops.clock.now();
    const { component, units, withinMs } = request;
    const unitMs = device.costs.component(component);
    this.#timeline = withinMs === null ? null : new RunTimeline({ startMs: this.arrivedMs, withinMs, totalMs: units * unitMs, longestMs: unitMs });
    this.#state = { version: 0, plan: { component }, blocks: [] };
  }

  get timeline(): WorkSource['timeline'] {
    return this.#timeline ?? { releaseMs: () => -Infinity, deadlineMs: () => Infinity };
  }

  get closed(): boolean {
    return this.endedMs !== null;
  }

  get suspect(): boolean {
    return this.#failed;
  }

  get betweenChunks(): boolean {
    return this.closed || this.#state.version === 0;
  }

  get state(): LoopState {
    return this.#state;
  }

  turns(): readonly LoopTurn[] {
    if (this.closed || this.inFlight !== null || !this.device.usable || this.fenced()) return [];
    return [{ loopId: 'loop', kernel: 'scripted', component: this.request.component, state: this.#state, lineage: 0, conditioning: { kind: 'live', version: 0, prompt: null }, leadsTo: this.#timeline === null ? null : 0, after: [], opensMedia: false, boosted: false }];
  }

  fenced(): boolean {
    return this.epoch !== this.epochWord;
  }

  current(): LoopState {
    return this.#state;
  }

  stage({ stepped, outputs }: CommittedStep): (unit: CommittedUnit) => void {
    return () => {
      this.device.pool.retain(stepped.blocks);
      this.device.pool.release(this.#state.blocks);
      this.#state = stepped;
      this.#failed = false;
      this.pools.video.release(outputs.slots['out']!);
      this.#timeline?.advance(this.device.costs.component(this.request.component));
      this.commits.push({ version: stepped.version, epoch: this.epoch, word: this.epochWord, atMs: this.#loops.clock.now() });
      if (stepped.version === this.request.units) this.end();
    };
  }

  failed(): void {
    this.failures++;
    this.#failed = true;
  }

  fault(error: SegueError, fatal: boolean): void {
    this.faults.push(error);
    if (fatal) this.end();
  }

  /** Raises the word, as whoever fences does; the engine is told by `adopt`. */
  fence(): void {
    this.epochWord++;
  }

  adopt(): void {
    this.epoch = this.epochWord;
    this.#loops.dispatcher.requeue(this);
    this.#loops.dispatcher.round();
  }

  /** Done, or cancelled. What is in flight comes back to nobody. */
  end(): void {
    if (this.closed) return;
    this.endedMs = this.#loops.clock.now();
    for (const queued of this.queued) this.device.queue.withdraw(queued);
    this.queued = [];
    this.device.pool.release(this.#state.blocks);
    this.grant.release();
  }
}

/** Devices, the dispatcher, and loops that come and go. */
export class SimulatedLoops {
  readonly clock = new VirtualClock();
  readonly devices: readonly Device<WorkSource>[];
  readonly workers: readonly SimulatedWorker[];
  readonly dispatcher: Dispatcher;
  readonly loops: SimulatedLoop[] = [];
  /** Units that were handed to a worker. */
  dispatched = 0;

  constructor({ components, devices = 1, engine = {}, outcome = (_, deviceMs) => ({ deviceMs, answer: 'ok' }) }: SimulatedLoopsOptions) {
    const kernel = new ScriptedKernel(components);
    const cost = Object.entries(components).map(([component, { ms }]) => ({ component, shapeKey: component, batch: 1, p50Ms: ms, p95Ms: ms }));
    const options: EngineOptions = { ...DEFAULT_ENGINE_OPTIONS, memory: { kv: 2 ** 30 }, cacheMemory: {}, ...engine };
    const transfers = new TransferScheduler();
    let lastBlock: BlockId = 0;
    this.workers = Array.from({ length: devices }, (_, index) => new SimulatedWorker({
      id: `w${index}`,
      clock: this.clock,
      loaded: { ...LOADED, cost },
      kernels: { scripted: kernel },
      outcome: (batch) => {
        this.dispatched += batch.units.length;
        // Joining saves a fifth at the most, as measured with the shipped model.
        const size = batch.units.length;
        return outcome(batch, components[batch.component]!.ms * (size - 0.06 * size * (size - 1)));
      },
    }));
    this.devices = this.workers.map((worker) => new Device<WorkSource>({ worker, loaded: { ...LOADED, cost }, options, transfers, nextBlockId: () => ++lastBlock }));
    this.dispatcher = new Dispatcher({
      clock: this.clock,
      options,
      loops: new LoopScheduler(new Map([['scripted', kernel]]), { modelId: 'scripted', weightsVersion: '1', adapterVersions: {}, precision: 'fp32', parallelPlanHash: 'single' }),
      transfers,
      devices: this.devices,
      trace: () => undefined,
      tracer: { units: false, count: () => undefined },
      lost: (device) => this.#lost(device),
      settled: () => undefined,
    });
  }

  /** A loop arrives now; null where its memory can't be promised. */
  open(request: LoopRequest): SimulatedLoop | null {
    const device = this.devices[request.device ?? 0]!;
    const sessionId = `loop-${this.loops.length}`;
    // The block that is read and the one that is made.
    const admission = device.admission.admitSlack(sessionId, { kv: 2 * BLOCK_BYTES });
    if (!admission.admitted) return null;
    device.worker.attach(sessionId, { video: SharedPool.create(8, 1).descriptor, audio: SharedPool.create(8, 1).descriptor });
    const loop = new SimulatedLoop(sessionId, request, device, admission.grant, this);
    this.loops.push(loop);
    this.dispatcher.requeue(loop);
    this.dispatcher.round();
    return loop;
  }

  /** Nothing waits that could run: asked between any two events. */
  checkWorkConserved(): void {
    for (const device of this.devices) {
      if (device.busy || !device.usable) continue;
      const waiting = this.loops.find((loop) => loop.device === device && loop.queued.some((queued) => !queued.void && queued.releaseMs <= this.clock.now()));
      assert.equal(waiting, undefined, `${device.workerId} is idle while ${waiting?.sessionId} waits`);
    }
  }

  /** Nothing is left of loops that have ended: no block, slot or reservation. */
  checkEmpty(): void {
    for (const { pool, workerId, queue } of this.devices) {
      assert.equal(pool.blocks, 0, `${workerId} has blocks`);
      assert.equal(pool.accounts, 1, 'only the cache’s account is open');
      assert.equal(queue.size, 0, 'nothing waits');
    }
    for (const worker of this.workers) {
      assert.deepEqual(worker.violations, []);
      assert.equal(worker.blocks, 0, 'the worker holds nothing that the engine has let go of');
    }
    for (const { pools, sessionId } of this.loops) assert.deepEqual([pools.video.used, pools.audio.used], [0, 0], `${sessionId} has slots`);
    const { executed, discarded, failed } = this.dispatcher.counters;
    assert.equal(executed + discarded + failed, this.dispatched, 'every unit that was dispatched was accounted for once');
    assert.equal(executed, this.loops.reduce((sum, { commits }) => sum + commits.length, 0));
  }

  #lost(device: Device<WorkSource>): void {
    device.usable = false;
    const again = (): void => {
      device.usable = device.worker.health().state === 'ready';
      if (!device.usable) return void this.clock.schedule(this.clock.now() + 50, again);
      for (const loop of this.loops) if (loop.device === device) this.dispatcher.requeue(loop);
      this.dispatcher.round();
    };
    this.clock.schedule(this.clock.now() + 50, again);
  }
}
