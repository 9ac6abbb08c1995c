import type { MediaTime90k } from '../../streams/media_time.ts';
import type { AdapterTensorName } from './spec/adapter_spec.ts';

/** Handle of one immutable tensor that lives with the executor. Allocated by the engine, written once, freed when no version refers to it. */
export type BlockId = number;

export const WORK_UNIT_KINDS = [
  'encoder_chunk',
  'ar_prefill',
  'ar_token',
  'diffusion_step',
  'kv_write',
  'vae_tile',
  'audio_chunk',
  'logprob_batch',
  'transfer_send',
  'transfer_recv',
  'cache_load',
  'cache_save',
] as const;
export type WorkUnitKind = (typeof WORK_UNIT_KINDS)[number];

/** What a unit reads. Literals have no batch axis: the executor adds it when it joins units. */
export type UnitInput =
  | { readonly kind: 'block'; readonly block: BlockId }
  /** The sum of blocks of one shape, each times its weight. */
  | { readonly kind: 'mix'; readonly parts: readonly WeightedBlock[] }
  | { readonly kind: 'floats'; readonly values: readonly number[] | Float32Array; readonly shape: readonly number[] }
  | { readonly kind: 'ints'; readonly values: readonly number[]; readonly shape: readonly number[] }
  /** Elements of one byte each, in memory that all threads share: written before, never after. */
  | { readonly kind: 'bytes'; readonly bytes: SharedArrayBuffer; readonly shape: readonly number[] }
  /** A tensor of an adapter that was loaded with the model. */
  | { readonly kind: 'adapter'; readonly adapter: string; readonly tensor: AdapterTensorName; readonly shape: readonly number[] }
  | { readonly kind: 'zeros'; readonly shape: readonly number[] }
  /** Standard normal (or uniform) samples of a counter-based generator: same counter, same bits, on every machine. */
  | { readonly kind: 'noise'; readonly counter: NoiseCounter; readonly distribution: 'normal' | 'uniform'; readonly shape: readonly number[] };

export interface WeightedBlock {
  readonly block: BlockId;
  readonly weight: number;
}

/** A tensor that comes with the step itself instead of lying with the executor: small, and read once. No batch axis. */
export interface GivenTensor {
  readonly values: Float32Array;
  readonly shape: readonly number[];
}

export function tensorInput(tensor: BlockId | GivenTensor): UnitInput {
  return typeof tensor === 'number' ? { kind: 'block', block: tensor } : { kind: 'floats', ...tensor };
}

/** Of tensors, those that have to be kept alive. */
export function blocksAmong(tensors: readonly (BlockId | GivenTensor)[]): BlockId[] {
  return tensors.filter((tensor) => typeof tensor === 'number');
}

/** Blocks that a step reads. */
export function blocksRead({ inputs }: WorkPlan): BlockId[] {
  return Object.values(inputs).flatMap((input) => (input.kind === 'block' ? [input.block] : input.kind === 'mix' ? input.parts.map(({ block }) => block) : []));
}

export interface NoiseCounter {
  readonly seed: number;
  /** Which future of the session: rises with every rewind, so that a continued story does not repeat the discarded one. */
  readonly lineage: number;
  readonly chunk: number;
  readonly step: number;
  /** Separates draws of one step. */
  readonly stream: number;
}

/** Where a unit's named result goes. */
export type UnitOutput =
  | { readonly kind: 'block'; readonly block: BlockId; readonly bytes: number }
  /** Bytes of a slot in one of the session's shared pools. */
  | { readonly kind: 'slot'; readonly pool: 'video' | 'audio'; readonly slot: number }
  /** A small plain value, returned in {@link StepResult.values}. */
  | { readonly kind: 'value' };

/** Output declared before its place is reserved: the runtime fills in ids and slots. */
export type OutputDeclaration =
  | { readonly kind: 'block'; readonly bytes: number; readonly memory: MemoryTag }
  | { readonly kind: 'slot'; readonly pool: 'video' | 'audio' }
  | { readonly kind: 'value' };

export type MemoryTag = 'weights' | 'kv' | 'activations' | 'staging';

/**
 * The next step of a loop, as its kernel declares it: everything the scheduler needs and nothing it has to guess.
 * Plain data; crosses threads.
 */
export interface WorkPlan {
  readonly kind: WorkUnitKind;
  /** Component whose graph runs. */
  readonly component: string;
  /** Step within the loop's current chunk. */
  readonly step: number;
  /** Units with equal keys may share a batch: component, shapes, precision, captured shape. */
  readonly shapeKey: string;
  readonly maxBatch: number;
  readonly inputs: Readonly<Record<string, UnitInput>>;
  readonly outputs: Readonly<Record<string, OutputDeclaration>>;
  /** The loop's plan state that this step starts from; `runStep` returns the one that follows. */
  readonly state: PlanState;
  /** May the loop be cancelled or pre-empted after this unit? Every unit of the shipped kernels says yes. */
  readonly boundary: boolean;
  /** Media that this step leads to; sets the deadline. */
  readonly leadsTo: MediaTime90k | null;
  /** Cached result that stands for this step, if present. */
  readonly cache: CachePlan | null;
}

export interface CachePlan {
  readonly cacheClass: string;
  /** Hash of what was read, by input name: see `CacheKey.inputHashes`. */
  readonly inputHashes: Readonly<Record<string, string>>;
  readonly publish: boolean;
}

/** Small, plain, structured-clone-safe. Each kernel narrows it. */
export type PlanState = Readonly<Record<string, unknown>>;

/** A unit as the executor sees it: the plan with its places filled in. */
export interface PlannedUnit {
  readonly unitId: number;
  readonly sessionId: string;
  readonly loopId: string;
  /** Kernel that runs it: the `kind` of its LoopSpec. */
  readonly kernel: string;
  readonly modelId: string;
  readonly plan: WorkPlan;
  readonly outputs: Readonly<Record<string, UnitOutput>>;
  readonly epoch: number;
}

export interface WorkUnitBatch {
  readonly batchId: number;
  readonly modelId: string;
  readonly component: string;
  readonly kernel: string;
  readonly units: readonly PlannedUnit[];
}

export type StepResult = StepSuccess | StepFailure;

export interface StepSuccess {
  readonly ok: true;
  readonly unitId: number;
  readonly epoch: number;
  /** Plan state that follows; committed by the runtime if the unit still stands. */
  readonly next: PlanState;
  readonly values: Readonly<Record<string, readonly number[]>>;
  /** Device time of the batch this unit was part of, milliseconds. */
  readonly deviceMs: number;
}

export interface StepFailure {
  readonly ok: false;
  readonly unitId: number;
  readonly epoch: number;
  readonly code: 'kernel_exception' | 'runtime_error' | 'cancelled' | 'executor_lost';
  readonly message: string;
}
