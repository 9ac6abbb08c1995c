/** What crosses the port between an `OnnxWorker` (engine thread) and its executor thread: one closed union per direction, plain data only. */
import type { KernelSource } from '../model/kernels/create_kernels.ts';
import type { AdapterTensors } from '../model/spec/adapter_spec.ts';
import type { BlockId, MemoryTag, StepResult, WorkUnitBatch } from '../model/work.ts';
import type { BlockRelease, SharedBlock } from './BlockStore.ts';
import type { InjectedFault } from '../../streams/messages.ts';
import type { SharedPoolDescriptor } from '../../streams/shared_pool.ts';
import type { CostEntry } from './Worker.ts';

/** A component and the graph that holds it. */
export interface ComponentFile {
  readonly componentId: string;
  /** Absolute path. */
  readonly path: string;
}

/** A file of weights, as it was when the model was checked. */
export interface CheckedFile {
  /** Absolute path. */
  readonly path: string;
  readonly sha256: string;
}

export interface ExecutorOptions {
  readonly provider: 'cpu' | 'cuda';
  readonly intraOpThreads: number;
  readonly batchInvariant: boolean;
  /** Measured runs per component and batch size at load; 0 measures nothing. */
  readonly calibrationRuns: number;
  /** Runs everything once at load instead of measuring it. */
  readonly spare: boolean;
  /** Obeys `fault` messages. */
  readonly testMode: boolean;
}

export interface ExecutorStart {
  /** Cancel words, one per batch in flight: see `CancelWords`. */
  readonly cancelWords: SharedArrayBuffer;
  readonly options: ExecutorOptions;
}

export interface AttachedSession {
  readonly sessionId: string;
  readonly video: SharedPoolDescriptor;
  readonly audio: SharedPoolDescriptor;
}

export type ToExecutor =
  | { readonly type: 'load'; readonly modelId: string; readonly source: KernelSource; readonly files: readonly ComponentFile[]; readonly checked: readonly CheckedFile[]; readonly adapters?: Readonly<Record<string, AdapterTensors>> }
  | ({ readonly type: 'attach' } & AttachedSession)
  | Exclude<BlockRelease, { type: 'sleep' }>
  | { readonly type: 'execute'; readonly batch: WorkUnitBatch; readonly cancelWord: number }
  | { readonly type: 'read'; readonly request: number; readonly blocks: readonly BlockId[] }
  | { readonly type: 'sleep' | 'wake'; readonly request: number; readonly tags: readonly MemoryTag[] }
  /** Takes over sessions and blocks as they are: another executor had them. */
  | { readonly type: 'adopt'; readonly sessions: readonly AttachedSession[]; readonly blocks: readonly SharedBlock[] }
  /** Forgets sessions, blocks and armed faults: another executor has them now. The compiled model stays. */
  | { readonly type: 'reset'; readonly request: number }
  | { readonly type: 'fault'; readonly fault: ArmedFault }
  /** Finish what runs, free everything, answer `stopped`. */
  | { readonly type: 'stop' };

/** Strikes the next unit of a session (or of any, where null). */
export interface ArmedFault {
  readonly sessionId: string | null;
  /** `executor_death` ends the thread before the unit runs. */
  readonly fault: InjectedFault | 'executor_death';
  /** Of a hang: how long the thread stands still before it runs the unit after all. */
  readonly hangMs: number;
}

/** What the executor's block store holds. */
export interface HeldBlocks {
  readonly count: number;
  readonly bytes: number;
}

export type FromExecutor =
  | { readonly type: 'loaded'; readonly cost: readonly CostEntry[]; readonly runtime: string }
  | { readonly type: 'load.failed'; readonly message: string; readonly componentId: string | null }
  /** `published`: the blocks that the batch's units wrote and that count. */
  | { readonly type: 'results'; readonly batchId: number; readonly results: readonly StepResult[]; readonly published: readonly SharedBlock[]; readonly held: HeldBlocks }
  /** `blocks` are null where the executor doesn't hold them. */
  | { readonly type: 'answer'; readonly request: number; readonly blocks: readonly (Float32Array | null)[]; readonly held: HeldBlocks }
  | { readonly type: 'answer.failed'; readonly request: number; readonly message: string }
  | { readonly type: 'stopped' };
