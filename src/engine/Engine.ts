import { monotonicClock } from '../observe/clock.ts';
import { SegueError } from '../protocol/errors.ts';
import type { MediaEvent } from '../streams/media_events.ts';
import type { EngineToControl } from '../streams/messages.ts';
import { SharedPool } from '../streams/shared_pool.ts';
import { createKernels, type Kernels } from './model/kernels/create_kernels.ts';
import { loadModelSpec } from './model/spec/load_model_spec.ts';
import type { ModelSpec } from './model/spec/model_spec.ts';
import { hashParallelPlan, parallelPlan } from './parallel/ParallelPlan.ts';
import type { InlineProgram, RunEvent, RunInputs, RunMedia } from './programs/InlineProgram.ts';
import type { RealtimeProgram } from './programs/RealtimeProgram.ts';
import type { BehaviorRecord, RecordOptions } from './runtime/BehaviorRecord.ts';
import { EngineCore } from './runtime/EngineCore.ts';
import type { EngineOptions } from './runtime/engine_options.ts';
import { slotsOf, type RunEnd, type RunUsage } from './runtime/InlineRun.ts';
import { RunStream } from './RunStream.ts';
import { OnnxWorker } from './workers/OnnxWorker.ts';

export interface EngineLoadOptions {
  /** Device shares, one executor thread each. */
  readonly devices?: number;
  /** A unit's bits don't depend on who shares its batch; a lone unit costs twice as much. */
  readonly batchInvariant?: boolean;
  /** A second thread per device share that takes over when the first stops answering. */
  readonly spare?: boolean;
  readonly calibrationRuns?: number;
  readonly engine?: Partial<EngineOptions>;
  /** Live programs that the engine serves beside its runs, with the two sinks that their sessions speak to. */
  readonly live?: { readonly programs: (spec: ModelSpec, kernels: Kernels) => Readonly<Record<string, RealtimeProgram>>; readonly toControl: (message: EngineToControl) => void; readonly toMedia: (event: MediaEvent) => void };
}

export interface RunOptions {
  /** Same seed, program and inputs: same result. Default 0. */
  readonly seed?: number;
  /** Ends the run at its next unit; the iteration then throws the signal's reason. */
  readonly signal?: AbortSignal;
  /** Frames that may wait for you, 2 to 64; default 4. When they are there the run waits and computes nothing; nothing is dropped. */
  readonly buffer?: number;
  /** You take nothing for so long while something waits: the run ends with `timed_out`. Default a minute. */
  readonly stallMs?: number;
  /** Asked to end so soon, ms; `at_capacity` where the device can't promise it. Default: it fills the slack that live sessions leave. */
  readonly withinMs?: number | null;
  /** Ask for a record of what was sampled and denoised, given with `completed`. */
  readonly record?: RecordOptions;
}

/** What a run gives you: copies, yours to keep. */
export type EngineEvent =
  | Exclude<RunEvent, RunMedia | { readonly type: 'picture' }>
  | { readonly type: 'picture'; /** RGB, `width × height × 3` bytes. */ readonly pixels: Uint8Array }
  | (Omit<RunMedia, 'videoSlot' | 'audioSlot' | 'samples'> & { /** RGB, `width × height × 3` bytes. */ readonly pixels: Uint8Array; /** Mono, signed 16 bit. */ readonly samples: Int16Array })
  | { readonly type: 'completed'; readonly usage: RunUsage; readonly record: BehaviorRecord | null };

/**
 * A resident model and everything that serves it, in this process: scheduler on the calling thread, executors on threads of their own.
 *
 * @example
 * const engine = await Engine.load('models/drive');
 * const drive = driveInline(engine.spec, engine.kernels, driveLanguage(PromptProcessor.load(engine.spec)));
 * for await (const event of engine.run(drive.program(REASON_THEN_GENERATE), inputs, { seed: 7, signal })) …
 * await engine.close();
 */
export class Engine {
  readonly spec: ModelSpec;
  readonly kernels: Kernels;
  readonly core: EngineCore;
  readonly #workers: readonly OnnxWorker[];
  readonly #ending = new Set<Promise<RunEnd>>();
  #numRuns = 0;
  #closing: Promise<void> | null = null;

  private constructor(spec: ModelSpec, kernels: Kernels, core: EngineCore, workers: readonly OnnxWorker[]) {
    this.spec = spec;
    this.kernels = kernels;
    this.core = core;
    this.#workers = workers;
  }

  /** @throws {SpecError} naming file and key, for a model that is not as its files say. */
  static async load(modelDir: string, { devices, engine, live, ...worker }: EngineLoadOptions = {}): Promise<Engine> {
    const spec = loadModelSpec(modelDir);
    const count = devices ?? spec.deployment.devices;
    const workers = Array.from({ length: count }, (_, index) => new OnnxWorker({ id: `executor-${index}`, ...worker }));
    try {
      const loaded = await Promise.all(workers.map(async (each) => ({ worker: each, loaded: await each.loadModel(modelDir) })));
      const kernels = createKernels(spec);
      const core = new EngineCore({
        clock: monotonicClock,
        workers: loaded,
        kernels: Object.values(kernels),
        programs: live?.programs(spec, kernels) ?? {},
        components: Object.keys(spec.components),
        identity: { precision: spec.variant.precision, parallelPlanHash: hashParallelPlan(parallelPlan({ replica: count }, 1)) },
        ...(engine === undefined ? {} : { options: engine }),
        toControl: live?.toControl ?? (() => undefined),
        toMedia: live?.toMedia ?? (() => undefined),
      });
      if (live !== undefined) core.start();
      return new Engine(spec, kernels, core, workers);
    } catch (error) {
      await Promise.all(workers.map((each) => each.close()));
      throw error;
    }
  }

  /**
   * Runs a program once. Begins when you begin to iterate; leaving the loop early ends the run. Every way out waits until nothing of it is left.
   * @throws {TypeError} the model can't run the program. @throws {SegueError} inputs, admission, failed units, your stall. The signal's reason where you abort.
   */
  async *run(program: InlineProgram, inputs: RunInputs, options: RunOptions = {}): AsyncGenerator<EngineEvent, void, undefined> {
    const { seed = 0, signal, buffer = 4, stallMs = 60_000, withinMs = null, record = null } = options;
    if (!Number.isInteger(buffer) || buffer < 2 || buffer > 64) throw new TypeError(`buffer is 2 to 64 frames, got ${buffer}`);
    signal?.throwIfAborted();
    const pools = this.#pools(buffer);
    let stalled = false;
    const stream = new RunStream<RunEvent>(monotonicClock, stallMs, () => {
      stalled = true;
      handle.cancel();
    });
    const ended = Promise.withResolvers<RunEnd>();
    const channels = { video: pools.video.descriptor, audio: pools.audio.descriptor };
    const handle = this.core.run({
      runId: `run-${++this.#numRuns}`,
      program,
      inputs,
      seed,
      channels,
      withinMs,
      record,
      emit: (event) => stream.push(event),
      ended: (end) => {
        ended.resolve(end);
        stream.end();
      },
    });
    this.#ending.add(ended.promise);
    const abort = (): void => {
      handle.cancel();
      stream.close();
    };
    signal?.addEventListener('abort', abort, { once: true });
    try {
      for (let event = await stream.take(); event !== null && signal?.aborted !== true; event = await stream.take()) yield taken(event, pools);
      const end = await ended.promise;
      signal?.throwIfAborted();
      if (end.outcome === 'failed') throw end.error;
      if (end.outcome === 'cancelled') throw stalled ? new SegueError('timed_out', `nobody took what the run gave for ${stallMs} ms`) : new SegueError('engine_unavailable', 'the engine was closed');
      yield { type: 'completed', usage: end.usage, record: end.record };
    } finally {
      signal?.removeEventListener('abort', abort);
      abort();
      await ended.promise;
      this.#ending.delete(ended.promise);
    }
  }

  /** Ends every run, then the executors. Idempotent. */
  close(): Promise<void> {
    this.#closing ??= this.#stop();
    return this.#closing;
  }

  async #stop(): Promise<void> {
    this.core.close();
    // Units that are out come back within a watchdog's time, or are given up.
    await Promise.all(this.#ending);
    await Promise.all(this.#workers.map((worker) => worker.close()));
  }

  #pools(slots: number) {
    const { width, height, audioSampleRate, framesPerSecond } = this.spec.format;
    const create = (bytes: number) => SharedPool.create(Math.ceil(bytes / 8) * 8, slots);
    return { video: create(width * height * 3), audio: create((audioSampleRate / framesPerSecond) * 2) };
  }
}

/** Copies a frame out of its slots and gives them back: from here on the run may make the next one. */
function taken(event: RunEvent, pools: Readonly<Record<'video' | 'audio', SharedPool>>): EngineEvent {
  if (event.type === 'picture') {
    const pixels = pools.video.bytes(event.videoSlot).slice();
    pools.video.release(event.videoSlot);
    return { type: 'picture', pixels };
  }
  if (event.type !== 'media.chunk') return event;
  const { videoSlot, audioSlot, samples, ...frame } = event;
  const pixels = pools.video.bytes(videoSlot).slice();
  const sound = pools.audio.bytes(audioSlot).slice(0, samples * 2);
  for (const { pool, slot } of slotsOf(event)) pools[pool].release(slot);
  return { ...frame, pixels, samples: new Int16Array(sound.buffer, 0, samples) };
}
