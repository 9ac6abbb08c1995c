import type { Clock, Timer } from '../../observe/clock.ts';
import { SegueError } from '../../protocol/errors.ts';
import type { EngineToControl, TraceEvent } from '../../streams/messages.ts';
import { SpecError } from '../model/spec/spec_error.ts';
import type { LoopScheduler } from '../scheduler/LoopScheduler.ts';
import type { PreparedWeights } from '../workers/Worker.ts';
import type { Device } from './Device.ts';
import type { EngineSession } from './EngineSession.ts';
import type { InlineRun } from './InlineRun.ts';
import type { WorkSource } from './WorkSource.ts';

export interface ModelReloadParts {
  readonly clock: Clock;
  readonly devices: readonly Device<WorkSource>[];
  readonly loops: LoopScheduler;
  readonly sessions: () => readonly EngineSession[];
  readonly runs: (device: Device<WorkSource>) => readonly InlineRun[];
  /** All that step on a device. */
  readonly sources: (device: Device<WorkSource>) => readonly WorkSource[];
  readonly requeue: (source: WorkSource) => void;
  readonly round: () => void;
  readonly trace: (event: TraceEvent) => void;
  /** Checks what lies in the model's directory and loads it on each device, beside what serves; null: the same weights. Absent: nothing can be reloaded. */
  readonly prepare?: () => Promise<readonly PreparedWeights[] | null>;
  readonly answer: (message: Extract<EngineToControl, { type: 'model.reloaded' }>) => void;
}

interface WaitingWeights {
  readonly prepared: readonly PreparedWeights[];
  readonly sinceMs: number;
  readonly patience: Timer;
  /** Whoever isn't between two chunks gives up the one in flight. */
  readonly atOnce: boolean;
}

/** A session that isn't between two chunks by then gives up the one in flight: a chunk takes a few units, and who waits here makes no media. */
const BOUNDARY_PATIENCE_MS = 1000;

/**
 * Other weights of the same model in the place of those that serve. They are loaded while everything goes on; then each session finishes the chunk that it
 * is in and waits, and once all are between two chunks they go on with the new ones, window and scene as the old ones left them.
 * What can't be used is refused, and the old ones serve on.
 */
export class ModelReload {
  readonly #parts: ModelReloadParts;
  #request: number | null = null;
  #waiting: WaitingWeights | null = null;
  #closed = false;

  constructor(parts: ModelReloadParts) {
    this.#parts = parts;
  }

  /** Answered once: when all sessions go on, or with why nothing has changed. */
  async begin(request: number): Promise<void> {
    const { prepare, answer, devices } = this.#parts;
    const { weightsVersion } = devices[0]!.loaded;
    if (this.#request !== null) return answer({ type: 'model.reloaded', request, error: new SegueError('conflict', 'the model is being reloaded already').toBody() });
    this.#request = request;
    try {
      if (prepare === undefined) throw new SegueError('model_not_usable', 'this engine can’t reload its model');
      const prepared = await prepare();
      if (prepared === null) return this.#answer({ weightsVersion, previous: weightsVersion, sessions: 0, heldMs: 0 });
      if (this.#closed) await discard(prepared);
      if (this.#closed) throw new SegueError('draining', 'the engine is being stopped');
      this.#hold(prepared);
    } catch (error) {
      this.#refuse(reasonOf(error));
    }
  }

  /** Looks whether all may go on with the new weights. Called after every result, and whenever a session has ended. */
  settle(): void {
    const { devices, sessions } = this.#parts;
    if (this.#waiting === null || devices.some(({ busy }) => busy)) return;
    if (this.#waiting.atOnce || sessions().every((session) => session.closed || session.atBoundary)) this.#take(this.#waiting);
  }

  /** Idempotent. What is loaded ends with its worker. */
  close(): void {
    this.#closed = true;
    this.#waiting?.patience.cancel();
    if (this.#waiting !== null) this.#refuse(new SegueError('draining', 'the engine is being stopped'));
    this.#waiting = null;
  }

  #hold(prepared: readonly PreparedWeights[]): void {
    const { clock } = this.#parts;
    const sinceMs = clock.now();
    const patience = clock.schedule(sinceMs + BOUNDARY_PATIENCE_MS, () => this.#outOfPatience());
    this.#waiting = { prepared, sinceMs, patience, atOnce: false };
    this.#switch('boundary');
  }

  #outOfPatience(): void {
    if (this.#waiting === null) return;
    this.#waiting = { ...this.#waiting, atOnce: true };
    this.#switch('at_once');
  }

  #switch(switching: Device<WorkSource>['switching']): void {
    const { devices, sources, requeue, round } = this.#parts;
    for (const device of devices) {
      device.switching = switching;
      for (const source of sources(device)) requeue(source);
    }
    this.settle();
    round();
  }

  #take({ prepared, sinceMs, patience }: WaitingWeights): void {
    const { devices, loops, sessions, runs, clock, trace } = this.#parts;
    patience.cancel();
    this.#waiting = null;
    const previous = devices[0]!.loaded.weightsVersion;
    const { weightsVersion } = prepared[0]!;
    if (!prepared.every(({ ready }) => ready())) {
      void discard(prepared);
      this.#refuse(new SegueError('engine_unavailable', 'an executor was lost while its weights were to be replaced', { retryAfterMs: 1000 }));
      return this.#switch(null);
    }
    for (const [index, device] of devices.entries()) {
      prepared[index]!.take();
      device.loaded = { ...device.loaded, weightsVersion };
      for (const run of runs(device)) run.fault(new SegueError('engine_unavailable', 'the model’s weights were replaced while it ran', { retryAfterMs: 0 }), true);
    }
    loops.reloaded(weightsVersion);
    const heldMs = clock.now() - sinceMs;
    const live = sessions().filter(({ closed }) => !closed);
    for (const session of live) {
      session.reloaded();
      trace({ type: 'trace.scheduler', name: 'weights.replaced', atMs: sinceMs, durationMs: heldMs, sessionId: session.sessionId, workerId: session.device.workerId, args: { previous, weightsVersion } });
    }
    this.#answer({ weightsVersion, previous, sessions: live.length, heldMs });
    this.#switch(null);
  }

  #answer(reloaded: NonNullable<Extract<EngineToControl, { type: 'model.reloaded' }>['reloaded']>): void {
    const request = this.#request!;
    this.#request = null;
    this.#parts.answer({ type: 'model.reloaded', request, reloaded });
  }

  #refuse(error: SegueError): void {
    const request = this.#request;
    if (request === null) return;
    this.#request = null;
    this.#parts.answer({ type: 'model.reloaded', request, error: error.toBody() });
  }
}

async function discard(prepared: readonly PreparedWeights[]): Promise<void> {
  await Promise.all(prepared.map((one) => one.discard()));
}

function reasonOf(error: unknown): SegueError {
  if (error instanceof SegueError) return error;
  if (error instanceof SpecError) return new SegueError('model_not_usable', error.message, { param: error.fault.key, cause: error });
  return new SegueError('model_not_usable', error instanceof Error ? error.message : String(error), { cause: error });
}
