import type { Clock, Timer } from '../../observe/clock.ts';
import { SegueError } from '../../protocol/errors.ts';
import type { TraceEvent } from '../../streams/messages.ts';
import type { ActionState } from '../../streams/session_words.ts';
import { SharedPool, type SharedPoolDescriptor } from '../../streams/shared_pool.ts';
import type { LoopState } from '../model/loop_kernel.ts';
import type { BlockRequest } from '../memory/BlockPool.ts';
import type { BlockId, WorkPlan } from '../model/work.ts';
import { HandedItem } from '../programs/inline_ports.ts';
import type { HandOverEvent, InlineProgram, InlineTransition, RunEvent, RunInputs } from '../programs/InlineProgram.ts';
import { DEFAULT_ATTEMPTS } from '../programs/node_policy.ts';
import type { CommittedStep, FilledSlot, Predict } from '../programs/RealtimeProgram.ts';
import type { AdmissionGrant } from '../scheduler/AdmissionController.ts';
import type { LoopTurn } from '../scheduler/LoopTurn.ts';
import type { QueuedTurn } from '../scheduler/ReadyQueue.ts';
import type { WorkUnit } from '../scheduler/WorkUnit.ts';
import { BehaviorRecorder, type BehaviorRecord, type RecordOptions } from './BehaviorRecord.ts';
import type { Device } from './Device.ts';
import { HeldState } from './HeldState.ts';
import { RunIntake } from './RunIntake.ts';
import { RunTimeline } from './RunTimeline.ts';
import { stepOf, type CommittedUnit, type WorkSource } from './WorkSource.ts';

export interface RunOpening {
  /** Unique among the sessions and runs of an engine. */
  readonly runId: string;
  readonly program: InlineProgram;
  readonly inputs: RunInputs;
  readonly seed: number;
  /** Where its pictures and sound go. Whoever takes an event releases its slots; while none is free the run waits. */
  readonly channels: { readonly video: SharedPoolDescriptor; readonly audio: SharedPoolDescriptor };
  /** Asked to end so soon, ms; admitted only if the device can. Null: it fills slack, promised nothing but not to starve. */
  readonly withinMs: number | null;
  readonly record: RecordOptions | null;
  readonly emit: (event: EmittedEvent) => void;
  /** Of a stage of a disaggregated run: takes an item over, whose blocks are held until `done`. */
  readonly handOver?: (event: HandOverEvent, done: () => void) => void;
  /** Pool of executors that it asks for; absent: those that are in none. */
  readonly role?: string;
  /** Once, as the last: nothing of it is left with the engine or its worker. */
  readonly ended: (end: RunEnd) => void;
}

/** What leaves a run. */
export type EmittedEvent = Exclude<RunEvent, HandOverEvent>;

export type RunEnd =
  | { readonly outcome: 'completed'; readonly usage: RunUsage; readonly record: BehaviorRecord | null }
  | { readonly outcome: 'cancelled' }
  | { readonly outcome: 'failed'; readonly error: SegueError };

export interface RunUsage {
  /** WorkUnits that were committed. */
  readonly units: number;
  /** Its share of the batches that its units were in, thrown-away ones included. */
  readonly deviceMs: number;
  readonly elapsedMs: number;
  /** It had a time to end by, and ended later. */
  readonly late: boolean;
}

export interface RunDependencies {
  readonly clock: Clock;
  readonly trace: (event: TraceEvent) => void;
  /** What may step has changed. */
  readonly changed: (run: InlineRun) => void;
  /** The same, and nobody else will look: something came from outside. */
  readonly woken: (run: InlineRun) => void;
  /** It has ended; what is still in flight comes back by itself. */
  readonly settled: () => void;
  readonly identity: Pick<BehaviorRecord, 'precision' | 'parallelPlanHash'>;
}

/** A cancelled run that has to give something whole first ends without it after so long: whoever cancels doesn't wait for who doesn't take. */
const CANCEL_LIMIT_MS = 5_000;
/** A run whose input says nothing for so long has been left alone. */
const INTAKE_STALL_MS = 60_000;
const NO_ACTION: ActionState = { sequence: 0, steer: 0, speed: 0, leftPresses: 0, rightPresses: 0 };

/**
 * One run of an inline program: to the dispatcher a source of work like a live session, but without a viewer. It has no
 * presentation timeline, no requests and nothing to rewind to; it begins, emits, and ends: completed, cancelled or failed.
 */
export class InlineRun implements WorkSource {
  readonly sessionId: string;
  readonly seed: number;
  readonly device: Device<WorkSource>;
  readonly grant: AdmissionGrant;
  readonly pools: { readonly video: SharedPool; readonly audio: SharedPool };
  readonly latch = { read: () => NO_ACTION };
  readonly action = NO_ACTION;
  // Nothing of a run is ever boosted.
  readonly reserve = { deadline: () => Infinity, charge: () => undefined };
  readonly timeline: Pick<RunTimeline, 'releaseMs' | 'deadlineMs'>;
  readonly boostedSinceMs = null;
  readonly betweenChunks = true;
  readonly epoch = 0;
  inFlight: WorkUnit | null = null;
  queued: QueuedTurn<WorkSource>[] = [];
  slackSinceMs: number | null = null;
  refusedSinceMs: number | null = null;
  readonly #opening: RunOpening;
  readonly #deps: RunDependencies;
  readonly #held: HeldState<unknown>;
  readonly #opened: InlineTransition<unknown>;
  readonly #asked: RunTimeline | null;
  readonly #recorder: BehaviorRecorder | null;
  readonly #failedSteps = new Map<string, number>();
  readonly #intake: RunIntake | null;
  readonly #startMs: number;
  #units = 0;
  /** Items that it gave to other stages and that aren't there yet. */
  #handingOver = 0;
  #deviceMs = 0;
  /** `ending`: all was given, its record is still being read. */
  #status: 'running' | 'ending' | 'ended' = 'running';
  #end: RunEnd | null = null;
  /** Ends a cancelled run that doesn't get to its boundary; null while nobody has cancelled. */
  #cancelling: Timer | null = null;

  /** @throws {SegueError} for inputs that the program can't run. */
  constructor(opening: RunOpening, { device, grant }: { readonly device: Device<WorkSource>; readonly grant: AdmissionGrant }, deps: RunDependencies) {
    const { runId, program, inputs, seed, channels, withinMs, record } = opening;
    this.#opened = program.open(inputs, seed);
    this.sessionId = runId;
    this.seed = seed;
    this.device = device;
    this.grant = grant;
    this.pools = { video: SharedPool.attach(channels.video), audio: SharedPool.attach(channels.audio) };
    this.#opening = opening;
    this.#deps = deps;
    this.#startMs = deps.clock.now();
    const { components } = program.demand(inputs);
    this.#asked = withinMs === null ? null : new RunTimeline({ startMs: this.#startMs, withinMs, totalMs: device.costs.undisturbedSum(components), longestMs: device.costs.longest(components) });
    this.timeline = this.#asked ?? { releaseMs: () => -Infinity, deadlineMs: () => Infinity };
    this.#recorder = record === null ? null : new BehaviorRecorder(record, { read: (block) => this.#read(block) });
    this.#intake =
      program.intake === undefined || program.intake.names.length === 0
        ? null
        : new RunIntake(inputs, program.intake.names, { clock: deps.clock, stallMs: INTAKE_STALL_MS, ...(program.intake.internal === undefined ? {} : { unwatched: program.intake.internal }), feed: (name, value) => this.#feed(name, value), failed: (error) => this.fault(error, true) });
    this.#held = new HeldState(this.#opened.state, program, device.pool, this.pools);
  }

  get programId(): string {
    return this.#opening.program.spec.programId;
  }

  get epochWord(): number {
    return this.closed ? this.epoch + 1 : this.epoch;
  }

  get closed(): boolean {
    return this.#status !== 'running';
  }

  get suspect(): boolean {
    return this.#failedSteps.size > 0;
  }

  /** How it ended; null while it runs, while a unit of it is out, or something that it handed over is still being read. */
  get end(): RunEnd | null {
    return this.inFlight === null && this.#handingOver === 0 ? this.#end : null;
  }

  /** Blocks of this run's account for what comes from another device, each with one reference that is the caller's. Null where it has ended. */
  allocate(requests: readonly BlockRequest[]): BlockId[] | null {
    return this.closed ? null : this.device.pool.allocate(this.grant.account, requests);
  }

  start(): void {
    this.#give(this.#opened.events);
    this.#deps.changed(this);
  }

  turns(): readonly LoopTurn[] {
    if (this.closed || this.inFlight !== null || !this.device.usable || this.device.switching !== null) return [];
    const all = this.#opening.program.turns(this.#held.state);
    const last = this.#cancelling === null ? null : this.#beforeCancelling();
    const needed = last === null ? all : all.filter(({ loopId }) => last.includes(loopId));
    // What has to be given whole may wait for somebody to take it first.
    const turns = needed.length > 0 ? needed : all;
    // Work that is due has a frame to lead to; slack has none.
    return this.#asked === null ? turns : turns.map((turn) => ({ ...turn, leadsTo: turn.leadsTo ?? 0 }));
  }

  fenced(): boolean {
    return false;
  }

  current(loopId: string): LoopState | null {
    return this.#opening.program.current(this.#held.state, loopId);
  }

  stage(step: CommittedStep, predict: Predict): (unit: CommittedUnit) => void {
    const transition = this.#advanced(step);
    return ({ plan }) => this.#commit(transition, step, plan, predict);
  }

  /** An input that was given and only now is looked at may be wrong: that is no failure of the step, and would not go away with another try. */
  #advanced(step: CommittedStep): InlineTransition<unknown> {
    try {
      return this.#opening.program.advance(this.#held.state, step);
    } catch (error) {
      if (error instanceof SegueError) this.fault(error, true);
      throw error;
    }
  }

  /** A step failed; its outputs are gone already. It is tried again from committed state, alone, as often as its node declares; then the run ends. */
  failed(error: SegueError, plan: WorkPlan, loopId: string): void {
    const failures = (this.#failedSteps.get(stepOf(plan)) ?? 0) + 1;
    this.#failedSteps.set(stepOf(plan), failures);
    if (failures >= (this.#opening.program.attempts?.(loopId) ?? DEFAULT_ATTEMPTS)) this.#finish({ outcome: 'failed', error });
    else this.#deps.changed(this);
  }

  fault(error: SegueError, fatal: boolean): void {
    if (this.closed) return;
    this.#trace('run.fault', { code: error.code, fatal });
    if (fatal) this.#finish({ outcome: 'failed', error });
  }

  spent(deviceMs: number): void {
    this.#deviceMs += deviceMs;
  }

  /** Takes effect at the next boundary of its nodes: at once (a unit that runs comes back to nobody), or when what some have begun is given whole. Idempotent. */
  cancel(): void {
    if (this.#status === 'ended' || this.#cancelling !== null) return;
    if (this.#beforeCancelling().length === 0) return this.#finish({ outcome: 'cancelled' });
    const { clock } = this.#deps;
    this.#cancelling = clock.schedule(clock.now() + CANCEL_LIMIT_MS, () => this.#finish({ outcome: 'cancelled' }));
    this.#deps.woken(this);
  }

  #beforeCancelling(): readonly string[] {
    return this.closed ? [] : (this.#opening.program.beforeCancelling?.(this.#held.state) ?? []);
  }

  #commit(transition: InlineTransition<unknown>, step: CommittedStep, plan: WorkPlan, predict: Predict): void {
    const { state, events } = transition;
    const filled = Object.entries(plan.outputs).flatMap(([name, output]): FilledSlot[] => {
      const slot = step.outputs.slots[name];
      return output.kind === 'slot' && slot !== undefined ? [{ pool: output.pool, slot }] : [];
    });
    this.#recorder?.committed(step, plan);
    this.#holdForHandOver(events);
    this.#held.replace(state, filled, events.flatMap(slotsOf));
    this.#failedSteps.delete(stepOf(plan));
    this.#units++;
    this.#asked?.advance(predict(plan.component));
    this.#give(events);
  }

  /** An item came in from outside, between two units or while one is out. */
  #feed(name: string, value: unknown): void {
    if (this.closed) return;
    let transition: InlineTransition<unknown>;
    try {
      transition = this.#opening.program.intake!.feed(this.#held.state, name, value);
    } catch (error) {
      return this.fault(error instanceof SegueError ? error : new SegueError('internal', 'an input could not be taken', { cause: error }), true);
    }
    this.#holdForHandOver(transition.events);
    this.#held.replace(transition.state, [], transition.events.flatMap(slotsOf));
    if (value instanceof HandedItem) {
      value.take();
      this.device.pool.release(value.blocks);
    }
    this.#give(transition.events);
    this.#deps.woken(this);
  }

  /** What is handed over is no part of the state any more, and is held until it is there. */
  #holdForHandOver(events: readonly RunEvent[]): void {
    for (const event of events) {
      if (event.type !== 'handover') continue;
      this.device.pool.retain(event.blocks);
      this.#handingOver++;
    }
  }

  #handOver(event: HandOverEvent): void {
    const done = (): void => {
      this.device.pool.release(event.blocks);
      this.#handingOver--;
      if (this.#end !== null) this.#deps.settled();
    };
    if (this.#opening.handOver === undefined || this.closed) done();
    else this.#opening.handOver(event, done);
  }

  /** Tells what came, and ends where nothing more can. */
  #give(events: readonly RunEvent[]): void {
    const { program, emit } = this.#opening;
    for (const event of events) {
      if (event.type === 'handover') this.#handOver(event);
      else if (!this.closed) emit(event);
      // Whoever was told may have cancelled: what comes after it is nobody's.
      else for (const { pool, slot } of slotsOf(event)) this.pools[pool].release(slot);
    }
    if (this.closed) return;
    const { state } = this.#held;
    if (this.#cancelling !== null && this.#beforeCancelling().length === 0) return this.#finish({ outcome: 'cancelled' });
    if (program.finished(state)) return void this.#complete();
    if (this.#cancelling === null) this.#intake?.pull(program.intake!.wants(state));
    if (this.#cancelling === null && program.turns(state).length === 0 && this.#intake?.waiting !== true) this.fault(new SegueError('internal', `run of ${this.programId} can't go on: ${program.describe(state)}`), true);
  }

  async #complete(): Promise<void> {
    this.#status = 'ending';
    this.#held.release();
    this.#intake?.close();
    const { loaded } = this.device;
    const record =
      this.#recorder === null
        ? null
        : await this.#recorder.finish({ runId: this.sessionId, programId: this.programId, modelId: loaded.modelId, weightsVersion: loaded.weightsVersion, adapterVersions: {}, fingerprint: loaded.fingerprint, ...this.#deps.identity, seed: this.seed });
    const nowMs = this.#deps.clock.now();
    const usage: RunUsage = { units: this.#units, deviceMs: this.#deviceMs, elapsedMs: nowMs - this.#startMs, late: this.#asked !== null && nowMs > this.#asked.endMs };
    this.#finish({ outcome: 'completed', usage, record });
  }

  #finish(end: RunEnd): void {
    if (this.#status === 'ended') return;
    this.#status = 'ended';
    this.#cancelling?.cancel();
    this.#end = end;
    this.#trace('run.ended', { outcome: end.outcome, units: this.#units });
    for (const queued of this.queued) this.device.queue.withdraw(queued);
    this.queued = [];
    if (this.inFlight !== null) this.device.worker.cancel?.([this.inFlight.planned.unitId]);
    this.#held.release();
    this.#intake?.close();
    this.grant.release();
    this.#deps.settled();
  }

  async #read(block: number): Promise<Float32Array> {
    const { pool, worker } = this.device;
    pool.retain([block]);
    try {
      const [values] = await worker.read([block]);
      return values!;
    } finally {
      pool.release([block]);
    }
  }

  #trace(name: string, args: Readonly<Record<string, string | number | boolean>>): void {
    this.#deps.trace({ type: 'trace.scheduler', name, atMs: this.#deps.clock.now(), sessionId: this.sessionId, programId: this.programId, args });
  }
}

/** Slots that an event hands to whoever takes it. */
export function slotsOf(event: RunEvent): FilledSlot[] {
  if (event.type === 'picture') return [{ pool: 'video', slot: event.videoSlot }];
  return event.type === 'media.chunk' ? [{ pool: 'video', slot: event.videoSlot }, { pool: 'audio', slot: event.audioSlot }] : [];
}
