import type { Clock, Timer } from '../../observe/clock.ts';
import { SegueError } from '../../protocol/errors.ts';
import type { TraceEvent } from '../../streams/messages.ts';
import type { BlockId, StepResult, UnitOutput, WorkUnitBatch } from '../model/work.ts';
import { BatchScheduler } from '../scheduler/BatchScheduler.ts';
import type { LoopScheduler } from '../scheduler/LoopScheduler.ts';
import type { LoopTurn } from '../scheduler/LoopTurn.ts';
import type { QueuedTurn } from '../scheduler/ReadyQueue.ts';
import type { TransferScheduler } from '../scheduler/TransferScheduler.ts';
import type { PlannedTurn, WorkUnit } from '../scheduler/WorkUnit.ts';
import { BatchWatch } from './BatchWatch.ts';
import { WholeChunks } from './WholeChunks.ts';
import type { Device } from './Device.ts';
import type { EngineOptions } from './engine_options.ts';
import { inputBlocksOf, StepCommitter, type SessionUnit } from './StepCommitter.ts';
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

/** Work without a frame is due this long after it began to wait: it fills slack, and starves for no longer than this. */
const SLACK_MS = 1000;
/** Slots come back when media has encoded a frame, without a message: looked at again after this long. */
const RESERVATION_RETRY_MS = 4;
/** A session that can't reserve what admission promised it for this long is broken, not slow. */
const RESERVATION_WATCHDOG_MS = 5000;

/**
 * The scheduling round: for every idle device, the most urgent turn is planned, reserved, joined with what may join, and dispatched;
 * one batch per device is out at a time, so that the next decision is made with all that is known by then.
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
  readonly #watches: ReadonlyMap<Device<WorkSource>, BatchWatch<readonly SessionUnit[]>>;
  #timer: { readonly timer: Timer; readonly atMs: number } | null = null;
  #running = false;
  #again = false;

  constructor(deps: DispatcherDependencies) {
    this.#deps = deps;
    this.#wholeChunks = deps.options.policy === 'unit' ? null : new WholeChunks(deps.options.chunkOrder);
    this.#committer = new StepCommitter({ ...deps, counters: this.counters, requeue: (session) => this.requeue(session) });
    this.#watches = new Map(deps.devices.map((device) => [device, new BatchWatch(deps.clock, deps.options.unitWatchdogMs, (units: readonly SessionUnit[]) => this.#expired(device, units))]));
  }

  /** Reads anew what a session may step, and when. Called on every change of it; costs the same whatever other sessions there are. */
  requeue(session: WorkSource): void {
    const nowMs = this.#deps.clock.now();
    for (const queued of session.queued) queued.void = true;
    session.queued = session.turns().flatMap((turn): QueuedTurn<WorkSource>[] => {
      const releaseMs = this.#releaseMs(session, turn);
      if (releaseMs === Infinity) return [];
      const rank = this.#wholeChunks?.rank(session, releaseMs, nowMs);
      const queued = { session, turn, releaseMs, deadlineMs: this.#deadlineMs(session, turn, nowMs), ...(rank === undefined ? {} : { rank }), void: false };
      session.device.queue.push(queued, nowMs);
      return [queued];
    });
  }

  /** Dispatches whatever can be. Reentrant calls are folded into the round that runs. */
  round(): void {
    if (this.#running) {
      this.#again = true;
      return;
    }
    this.#running = true;
    do {
      this.#again = false;
      for (const device of this.#deps.devices) this.#serve(device);
    } while (this.#again);
    this.#running = false;
    this.#deps.transfers.flush();
    this.#setTimer();
  }

  close(): void {
    this.#timer?.timer.cancel();
    this.#timer = null;
    for (const watch of this.#watches.values()) watch.close();
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
    const releaseMs = this.#releaseMs(session, turn);
    if (releaseMs > nowMs) {
      this.requeue(session);
      return null;
    }
    const { action } = session;
    const planned = this.#deps.loops.plan(turn, session.seed, session.latch.read(action));
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
    for (const other of session.queued) other.void = true;
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
    queued.void = true;
    session.queued = [...session.queued.filter((other) => other !== queued), again];
    session.device.queue.push(again, nowMs);
    return null;
  }

  #join(device: Device<WorkSource>, session: WorkSource, first: WorkUnit, nowMs: number): SessionUnit[] {
    const { component, shapeKey, maxBatch } = first.plan;
    if (maxBatch === 1 || session.suspect) return [];
    const peers: QueuedTurn<WorkSource>[] = [];
    const alone: QueuedTurn<WorkSource>[] = [];
    for (let peer = device.queue.takePeer(component); peer !== null; peer = peers.length < maxBatch - 1 ? device.queue.takePeer(component) : null) (peer.session.suspect ? alone : peers).push(peer);
    for (const peer of alone) device.queue.push(peer, nowMs);
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
    this.#watches.get(device)!.begin(units);
    const settle = (results: readonly StepResult[]): void => {
      this.#watches.get(device)!.end();
      device.busy = false;
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

  #releaseMs(session: WorkSource, turn: LoopTurn): number {
    return turn.opensMedia && turn.leadsTo !== null ? session.timeline.releaseMs(turn.leadsTo) : -Infinity;
  }

  #deadlineMs(session: WorkSource, turn: LoopTurn, nowMs: number): number {
    const { costs } = session.device;
    if (turn.restores === true && session.share !== undefined) return session.share.deadline(nowMs, nowMs, costs.component(turn.component));
    let deadlineMs: number;
    if (turn.leadsTo === null) {
      session.slackSinceMs ??= nowMs;
      deadlineMs = session.slackSinceMs + SLACK_MS;
    } else {
      deadlineMs = session.timeline.deadlineMs(turn.leadsTo);
      for (const component of turn.after) deadlineMs -= costs.component(component);
    }
    const since = session.boostedSinceMs;
    return turn.boosted && since !== null ? Math.min(deadlineMs, session.reserve.deadline(nowMs, since, costs.component(turn.component))) : deadlineMs;
  }

  /** One timer for whatever is released next. One that is too early stays: its round finds nothing and sets it anew. */
  #setTimer(): void {
    let nextMs = Infinity;
    for (const { queue, usable, busy } of this.#deps.devices) if (usable && !busy) nextMs = Math.min(nextMs, queue.nextReleaseMs() ?? Infinity);
    if (nextMs === Infinity || (this.#timer !== null && this.#timer.atMs <= nextMs)) return;
    this.#timer?.timer.cancel();
    const timer = this.#deps.clock.schedule(nextMs, () => {
      this.#timer = null;
      this.round();
    });
    this.#timer = { timer, atMs: nextMs };
  }
}

function reserveOutputs(session: WorkSource, { plan }: PlannedTurn): Readonly<Record<string, UnitOutput>> | null {
  const { device, grant, pools } = session;
  const declared = Object.entries(plan.outputs);
  const requests = declared.flatMap(([, output]) => (output.kind === 'block' ? [output] : []));
  const blocks = device.pool.allocate(grant.account, requests);
  if (blocks === null) return null;
  const free: BlockId[] = [...blocks];
  const outputs: Record<string, UnitOutput> = {};
  for (const [name, output] of declared) {
    if (output.kind === 'block') outputs[name] = { kind: 'block', block: free.shift()!, bytes: output.bytes };
    else if (output.kind === 'value') outputs[name] = { kind: 'value' };
    else {
      const slot = pools[output.pool].acquire();
      if (slot === null) {
        for (const taken of Object.values(outputs)) if (taken.kind === 'slot') pools[taken.pool].release(taken.slot);
        device.pool.release(blocks);
        return null;
      }
      outputs[name] = { kind: 'slot', pool: output.pool, slot };
    }
  }
  return outputs;
}
