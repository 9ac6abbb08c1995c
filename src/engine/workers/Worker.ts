import type { ModelSpec } from '../model/spec/model_spec.ts';
import type { BlockId, MemoryTag, StepResult, WorkUnitBatch } from '../model/work.ts';
import type { SharedBlock } from './BlockStore.ts';
import type { SharedPoolDescriptor } from '../../streams/shared_pool.ts';

/**
 * The narrow worker API: what the engine knows of whatever computes. Implementations: an ONNX Runtime thread (`OnnxWorker`),
 * a simulated one on a virtual clock (`SimulatedWorker`, tests and `segue simulate`).
 * A worker knows nothing of sessions' meaning, products or protocols.
 */
export interface Worker {
  readonly id: string;
  /** Loads and verifies one model directory; resolves with what the engine plans with. Throws a SpecError naming file and key. */
  loadModel(modelDir: string): Promise<LoadedModel>;
  /** Binds a session's output pools under its id; idempotent. */
  attach(sessionId: string, pools: { readonly video: SharedPoolDescriptor; readonly audio: SharedPoolDescriptor }): void;
  /** Forgets pools and blocks of a session; late results for it are dropped. */
  detach(sessionId: string): void;
  /**
   * Runs one batch; one result per unit, in order. Never rejects for a unit's failure: that is a StepFailure.
   * At most `maxInFlight` batches at once; more is a programming error and throws.
   */
  executeWork(batch: WorkUnitBatch): Promise<readonly StepResult[]>;
  /** Cancels units in flight: one that has not run fails as `cancelled`, one that runs publishes nothing. Unknown ids are ignored. */
  cancel?(unitIds: readonly number[]): void;
  /** Frees blocks. Unknown ids are ignored. */
  release(blocks: readonly BlockId[]): void;
  /** Bytes of the named blocks, copied; for checks and tests, never on the hot path. */
  read(blocks: readonly BlockId[]): Promise<readonly Float32Array[]>;
  /** A block as it lies in shared memory, to be copied while somebody refers to it; undefined where it isn't there. Absent: its memory can't be read from other threads. */
  view?(block: BlockId): SharedBlock | undefined;
  /** Takes blocks in that were kept, under ids that the engine has allocated; their memory is the worker's from here on. */
  put?(blocks: readonly SharedBlock[]): void;
  sleep(tags: readonly MemoryTag[]): Promise<void>;
  wake(tags: readonly MemoryTag[]): Promise<void>;
  health(): WorkerHealth;
  /** Loads another checked set of weights of the same model beside the one that serves. Rejects where it can't be loaded; nothing has changed then. Absent: it can't. */
  prepare?(spec: ModelSpec): Promise<PreparedWeights>;
  /** Whoever is told when a spare executor has taken over and has given its first answer; one listener. */
  onTakeover?(listener: (takeover: Takeover) => void): void;
  /** Lets the running batch end, then stops. Idempotent. A thread is never terminated while it computes: that aborts the process. */
  close(): Promise<void>;
}

/** Weights that are loaded and wait. */
export interface PreparedWeights {
  readonly weightsVersion: string;
  /** They are there, and no batch is in flight. */
  readonly ready: () => boolean;
  /** From here on all sessions and blocks are theirs, as at a take-over. Only where they are ready. */
  readonly take: () => void;
  /** They won't be needed. Idempotent; nothing after `take`. */
  readonly discard: () => Promise<void>;
}

/** A spare executor went on with the sessions and blocks of one that stopped answering. */
export interface Takeover {
  readonly reason: 'silent' | 'died';
  /** When the first of the units that were lost had been handed over; monotonic ms. */
  readonly atMs: number;
  /** From then to the first answer of the spare. */
  readonly tookMs: number;
  readonly sessions: number;
  readonly blocks: number;
}

export interface LoadedModel {
  readonly modelId: string;
  readonly weightsVersion: string;
  /** Machine and runtime that results are bit-equal on. */
  readonly fingerprint: string;
  /** Measured at load: milliseconds of one unit, by `shapeKey` and batch size. */
  readonly cost: readonly CostEntry[];
}

export interface CostEntry {
  readonly component: string;
  readonly shapeKey: string;
  readonly batch: number;
  /** Undisturbed: where the running estimate starts from. */
  readonly p50Ms: number;
  readonly p95Ms: number;
}

export interface WorkerHealth {
  readonly state: 'loading' | 'ready' | 'unresponsive' | 'closed';
  /** Monotonic ms of the last sign of life. */
  readonly lastSeenMs: number;
  readonly inFlight: number;
  /** Blocks that it held when it was last heard of, and their bytes. */
  readonly blocks?: number;
  readonly blockBytes?: number;
}
