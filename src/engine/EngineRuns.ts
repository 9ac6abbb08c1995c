import { monotonicClock } from '../observe/clock.ts';
import { SegueError } from '../protocol/errors.ts';
import type { MediaFormat } from '../streams/media_time.ts';
import { SharedPool } from '../streams/shared_pool.ts';
import type { DisaggregatedProgram } from './programs/disaggregate.ts';
import type { HandOverEvent, InlineProgram, RunEvent, RunInputs, RunMedia } from './programs/InlineProgram.ts';
import type { BehaviorRecord, RecordOptions } from './runtime/BehaviorRecord.ts';
import type { EngineCore } from './runtime/EngineCore.ts';
import { slotsOf, type EmittedEvent, type RunEnd, type RunUsage } from './runtime/InlineRun.ts';
import { RunStream } from './RunStream.ts';

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
  | Exclude<RunEvent, RunMedia | HandOverEvent | { readonly type: 'picture' }>
  | { readonly type: 'picture'; /** RGB, `width × height × 3` bytes. */ readonly pixels: Uint8Array }
  | (Omit<RunMedia, 'videoSlot' | 'audioSlot' | 'samples'> & { /** RGB, `width × height × 3` bytes. */ readonly pixels: Uint8Array; /** Mono, signed 16 bit. */ readonly samples: Int16Array })
  | { readonly type: 'completed'; readonly usage: RunUsage; readonly record: BehaviorRecord | null };

/** Runs of programs for whoever called: pools, copies, back-pressure, and an end that waits until nothing is left. */
export class EngineRuns {
  readonly #core: EngineCore;
  readonly #format: MediaFormat;
  readonly #ending = new Set<Promise<RunEnd>>();
  #numRuns = 0;

  constructor(core: EngineCore, format: MediaFormat) {
    this.#core = core;
    this.#format = format;
  }

  async *run(program: InlineProgram | DisaggregatedProgram, inputs: RunInputs, options: RunOptions): AsyncGenerator<EngineEvent, void, undefined> {
    const { seed = 0, signal, buffer = 4, stallMs = 60_000, withinMs = null, record = null } = options;
    if (!Number.isInteger(buffer) || buffer < 2 || buffer > 64) throw new TypeError(`buffer is 2 to 64 frames, got ${buffer}`);
    if ('stages' in program) for (const [name, value] of Object.entries({ withinMs, record })) if (value !== null) throw new SegueError('bad_request', `a disaggregated run takes no ${name}`, { param: name });
    signal?.throwIfAborted();
    const pools = slotPools(this.#format, buffer);
    let stalled = false;
    const stream = new RunStream<EmittedEvent>(monotonicClock, stallMs, () => {
      stalled = true;
      handle.cancel();
    });
    const ended = Promise.withResolvers<RunEnd>();
    const channels = { video: pools.video.descriptor, audio: pools.audio.descriptor };
    const opening = {
      runId: `run-${++this.#numRuns}`,
      inputs,
      seed,
      channels,
      // A run that has to give something whole before it ends needs its slots back, whoever takes it.
      emit: (event: EmittedEvent) => void (stream.closed ? released(event, pools) : stream.push(event)),
      ended: (end: RunEnd) => {
        ended.resolve(end);
        stream.end();
      },
    };
    const handle = 'stages' in program ? this.#core.runDisaggregated({ ...opening, program }) : this.#core.run({ ...opening, program, withinMs, record });
    this.#ending.add(ended.promise);
    const abort = (): void => {
      handle.cancel();
      for (const event of stream.close()) released(event, pools);
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

  /** Nothing of any run is left. */
  async settled(): Promise<void> {
    await Promise.all(this.#ending);
  }
}

/** Pools for frames of a format: raw pictures, and the sound of a frame's time. */
export function slotPools({ width, height, audioSampleRate, framesPerSecond }: MediaFormat, slots: number) {
  const create = (bytes: number) => SharedPool.create(Math.ceil(bytes / 8) * 8, slots);
  return { video: create(width * height * 3), audio: create((audioSampleRate / framesPerSecond) * 2) };
}

/** Copies a frame out of its slots and gives them back: from here on the run may make the next one. */
function taken(event: EmittedEvent, pools: Readonly<Record<'video' | 'audio', SharedPool>>): EngineEvent {
  if (event.type === 'picture') {
    const pixels = pools.video.bytes(event.videoSlot).slice();
    pools.video.release(event.videoSlot);
    return { type: 'picture', pixels };
  }
  if (event.type !== 'media.chunk') return event;
  const { videoSlot, audioSlot, samples, ...frame } = event;
  const pixels = pools.video.bytes(videoSlot).slice();
  const sound = pools.audio.bytes(audioSlot).slice(0, samples * 2);
  released(event, pools);
  return { ...frame, pixels, samples: new Int16Array(sound.buffer, 0, samples) };
}

function released(event: EmittedEvent, pools: Readonly<Record<'video' | 'audio', SharedPool>>): void {
  for (const { pool, slot } of slotsOf(event)) pools[pool].release(slot);
}
