import type { Clock } from '../../observe/clock.ts';
import { SegueError } from '../../protocol/errors.ts';
import type { TraceEvent } from '../../streams/messages.ts';
import type { StepOutputs } from '../model/loop_kernel.ts';
import { blocksRead, type BlockId, type PlannedUnit, type StepResult, type StepSuccess, type WorkUnitBatch } from '../model/work.ts';
import type { FilledSlot } from '../programs/RealtimeProgram.ts';
import type { LoopScheduler } from '../scheduler/LoopScheduler.ts';
import type { TransferScheduler } from '../scheduler/TransferScheduler.ts';
import type { PlannedTurn, WorkUnit } from '../scheduler/WorkUnit.ts';
import type { Device } from './Device.ts';
import { stepVerdict } from './step_verdict.ts';
import type { Tracer } from './Tracer.ts';
import type { CommittedUnit, WorkSource } from './WorkSource.ts';

export interface CommitterDependencies {
  readonly clock: Clock;
  readonly loops: LoopScheduler;
  readonly transfers: TransferScheduler;
  readonly trace: (event: TraceEvent) => void;
  readonly tracer: Pick<Tracer, 'units' | 'count'>;
  readonly lost: (device: Device<WorkSource>, message: string) => void;
  readonly requeue: (session: WorkSource) => void;
  readonly counters: { executed: number; discarded: number; failed: number; busyMs: number };
}

/** A unit that a worker has, and whose it is. */
export interface SessionUnit {
  readonly unit: WorkUnit;
  readonly session: WorkSource;
}

/**
 * Takes results back: validates, stages, compares with the epoch word, commits. Whatever doesn't commit leaves the state as it was and
 * gives its outputs back.
 */
export class StepCommitter {
  readonly #deps: CommitterDependencies;
  /** Units that a watchdog gave up while the worker still had them: their slots may yet be written. */
  readonly #givenUp = new WeakSet<WorkUnit>();

  constructor(deps: CommitterDependencies) {
    this.#deps = deps;
  }

  /** A worker answered for a batch, in time or not. */
  settle(device: Device<WorkSource>, batch: WorkUnitBatch, units: readonly SessionUnit[], results: readonly StepResult[]): void {
    const deviceMs = results.find((result): result is StepSuccess => result.ok)?.deviceMs ?? 0;
    const first = units[0]!.unit.plan;
    device.costs.observe(first.component, first.shapeKey, units.length, deviceMs);
    this.#deps.counters.busyMs += deviceMs;
    for (const entry of units) this.#settleUnit(device, entry, results, deviceMs / units.length);
    const lost = results.find((result) => !result.ok && result.code === 'executor_lost');
    // A worker that is ready all the same has gone on with another executor.
    if (lost !== undefined && !lost.ok && device.worker.health().state !== 'ready') this.#deps.lost(device, lost.message);
    this.#traceSteps(device, batch, units, deviceMs);
  }

  /** No answer came in time. The session goes on without the unit; what the unit still writes to stays reserved until the worker is done with it. */
  giveUp(device: Device<WorkSource>, units: readonly SessionUnit[], message: string): void {
    for (const { unit, session } of units) {
      this.#givenUp.add(unit);
      this.#deps.counters.failed++;
      device.pool.release([...inputBlocksOf(unit), ...outputBlocksOf(unit)]);
      if (session.inFlight !== unit) continue;
      session.inFlight = null;
      session.fault(new SegueError('unit_failed', message), false);
      this.#deps.requeue(session);
    }
  }

  /** Answers a step from the cache instead of running it. False where it isn't there. */
  fromCache(session: WorkSource, planned: PlannedTurn): boolean {
    const { turn, plan, cacheKey } = planned;
    if (cacheKey === null) return false;
    const { cache, pool } = session.device;
    const hit = cache.lookup(cacheKey, turn.kernel);
    this.#deps.trace({ type: 'trace.cache', name: hit === null ? 'miss' : 'hit', atMs: this.#deps.clock.now(), sessionId: session.sessionId, loopId: turn.loopId, args: { cacheClass: cache.policy.cacheClass } });
    if (hit === null) return false;
    const blocks = Object.values(hit.blocks);
    pool.retain(blocks);
    const stands = { unitId: 0, sessionId: session.sessionId, loopId: turn.loopId, kernel: turn.kernel, modelId: cacheKey.modelId, plan, outputs: {}, epoch: session.epoch };
    const step = this.#stage(session, planned, stands, { blocks: hit.blocks, slots: {}, values: hit.values, next: hit.next });
    if (step instanceof SegueError) session.failed(step, plan, turn.loopId);
    else step({ plan, action: session.action, conditioning: planned.conditioning });
    pool.release(blocks);
    this.#deps.requeue(session);
    return true;
  }

  #settleUnit(device: Device<WorkSource>, { unit, session }: SessionUnit, results: readonly StepResult[], shareMs: number): void {
    const { counters } = this.#deps;
    const slots = outputSlotsOf(unit);
    if (this.#givenUp.has(unit)) {
      // Long forgotten, and counted: only now nobody writes to its slots any more, and what it stored under ids that were freed can go.
      this.#releaseSlots(session, slots);
      for (const block of outputBlocksOf(unit)) this.#deps.transfers.release(device.worker, block);
      return;
    }
    if (unit.turn.boosted) session.reserve.charge(this.#deps.clock.now(), shareMs);
    if (unit.turn.restores === true) session.share?.charge(this.#deps.clock.now(), shareMs);
    session.spent?.(shareMs);
    const verdict = stepVerdict(unit, results, {
      inFlight: session.inFlight,
      closed: session.closed,
      epoch: session.epoch,
      epochWord: session.epochWord,
      current: !session.closed && session.current(unit.turn.loopId) === unit.turn.state,
    });
    if (session.inFlight === unit) session.inFlight = null;
    let failure: SegueError | null = null;
    let committed = false;
    if (verdict.verdict === 'commit') {
      const step = this.#stage(session, unit, unit.planned, outputsOf(unit, verdict.result));
      if (step instanceof SegueError) failure = step;
      else {
        step(unit);
        this.#publish(device, unit, verdict.result);
        committed = true;
      }
    } else if (verdict.verdict === 'fail') {
      const { code, message } = verdict.failure;
      // Where no other executor took over, the session waits, and is told at once.
      if (code === 'executor_lost' && device.worker.health().state !== 'ready') session.fault(new SegueError('engine_unavailable', message), false);
      if (code !== 'cancelled') failure = new SegueError('unit_failed', `${code}: ${message}`);
    }
    if (!committed) this.#releaseSlots(session, slots);
    device.pool.release([...inputBlocksOf(unit), ...outputBlocksOf(unit)]);
    counters[committed ? 'executed' : verdict.verdict === 'discard' ? 'discarded' : 'failed']++;
    if (verdict.verdict === 'discard') this.#trace('unit.discarded', unit, { reason: verdict.reason });
    if (failure !== null) {
      this.#trace('unit.failed', unit, { message: failure.message });
      session.failed(failure, unit.plan, unit.turn.loopId);
    }
    this.#deps.requeue(session);
  }

  /** The state that would follow, computed before anything changes; an error where kernel or program throws. */
  #stage(session: WorkSource, { turn, conditioning }: PlannedTurn, planned: PlannedUnit, outputs: StepOutputs): ((unit: CommittedUnit) => void) | SegueError {
    try {
      const stepped = this.#deps.loops.kernel(turn.kernel).advance(turn.state, planned, outputs);
      return session.stage({ turn, stepped, outputs, conditioning }, (component) => session.device.costs.component(component));
    } catch (error) {
      return new SegueError('unit_failed', error instanceof Error ? error.message : String(error), { cause: error });
    }
  }

  #publish({ cache }: Device<WorkSource>, unit: WorkUnit, { next, values }: StepSuccess): void {
    if (unit.cacheKey === null || unit.plan.cache?.publish !== true) return;
    const kept = cache.publish(unit.cacheKey, { blocks: outputsOf(unit, { next, values }).blocks, values, next }, unit.turn.kernel);
    this.#deps.trace({ type: 'trace.cache', name: kept ? 'published' : 'refused', atMs: this.#deps.clock.now(), sessionId: unit.planned.sessionId, loopId: unit.turn.loopId, args: { cacheClass: cache.policy.cacheClass } });
  }

  #releaseSlots(session: WorkSource, slots: readonly FilledSlot[]): void {
    for (const { pool, slot } of slots) session.pools[pool].release(slot);
  }

  #trace(name: string, { planned, turn, plan }: WorkUnit, args: Readonly<Record<string, string | number | boolean>>): void {
    this.#deps.trace({ type: 'trace.scheduler', name, atMs: this.#deps.clock.now(), sessionId: planned.sessionId, loopId: turn.loopId, epoch: planned.epoch, step: plan.step, args: { unit: planned.unitId, ...args } });
  }

  #traceSteps(device: Device<WorkSource>, batch: WorkUnitBatch, units: readonly SessionUnit[], deviceMs: number): void {
    const { clock, tracer } = this.#deps;
    const nowMs = clock.now();
    for (const { unit } of units) {
      const { planned, turn, plan, dispatchedAtMs, deadlineMs, predictedMs } = unit;
      tracer.count(plan.kind, deviceMs / units.length, nowMs > deadlineMs, nowMs);
      if (!tracer.units) continue;
      this.#deps.trace({
        type: 'trace.step',
        name: plan.kind,
        atMs: dispatchedAtMs,
        durationMs: nowMs - dispatchedAtMs,
        sessionId: planned.sessionId,
        programId: unit.programId,
        loopId: turn.loopId,
        modelId: planned.modelId,
        workerId: device.workerId,
        epoch: planned.epoch,
        step: plan.step,
        args: { unit: planned.unitId, batch: batch.batchId, deviceMs, predictedMs, late: nowMs > deadlineMs },
      });
    }
  }
}

/** Inputs stay alive until the result is back, whatever happens to the state that they came from. */
export function inputBlocksOf({ plan }: PlannedTurn): BlockId[] {
  return blocksRead(plan);
}

function outputBlocksOf({ planned }: WorkUnit): BlockId[] {
  return Object.values(planned.outputs).flatMap((output) => (output.kind === 'block' ? [output.block] : []));
}

function outputSlotsOf({ planned }: WorkUnit): FilledSlot[] {
  return Object.values(planned.outputs).flatMap((output) => (output.kind === 'slot' ? [{ pool: output.pool, slot: output.slot }] : []));
}

function outputsOf({ planned }: WorkUnit, { next, values }: Pick<StepSuccess, 'next' | 'values'>): StepOutputs {
  const blocks: Record<string, BlockId> = {};
  const slots: Record<string, number> = {};
  for (const [name, output] of Object.entries(planned.outputs)) {
    if (output.kind === 'block') blocks[name] = output.block;
    else if (output.kind === 'slot') slots[name] = output.slot;
  }
  return { blocks, slots, values, next };
}
