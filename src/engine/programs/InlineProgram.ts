import type { LoopState } from '../model/loop_kernel.ts';
import type { BlockId } from '../model/work.ts';
import type { MediaDemand } from '../scheduler/AdmissionController.ts';
import type { LoopTurn } from '../scheduler/LoopTurn.ts';
import type { MediaTime90k } from '../../streams/media_time.ts';
import type { ProgramSpec } from './ProgramSpec.ts';
import type { CommittedStep, FilledSlot } from './RealtimeProgram.ts';

export type RunInputs = Readonly<Record<string, unknown>>;

/** What comes out of a run while it goes on. Plain data; picture and sound are named by slot and belong to the receiver from then on. */
export type RunEvent =
  | { readonly type: 'text.delta'; readonly text: string; /** Nothing more of this text comes. */ readonly complete: boolean }
  | RunMedia
  /** A picture alone. */
  | { readonly type: 'picture'; readonly videoSlot: number }
  /** Of a stage of a disaggregated run: an item for another. Its blocks are held until it is there. */
  | HandOverEvent
  /** Natural logarithms, one per token that was asked about. */
  | { readonly type: 'logprobs'; readonly values: readonly number[] };

export interface HandOverEvent {
  readonly type: 'handover';
  readonly handOver: string;
  readonly value: unknown;
  readonly blocks: readonly BlockId[];
}

/** Picture and sound of one frame's time. */
export interface RunMedia {
  readonly type: 'media.chunk';
  /** Index of the frame in the run. */
  readonly frame: number;
  readonly chunk: number;
  readonly frameInChunk: number;
  readonly start90k: MediaTime90k;
  readonly end90k: MediaTime90k;
  readonly origin: 'seed' | 'generated';
  readonly videoSlot: number;
  readonly audioSlot: number;
  /** Samples in the audio slot. */
  readonly samples: number;
}

export interface InlineTransition<State> {
  readonly state: State;
  readonly events: readonly RunEvent[];
}

/** What a run with given inputs needs. */
export interface InlineDemand {
  /** Bytes of blocks that it keeps at most, by tag. */
  readonly memory: MediaDemand['memory'];
  /** Components that it runs, each as often as it is listed; as far as can be said beforehand. */
  readonly components: readonly string[];
  readonly minSlots: MediaDemand['minSlots'];
}

/** Inputs of a run that come item by item. */
export interface InlineIntake<State> {
  readonly names: readonly string[];
  /** Those that other stages of the same run give: whoever runs them all watches that they come. */
  readonly internal?: readonly string[];
  /** Of which the next item can be taken now. */
  wants(state: State): readonly string[];
  /** @param value null: no more come. @throws {SegueError} `bad_request` for an item that can't be run. */
  feed(state: State, name: string, value: unknown): InlineTransition<State>;
}

/**
 * Loops of one resident model instance composed to one run that ends: a pure state machine, as a RealtimeProgram is, but without a
 * presentation timeline, requests or versions to go back to. The runtime asks which loops may step, and hands it what came of each step.
 */
export interface InlineProgram<State = unknown> {
  readonly spec: ProgramSpec;
  /** @throws {SegueError} `bad_request`, `prompt_not_understood`: the inputs can't be run. */
  open(inputs: RunInputs, seed: number): InlineTransition<State>;
  /** @throws {SegueError} as `open`. */
  demand(inputs: RunInputs): InlineDemand;
  /** Inputs that come while it runs; absent where all are there at its start. */
  readonly intake?: InlineIntake<State>;
  turns(state: State): readonly LoopTurn[];
  current(state: State, loopId: string): LoopState | null;
  advance(state: State, step: CommittedStep): InlineTransition<State>;
  /** Tries of one step of a loop before the run fails; absent: {@link DEFAULT_ATTEMPTS}. */
  attempts?(loopId: string): number;
  /** Loops that have to step before the run may be cancelled; none, or absent: at once. */
  beforeCancelling?(state: State): readonly string[];
  /** Everything was given; no loop has a step left. */
  finished(state: State): boolean;
  /** Where it stands, in words: for the error of a run that can't go on. */
  describe(state: State): string;
  blocks(state: State): readonly BlockId[];
  slots(state: State): readonly FilledSlot[];
}
