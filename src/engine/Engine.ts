import { monotonicClock } from '../observe/clock.ts';
import { SegueError } from '../protocol/errors.ts';
import type { EngineCard, TraceEvent } from '../streams/messages.ts';
import { EngineRuns, type EngineEvent, type RunOptions } from './EngineRuns.ts';
import { collected, type Generated } from './Generated.ts';
import { InteractiveSession } from './InteractiveSession.ts';
import { createKernels, type Kernels } from './model/kernels/create_kernels.ts';
import { loadModelSpec } from './model/spec/load_model_spec.ts';
import type { ModelSpec } from './model/spec/model_spec.ts';
import { hashParallelPlan, parallelPlan } from './parallel/ParallelPlan.ts';
import type { DisaggregatedProgram } from './programs/disaggregate.ts';
import type { InlineProgram, RunInputs } from './programs/InlineProgram.ts';
import type { RealtimeProgram } from './programs/RealtimeProgram.ts';
import { EngineCore } from './runtime/EngineCore.ts';
import type { EngineOptions } from './runtime/engine_options.ts';
import type { SessionOptions } from './session_types.ts';
import { OnnxWorker } from './workers/OnnxWorker.ts';

/** What an engine can be asked for by name. */
export interface EnginePrograms {
  /** Those that are steered while they go on; the first is the default. */
  readonly live?: Readonly<Record<string, RealtimeProgram>>;
  /** Those that end. */
  readonly inline?: Readonly<Record<string, InlineProgram | DisaggregatedProgram>>;
}

export interface ExecutorPool {
  readonly roles: readonly string[];
  readonly executors: number;
}

export interface EngineLoadOptions {
  /** Device shares, one executor thread each; default as `deployment.yaml` says, or none where there are pools. */
  readonly devices?: number;
  /** Executors for roles of disaggregated programs (`placement.role`), apart from those that live sessions and all other runs are on. */
  readonly pools?: readonly ExecutorPool[];
  /** A unit's bits don't depend on who shares its batch; a lone unit costs twice as much. */
  readonly batchInvariant?: boolean;
  /** A second thread per device share that takes over when the first stops answering. */
  readonly spare?: boolean;
  readonly calibrationRuns?: number;
  readonly engine?: Partial<EngineOptions>;
  readonly programs?: (spec: ModelSpec, kernels: Kernels, pools: readonly ExecutorPool[]) => EnginePrograms;
  /** What the engine did, in batches, about ten times a second while there is anything. */
  readonly onTrace?: (events: readonly TraceEvent[]) => void;
}

/** As the engine can be put in front of a router: what it is, what it offers, what that costs here. */
export interface DeploymentCard extends EngineCard {
  readonly capabilities: readonly string[];
  /** Names that `generate` and `run` take. */
  readonly inlinePrograms: readonly string[];
  readonly parallelPlanHash: string;
  /** Executors, those of pools included. */
  readonly devices: number;
  readonly pools: readonly ExecutorPool[];
}

/**
 * A resident model and everything that serves it, in this process, without a server: scheduler on the calling thread, executors on threads of
 * their own. `openEngine` (`src/inline-programs/open_engine.ts`) loads one with the programs of its model.
 *
 * @example
 * await using engine = await openEngine('models/drive');
 * const film = await engine.generate('reason_then_generate', { prompt: 'a rainy night in the city', chunks: 12, actions }, { seed: 7 });
 */
export class Engine implements AsyncDisposable {
  readonly spec: ModelSpec;
  readonly kernels: Kernels;
  readonly core: EngineCore;
  readonly #programs: EnginePrograms;
  readonly #parallelPlanHash: string;
  readonly #runs: EngineRuns;
  readonly #sessions: Map<string, InteractiveSession>;
  readonly #workers: readonly OnnxWorker[];
  readonly #pools: readonly ExecutorPool[];
  #numSessions = 0;
  #closing: Promise<void> | null = null;

  private constructor(parts: Pick<Engine, 'spec' | 'kernels' | 'core'> & { readonly programs: EnginePrograms; readonly parallelPlanHash: string; readonly sessions: Map<string, InteractiveSession>; readonly workers: readonly OnnxWorker[]; readonly pools: readonly ExecutorPool[] }) {
    this.spec = parts.spec;
    this.kernels = parts.kernels;
    this.core = parts.core;
    this.#programs = parts.programs;
    this.#parallelPlanHash = parts.parallelPlanHash;
    this.#sessions = parts.sessions;
    this.#workers = parts.workers;
    this.#pools = parts.pools;
    this.#runs = new EngineRuns(parts.core, parts.spec.format);
  }

  /** @throws {SpecError} naming file and key, for a model that is not as its files say. @throws {TypeError} for a program that the model can't run. */
  static async load(modelDir: string, { devices, pools = [], engine, programs: programsOf, onTrace, ...worker }: EngineLoadOptions = {}): Promise<Engine> {
    const spec = loadModelSpec(modelDir);
    const shared = devices ?? (pools.length > 0 ? 0 : spec.deployment.devices);
    const places = [...Array<readonly string[]>(shared).fill([]), ...pools.flatMap(({ roles, executors }) => Array<readonly string[]>(executors).fill(roles))];
    const count = places.length;
    if (count === 0) throw new TypeError(`an engine needs an executor: devices is ${shared}, the pools have none`);
    const kernels = createKernels(spec);
    const programs = programsOf?.(spec, kernels, pools) ?? {};
    const workers = Array.from({ length: count }, (_, index) => new OnnxWorker({ id: `executor-${index}`, ...worker }));
    const sessions = new Map<string, InteractiveSession>();
    const parallelPlanHash = hashParallelPlan(parallelPlan({ replica: count }, 1));
    try {
      const loaded = await Promise.all(workers.map(async (each, at) => ({ worker: each, loaded: await each.loadModel(modelDir), roles: places[at]! })));
      const core = new EngineCore({
        clock: monotonicClock,
        workers: loaded,
        kernels: Object.values(kernels),
        programs: programs.live ?? {},
        components: Object.keys(spec.components),
        identity: { precision: spec.variant.precision, parallelPlanHash },
        ...(engine === undefined ? {} : { options: engine }),
        toControl: (message) => {
          if (message.type === 'trace') onTrace?.(message.events);
          else if ('sessionId' in message) sessions.get(message.sessionId)?.onControl(message);
        },
        toMedia: (event) => sessions.get(event.sessionId)?.onMedia(event),
      });
      core.start();
      return new Engine({ spec, kernels, core, programs, parallelPlanHash, sessions, workers, pools });
    } catch (error) {
      await Promise.all(workers.map((each) => each.close()));
      throw error;
    }
  }

  /**
   * Runs a program once, to its end, and gives all that came of it: memory grows with its frames. For what comes as it comes, `run`.
   * @throws as `run`.
   */
  generate(program: string | InlineProgram | DisaggregatedProgram, inputs: RunInputs, options: RunOptions = {}): Promise<Generated> {
    return collected(this.run(program, inputs, options));
  }

  /**
   * Runs a program once. Begins when you begin to iterate; leaving the loop early ends the run. Every way out waits until nothing of it is left.
   * @param program a name of `programs.inline`, or one that you composed.
   * @throws {TypeError} the model can't run the program. @throws {SegueError} inputs, admission, failed units, your stall. The signal's reason where you abort.
   */
  run(program: string | InlineProgram | DisaggregatedProgram, inputs: RunInputs, options: RunOptions = {}): AsyncGenerator<EngineEvent, void, undefined> {
    return this.#runs.run(typeof program === 'string' ? named(this.#programs.inline, program) : program, inputs, options);
  }

  /**
   * Opens a live session, admitted like any viewer's: it is promised its share of a device, or refused.
   * @throws {SegueError} `at_capacity` with `retryAfterMs`, `program_not_found`, `prompt_not_understood`, `engine_unavailable`.
   */
  session(options: SessionOptions = {}): InteractiveSession {
    if (this.#closing !== null) throw new SegueError('engine_unavailable', 'the engine was closed');
    const program = options.program ?? Object.keys(this.#programs.live ?? {})[0];
    if (program === undefined) throw new SegueError('program_not_found', 'the engine was loaded without a live program', { param: 'program' });
    named(this.#programs.live, program);
    const sessionId = `session-${++this.#numSessions}`;
    const link = { clock: monotonicClock, format: this.spec.format, model: this.spec.modelId, receive: this.core.receive.bind(this.core), receiveMedia: this.core.receiveMedia.bind(this.core), ended: () => void this.#sessions.delete(sessionId) };
    const session = new InteractiveSession(sessionId, link, { ...options, program });
    this.#sessions.set(sessionId, session);
    session.open();
    return session;
  }

  /** What this engine can do and what it costs, with costs as measured by now. @throws {SegueError} `program_not_found` for an engine without a live program. */
  deploymentCard(): DeploymentCard {
    const card = this.core.card();
    if (card === null) throw new SegueError('program_not_found', 'the engine was loaded without a live program', { param: 'program' });
    return { ...card, capabilities: Object.keys(this.spec.capabilities), inlinePrograms: Object.keys(this.#programs.inline ?? {}), parallelPlanHash: this.#parallelPlanHash, devices: this.#workers.length, pools: this.#pools };
  }

  /** Takes one executor out of service, its current batch done: runs and sessions on it end with an error, all others go on. @throws {RangeError} there is none of that id. */
  async closeExecutor(workerId: string): Promise<void> {
    const worker = this.#workers.find(({ id }) => id === workerId);
    if (worker === undefined) throw new RangeError(`no executor ${workerId}, there are ${this.#workers.map(({ id }) => id).join(', ')}`);
    await worker.close();
  }

  /** Ends every session and run, then the executors. Idempotent. */
  close(): Promise<void> {
    this.#closing ??= this.#stop();
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #stop(): Promise<void> {
    const sessions = [...this.#sessions.values()].map((session) => session.close());
    this.core.close();
    // Units that are out come back within a watchdog's time, or are given up.
    await Promise.all([...sessions, this.#runs.settled()]);
    await Promise.all(this.#workers.map((worker) => worker.close()));
  }
}

function named<Program>(programs: Readonly<Record<string, Program>> = {}, name: string): Program {
  const program = Object.hasOwn(programs, name) ? programs[name] : undefined;
  if (program === undefined) throw new SegueError('program_not_found', `no program ${name}, there are ${Object.keys(programs).join(', ') || 'none'}`, { param: 'program' });
  return program;
}
