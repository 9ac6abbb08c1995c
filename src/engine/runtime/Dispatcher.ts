import type { Clock } from '../../observe/clock.ts';
import { SegueError } from '../../protocol/errors.ts';
import type { TraceEvent } from '../../streams/messages.ts';
import type { StepResult, WorkUnitBatch } from '../model/work.ts';
import { BatchScheduler } from '../scheduler/BatchScheduler.ts';
import type { LoopScheduler } from '../scheduler/LoopScheduler.ts';
import type { QueuedTurn } from '../scheduler/ReadyQueue.ts';
import type { TransferScheduler } from '../scheduler/TransferScheduler.ts';
import type { PlannedTurn, WorkUnit } from '../scheduler/WorkUnit.ts';
import type { Device } from './Device.ts';
import { DeviceLane } from './DeviceLane.ts';
import type { EngineOptions } from './engine_options.ts';
import { inputBlocksOf, StepCommitter, type SessionUnit } from './StepCommitter.ts';
import { turnDeadlineMs, turnReleaseMs } from './turn_times.ts';
import { reserveOutputs } from './unit_outputs.ts';
import { WholeChunks } from './WholeChunks.ts';
import type { Tracer } from './Tracer.ts';
import type { WorkSource } from './WorkSource.ts';

export interface DispatcherDependencies {
  readonly clock: Clock;
  readonly options: EngineOptions;
  readonly loops: LoopScheduler;
  readonly transfers: TransferScheduler;
  readonly devices: readonly Device<WorkSource>[];
  readonly trace: (event: TraceEvent) => void;
  readonly tracer: Pick<Tracer, 'units' | 'count'>;
  /** A worker lost a batch. */
  readonly lost: (device: Device<WorkSource>, message: string) => void;
  /** Runs after every result: somebody may wait for the engine to fall silent. */
  readonly settled: () => void;
}

/** Slots come back when media has encoded a frame, without a message: looked at again after this long. */
const RESERVATION_RETRY_MS = 4;
/** A session that can't reserve what admission promised it for this long is broken, not slow. */
const RESERVATION_WATCHDOG_MS = 5000;

/**
 * The scheduling round: for every idle device on which anything has changed, the most urgent turn is planned, reserved, joined with what may
 * join, and dispatched; one batch per device is out at a time, so that the next decision is made with all that is known by then. What a step
 * costs here depends neither on how many devices there are nor, but for a logarithm, on how many sessions.
 */
export class Dispatcher {
  readonly counters = { executed: 0, discarded: 0, failed: 0, busyMs: 0 };
  readonly #deps: DispatcherDependencies;
  readonly #batches = new BatchScheduler();
  readonly #committer: StepCommitter;
  #nextUnitId = 1;
  #nextBatchId = 1;
  /** Of the baseline policies; null where units of different sessions may alternate. */
  readonly #wholeChunks: WholeChunks | null;
  readonly #lanes: ReadonlyMap<Device<WorkSource>, DeviceLane>;
  /** Devices on which something has changed since they were looked at. */
  readonly #changed = new Set<Device<WorkSource>>();
  #running = false;

  constructor(deps: DispatcherDependencies) {
    this.#deps = deps;
    this.#wholeChunks = deps.options.policy === 'unit' ? null : new WholeChunks(deps.options.chunkOrder);
    this.#committer = new StepCommitter({ ...deps, counters: this.counters, requeue: (session) => this.requeue(session) });
    const released = (device: Device<WorkSource>): void => {
      this.#changed.add(device);
      this.round();
    };
    const { clock, options } = deps;
    this.#lanes = new Map(deps.devices.map((device) => [device, new DeviceLane(device, { clock, unitWatchdogMs: options.unitWatchdogMs, released, expired: (of, units) => this.#expired(of, units) })]));
  }

  /** Reads anew what a session may step, and when. Called on every change of it; costs the same whatever other sessions there are. */
  requeue(session: WorkSource): void {
    const nowMs = this.#deps.clock.now();
    const { device } = session;
    this.#changed.add(device);
    for (const queued of session.queued) device.queue.withdraw(queued);
    session.queued = session.turns().flatMap((turn): QueuedTurn<WorkSource>[] => {
      const releaseMs = turnReleaseMs(session, turn);
      if (releaseMs === Infinity) return [];
      const rank = this.#wholeChunks?.rank(session, releaseMs, nowMs);
      const queued = { session, turn, releaseMs, deadlineMs: turnDeadlineMs(session, turn, nowMs), ...(rank === undefined ? {} : { rank }), alone: session.suspect, void: false };
      device.queue.push(queued, nowMs);
      return [queued];
    });
  }

  /** Dispatches whatever can be. Reentrant calls are folded into the round that runs. */
  round(): void {
    if (this.#running) return;
    this.#running = true;
    // What changes meanwhile is added behind, and comes up in the same pass.
    for (const device of this.#changed) {
      this.#changed.delete(device);
      this.#serve(device);
      this.#lanes.get(device)!.arm();
    }
    this.#running = false;
    this.#deps.transfers.flush();
  }

  close(): void {
    for (const lane of this.#lanes.values()) lane.close();
  }

  #serve(device: Device<WorkSource>): void {
    while (device.usable && !device.busy) {
      const nowMs = this.#deps.clock.now();
      const queued = this.#wholeChunks === null ? device.queue.take(nowMs) : this.#wholeChunks.take(device, nowMs);
      if (queued === null) return;
      const planned = this.#plan(queued, nowMs);
      if (planned === null) continue;
      const unit = this.#reserve(queued, planned, nowMs);
      if (unit !== null) this.#dispatch(device, [{ unit, session: queued.session }, ...this.#join(device, queued.session, unit, nowMs)], nowMs);
    }
  }

  /** Null where the turn no longer stands, or was answered from the cache. */
  #plan(queued: QueuedTurn<WorkSource>, nowMs: number): PlannedTurn | null {
    const { session, turn } = queued;
    if (session.closed || session.fenced() || session.inFlight !== null) return null;
    if (turnReleaseMs(session, turn) > nowMs) {
      this.requeue(session);
      return null;
    }
    const { action } = session;
    let planned: PlannedTurn | null;
    try {
      planned = this.#deps.loops.plan(turn, session.seed, session.latch.read(action));
    } catch (error) {
      // Planning is pure, so another try would end the same way; and it must end nobody else's round.
      session.fault(new SegueError('unit_failed', `${turn.component} could not be planned: ${error instanceof Error ? error.message : String(error)}`, { cause: error }), true);
      return null;
    }
    if (planned === null) return null;
    return this.#committer.fromCache(session, planned) ? null : planned;
  }

  /** Everything the unit needs or nothing: blocks of the session's account, slots of its pools. Refused turns come back later. */
  #reserve(queued: QueuedTurn<WorkSource>, planned: PlannedTurn, nowMs: number): WorkUnit | null {
    const { session, turn, deadlineMs } = queued;
    const { device } = session;
    const outputs = reserveOutputs(session, planned);
    if (outputs === null) return this.#refused(queued, nowMs);
    session.refusedSinceMs = null;
    const { plan } = planned;
    const unitId = this.#nextUnitId++;
    const unit: WorkUnit = {
      ...planned,
      planned: { unitId, sessionId: session.sessionId, loopId: turn.loopId, kernel: turn.kernel, modelId: device.loaded.modelId, plan, outputs, epoch: session.epoch },
      programId: session.programId,
      workerId: device.workerId,
      action: session.action,
      deadlineMs,
      predictedMs: device.costs.predict(plan.component, plan.shapeKey),
      dispatchedAtMs: nowMs,
    };
    device.pool.retain(inputBlocksOf(unit));
    session.inFlight = unit;
    for (const other of session.queued) device.queue.withdraw(other);
    session.queued = [];
    if (turn.leadsTo === null && !turn.boosted) session.slackSinceMs = null;
    return unit;
  }

  #refused(queued: QueuedTurn<WorkSource>, nowMs: number): null {
    const { session } = queued;
    session.refusedSinceMs ??= nowMs;
    const waitedMs = nowMs - session.refusedSinceMs;
    // Slots that media holds are its way to say "slower"; blocks were promised, and their lack is a fault.
    const slotsLeft = session.pools.video.canAcquire() && session.pools.audio.canAcquire();
    if (slotsLeft && waitedMs > RESERVATION_WATCHDOG_MS) {
      session.fault(new SegueError('unit_failed', `memory of a step could not be reserved for ${Math.round(waitedMs)} ms`), true);
      return null;
    }
    const again = { ...queued, releaseMs: nowMs + RESERVATION_RETRY_MS, void: false };
    session.queued = [...session.queued.filter((other) => other !== queued), again];
    session.device.queue.push(again, nowMs);
    return null;
  }

  #join(device: Device<WorkSource>, session: WorkSource, first: WorkUnit, nowMs: number): SessionUnit[] {
    const { component, shapeKey, maxBatch } = first.plan;
    if (maxBatch === 1 || session.suspect) return [];
    const peers: QueuedTurn<WorkSource>[] = [];
    for (let peer = device.queue.takePeer(component); peer !== null; peer = peers.length < maxBatch - 1 ? device.queue.takePeer(component) : null) peers.push(peer);
    if (peers.length === 0) return [];
    const waiting = device.queue.others(component).map(({ deadlineMs, turn }) => ({ deadlineMs, costMs: device.costs.component(turn.component) }));
    const count = this.#batches.join({ nowMs, first, peers, waiting, maxBatch, costMs: (batch) => device.costs.predict(component, shapeKey, batch) });
    for (const peer of peers.slice(count)) device.queue.push(peer, nowMs);
    return peers.slice(0, count).flatMap((peer): SessionUnit[] => {
      const planned = this.#plan(peer, nowMs);
      if (planned === null) return [];
      if (planned.plan.shapeKey !== shapeKey || planned.turn.kernel !== first.turn.kernel) {
        device.queue.push(peer, nowMs);
        return [];
      }
      const unit = this.#reserve(peer, planned, nowMs);
      return unit === null ? [] : [{ unit, session: peer.session }];
    });
  }

  #dispatch(device: Device<WorkSource>, units: readonly SessionUnit[], nowMs: number): void {
    const first = units[0]!.unit;
    const batch: WorkUnitBatch = { batchId: this.#nextBatchId++, modelId: device.loaded.modelId, component: first.plan.component, kernel: first.turn.kernel, units: units.map(({ unit }) => unit.planned) };
    device.busy = true;
    this.#wholeChunks?.begin(device, units.map(({ session }) => session));
    const { watch } = this.#lanes.get(device)!;
    watch.begin(units);
    const settle = (results: readonly StepResult[]): void => {
      watch.end();
      device.busy = false;
      this.#changed.add(device);
      this.#committer.settle(device, batch, units, results);
      this.#deps.settled();
      this.round();
    };
    this.#traceDispatch(device, batch, units, nowMs);
    let answer: Promise<readonly StepResult[]>;
    try {
      answer = device.worker.executeWork(batch);
    } catch (error) {
      answer = Promise.reject(error instanceof Error ? error : new Error(String(error)));
    }
    answer.then(settle, (error: unknown) => {
      const message = error instanceof Error ? error.message : String(error);
      settle(units.map(({ unit: { planned: { unitId, epoch } } }) => ({ ok: false, unitId, epoch, code: 'runtime_error', message })));
    });
  }

  #expired(device: Device<WorkSource>, units: readonly SessionUnit[]): void {
    const message = `worker ${device.workerId} did not answer within ${this.#deps.options.unitWatchdogMs} ms`;
    this.#committer.giveUp(device, units, message);
    this.#deps.lost(device, message);
    this.round();
  }

  #traceDispatch(device: Device<WorkSource>, batch: WorkUnitBatch, units: readonly SessionUnit[], nowMs: number): void {
    if (!this.#deps.tracer.units) return;
    for (const { unit } of units) {
      const { planned, turn, plan, deadlineMs, predictedMs, programId } = unit;
      this.#deps.trace({
        type: 'trace.scheduler',
        name: 'dispatch',
        atMs: nowMs,
        sessionId: planned.sessionId,
        programId,
        loopId: turn.loopId,
        modelId: planned.modelId,
        workerId: device.workerId,
        epoch: planned.epoch,
        step: plan.step,
        args: { unit: planned.unitId, batch: batch.batchId, joined: units.length, slackMs: Math.round(deadlineMs - nowMs - predictedMs), boosted: turn.boosted },
      });
    }
  }
}
