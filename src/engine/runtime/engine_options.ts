import type { MemoryBudget } from '../memory/BlockPool.ts';
import type { TraceLevel } from './Tracer.ts';

/** How an engine schedules: numbers that a deployment may change without changing what is generated. */
export interface EngineOptions {
  /** How long before its first frame is due a chunk is begun; at most a chunk. Enough for the units of three sessions, and short, so that actions land late. */
  readonly lookAheadMs: number;
  /** Share of a device that admission may promise. The rest is planning, hops between threads, and the machine's other work. */
  readonly admissionBound: number;
  /** Share of a device kept for each session's redirects: one of 50 ms a second. */
  readonly redirectReserve: number;
  /** Device milliseconds that a session may have served ahead of its turn at once; at least what one redirect takes on its device. */
  readonly redirectBudgetMs: number;
  /** Boosted work is due this long after its request: sooner than anybody's frames, later than frames that are late already. */
  readonly boostMs: number;
  /** Blocks per device, bytes by tag. */
  readonly memory: MemoryBudget;
  /** Text-encoder results kept per device, bytes by tag. */
  readonly cacheMemory: MemoryBudget;
  /** An answer is expected within this time; a unit takes 5 to 40 ms. Workers watch their own threads and are quicker. */
  readonly unitWatchdogMs: number;
  /** A raised epoch word is followed by its request within this time. */
  readonly fenceWatchdogMs: number;
  /**
   * When what is asked takes effect. `unit`: at the next unit. `chunk` and `request` are the baselines of the benchmarks, the way others
   * schedule: only between two chunks, or between two requests of {@link REQUEST_CHUNKS} chunks. Test mode only.
   */
  readonly policy: 'unit' | 'chunk' | 'request';
  /** Of the baselines: whose chunk is next. `deadline`: the most urgent; `fifo`: whoever waits longest; `round_robin`: whoever was served longest ago. */
  readonly chunkOrder: 'deadline' | 'fifo' | 'round_robin';
  /** A snapshot of a kept story is made once in so many chunks: what follows the last one is recomputed from its latents, a write unit each, when it is resumed. */
  readonly snapshotChunks: number;
  /** Chunks of the past whose versions are kept in memory, where there is room: a rewind or fork to one of them takes no time. 0: none. */
  readonly pastChunks: number;
  /** Whether drafts are worked on before they are sent, where there is time for it. */
  readonly speculation: boolean;
  /** Whether a session that its device can't serve in time may be made in fewer denoise steps, where the model declares that. */
  readonly reducedSteps: boolean;
  /** How much the engine tells of what it does: see {@link TraceLevel}. */
  readonly traces: TraceLevel;
  /** Offered to whoever is refused. */
  readonly retryAfterMs: number;
}

/** Chunks that whole-request scheduling makes at a time: two seconds of the shipped model. */
export const REQUEST_CHUNKS = 12;

const MIB = 1024 * 1024;

export const DEFAULT_ENGINE_OPTIONS = {
  lookAheadMs: 120,
  admissionBound: 0.85,
  redirectReserve: 0.05,
  redirectBudgetMs: 60,
  boostMs: 20,
  memory: { kv: 512 * MIB, activations: 256 * MIB },
  cacheMemory: { kv: 32 * MIB, activations: 32 * MIB },
  unitWatchdogMs: 5000,
  fenceWatchdogMs: 5000,
  policy: 'unit',
  chunkOrder: 'deadline',
  snapshotChunks: 60,
  pastChunks: 60,
  speculation: true,
  reducedSteps: true,
  traces: 'full',
  retryAfterMs: 2000,
} as const satisfies EngineOptions;
