import type { FrameNotice } from './messages.ts';
import type { PaintedFrame } from './PaintedFrame.ts';
import type { Transport } from './Transport.ts';

/** Once a second. Rates are over the last second; null where not known (yet). */
export interface ClientStats {
  readonly transport: Transport['kind'];
  /** Frames painted per second. */
  readonly framesPerSecond: number;
  readonly kilobitsPerSecond: number | null;
  readonly roundTripMs: number | null;
  readonly jitterBufferMs: number | null;
  readonly packetsLost: number;
  /** Ms since anything was received. A session always sends: a held picture is repeated every 0.8 s. */
  readonly silentMs: number;
  readonly framesDropped: number;
  readonly framesPainted: number;
  readonly epoch: number;
  readonly conditioningVersion: number | null;
  readonly chunk: number | null;
  /** Where the last change of words, steering or speed that was painted took hold; null before the first. */
  readonly lastChange: ChangePoint | null;
  /** From a change of steering or speed to the first frame painted that knows of it. */
  readonly lastActionMs: number | null;
}

/** A place in the model's work: step 0 is a chunk made anew, any other a chunk that was half made already. */
export interface ChangePoint {
  readonly chunk: number;
  readonly step: number;
}

const INTERVAL_MS = 1_000;

/** Counts what is painted and what it took. */
export class StatsSampler {
  readonly #tell: (stats: ClientStats) => void;
  #timer: ReturnType<typeof setInterval> | null = null;
  #paintedAt: number[] = [];
  #framesPainted = 0;
  #notice: FrameNotice | null = null;
  #bytes: { readonly count: number; readonly at: number } | null = null;
  #action: { readonly sequence: number; readonly at: number } | null = null;
  #lastActionMs: number | null = null;
  #lastChange: ChangePoint | null = null;
  #generation = 0;

  constructor(tell: (stats: ClientStats) => void) {
    this.#tell = tell;
  }

  start(transport: Transport, epoch: () => number): void {
    this.stop();
    const generation = this.#generation;
    this.#bytes = null;
    let heardAt = performance.now();
    this.#timer = setInterval(() => {
      void transport.stats().then((stats) => {
        if (generation !== this.#generation) return;
        const now = performance.now();
        const before = this.#bytes;
        if (before?.count !== stats.bytesReceived) heardAt = now;
        this.#bytes = { count: stats.bytesReceived, at: now };
        this.#paintedAt = this.#paintedAt.filter((at) => at > now - 1_000);
        this.#tell({
          transport: transport.kind,
          framesPerSecond: this.#paintedAt.length,
          kilobitsPerSecond: before === null ? null : ((stats.bytesReceived - before.count) * 8) / (now - before.at),
          roundTripMs: stats.roundTripMs,
          jitterBufferMs: stats.jitterBufferMs,
          packetsLost: stats.packetsLost,
          silentMs: now - heardAt,
          framesDropped: stats.framesDropped,
          framesPainted: this.#framesPainted,
          epoch: epoch(),
          conditioningVersion: this.#notice?.conditioningVersion ?? null,
          chunk: this.#notice?.chunk ?? null,
          lastChange: this.#lastChange,
          lastActionMs: this.#lastActionMs,
        });
      });
    }, INTERVAL_MS);
  }

  /** Idempotent. */
  stop(): void {
    this.#generation += 1;
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
  }

  acted(sequence: number): void {
    this.#action = { sequence, at: performance.now() };
  }

  painted(frame: PaintedFrame): void {
    if (frame.notice) this.#noticed(frame.notice);
    if (this.#action && frame.notice && frame.notice.actionSequence >= this.#action.sequence && frame.paintedAt >= this.#action.at) {
      this.#lastActionMs = frame.paintedAt - this.#action.at;
      this.#action = null;
    }
    if (frame.late) return;
    this.#framesPainted += 1;
    this.#paintedAt.push(frame.paintedAt);
    // A second of a 120 Hz screen, in case nobody samples.
    if (this.#paintedAt.length > 240) this.#paintedAt.shift();
  }

  #noticed(notice: FrameNotice): void {
    const before = this.#notice;
    this.#notice = notice;
    if (before === null || (notice.conditioningVersion === before.conditioningVersion && notice.actionSequence === before.actionSequence)) return;
    this.#lastChange = { chunk: notice.chunk, step: notice.step };
  }
}
