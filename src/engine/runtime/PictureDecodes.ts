import type { Clock, Timer } from '../../observe/clock.ts';
import { SegueError } from '../../protocol/errors.ts';
import type { ControlToEngine, EngineToControl } from '../../streams/messages.ts';
import { SharedPool } from '../../streams/shared_pool.ts';
import type { RealtimeProgram } from '../programs/RealtimeProgram.ts';
import type { RunOpening } from './InlineRun.ts';
import type { RunHandle } from './InlineRuns.ts';

export type DecodeWish = Extract<ControlToEngine, { type: 'frame.decode' }>;

export interface PictureDecodesOptions {
  readonly programs: Readonly<Record<string, RealtimeProgram>>;
  readonly clock: Clock;
  readonly run: (opening: RunOpening) => RunHandle;
  readonly answer: (message: Extract<EngineToControl, { type: 'frame.decoded' }>) => void;
}

/** Frames that may wait to be decoded; who asks for more is refused. A timeline's worth. */
export const MAX_DECODES = 32;
/** From its arrival, with all that wait before it: on a device that lives at its limit there may be no slack. */
const WATCHDOG_MS = 10_000;

interface Waiting {
  readonly wish: DecodeWish;
  readonly watchdog: Timer;
  handle: RunHandle | null;
}

/** Decodes frames of kept chunks again, one after the other, in the slack that live sessions leave. Pictures come out as they were emitted, bit for bit. */
export class PictureDecodes {
  readonly #options: PictureDecodesOptions;
  readonly #waiting: Waiting[] = [];
  #pools: { readonly video: SharedPool; readonly audio: SharedPool } | null = null;
  #running: Waiting | null = null;
  #runs = 0;
  #closed = false;

  constructor(options: PictureDecodesOptions) {
    this.#options = options;
  }

  decode(wish: DecodeWish): void {
    const { clock } = this.#options;
    if (this.#closed) return this.#refuse(wish, new SegueError('draining', 'the engine is being stopped'));
    if (this.#waiting.length >= MAX_DECODES) return this.#refuse(wish, new SegueError('at_capacity', `${MAX_DECODES} frames are waiting to be decoded`, { retryAfterMs: 1_000 }));
    const waiting: Waiting = { wish, watchdog: clock.schedule(clock.now() + WATCHDOG_MS, () => this.#late(waiting)), handle: null };
    this.#waiting.push(waiting);
    this.#next();
  }

  /** Refuses what waits and ends what runs. Idempotent. */
  close(): void {
    this.#closed = true;
    for (const { wish, watchdog } of this.#waiting.splice(0)) {
      watchdog.cancel();
      this.#refuse(wish, new SegueError('draining', 'the engine is being stopped'));
    }
    this.#running?.handle?.cancel();
  }

  #next(): void {
    if (this.#running !== null) return;
    const next = this.#waiting.shift();
    if (next === undefined) return;
    this.#running = next;
    try {
      next.handle = this.#run(next);
    } catch (error) {
      this.#ended(next, error instanceof SegueError ? error : new SegueError('internal', 'the frame could not be decoded', { cause: error }));
    }
  }

  #run(waiting: Waiting): RunHandle {
    const { programs, run } = this.#options;
    const { wish } = waiting;
    const program = programs[wish.program];
    if (program?.keeping === undefined) throw new SegueError('conflict', `program ${wish.program} can't decode kept frames here`);
    const { video, audio } = (this.#pools ??= poolsOf(program));
    let rgb: Uint8Array | null = null;
    return run({
      runId: `picture-${++this.#runs}`,
      program: program.keeping.pictures,
      inputs: { chunk: wish.chunk, frame: wish.frame },
      seed: 0,
      channels: { video: video.descriptor, audio: audio.descriptor },
      withinMs: null,
      record: null,
      emit: (event) => {
        if (event.type !== 'picture') return;
        rgb = Uint8Array.from(video.bytes(event.videoSlot));
        video.release(event.videoSlot);
      },
      ended: (end) => this.#ended(waiting, end.outcome === 'completed' && rgb !== null ? rgb : end.outcome === 'failed' ? end.error : tooLate()),
    });
  }

  #late(waiting: Waiting): void {
    if (waiting.handle !== null) return waiting.handle.cancel();
    this.#waiting.splice(this.#waiting.indexOf(waiting), 1);
    this.#refuse(waiting.wish, tooLate());
  }

  #ended({ wish, watchdog }: Waiting, outcome: Uint8Array | SegueError): void {
    watchdog.cancel();
    this.#running = null;
    if (outcome instanceof SegueError) this.#refuse(wish, outcome);
    else this.#options.answer({ type: 'frame.decoded', request: wish.request, rgb: outcome });
    this.#next();
  }

  #refuse({ request }: DecodeWish, error: SegueError): void {
    this.#options.answer({ type: 'frame.decoded', request, error: error.toBody() });
  }
}

function tooLate(): SegueError {
  return new SegueError('timed_out', 'the frame was not decoded in time', { retryAfterMs: 1_000 });
}

function poolsOf({ format: { width, height } }: RealtimeProgram) {
  return { video: SharedPool.create(Math.ceil((width * height * 3) / 8) * 8, 1), audio: SharedPool.create(8, 1) };
}
