import type { PromptWarning } from '../../protocol/prompt_warning.ts';
import type { NamedPlan } from '../../protocol/named_plan.ts';
import type { AdapterInForce, AdapterOffer } from '../../protocol/session_adapter.ts';
import type { AppliedAdapter, Conditioning, LoopState, StepOutputs } from '../model/loop_kernel.ts';
import type { BlockId } from '../model/work.ts';
import type { MediaDemand } from '../scheduler/AdmissionController.ts';
import type { LoopTurn } from '../scheduler/LoopTurn.ts';
import type { AppliedHow } from '../../streams/messages.ts';
import type { ChunkEvents } from '../../streams/media_events.ts';
import type { MediaFormat, MediaTime90k } from '../../streams/media_time.ts';
import type { KeptRange } from '../../streams/kept_range.ts';
import type { KeptChunk } from '../../streams/storage_messages.ts';
import type { ProgramSpec } from './ProgramSpec.ts';
import type { SpeculativeProgram } from './SpeculativeProgram.ts';
import type { StoryKeeping } from './StoryKeeping.ts';

/** Everything a program knows, as one immutable value of plain data and block ids. Keeping an old one is keeping a version. */
export interface ProgramState {
  /** End of the last frame that this state has emitted. */
  readonly position90k: MediaTime90k;
  /** Chunk that the next frame belongs to. */
  readonly chunk: number;
  /** Which future of the story: rises with every rewind. */
  readonly lineage: number;
}

/**
 * How loops are composed for a live session: a pure state machine. It runs nothing, owns nothing and knows no clock; the runtime asks it
 * which loops may step, hands it what came of a step, and is told what follows.
 */
export interface RealtimeProgram<State extends ProgramState = ProgramState> {
  readonly spec: ProgramSpec;
  readonly format: MediaFormat;
  readonly framesPerChunk: number;
  readonly demand: MediaDemand;
  /** Words that a prompt may use. */
  readonly vocabulary: readonly string[];
  /** Adapters that may be asked for; absent where the model has none. */
  readonly adapters?: readonly AdapterOffer[];
  /** How its stories are kept beyond the process; a program without it has none that outlives it. */
  readonly keeping?: StoryKeeping<State>;

  /** Of a program that plays what was kept; absent in one that makes. */
  readonly tape?: StoryTape<State>;

  /** Absent where nothing can be worked on before it is asked for. */
  readonly speculation?: SpeculativeProgram<State>;

  /** @throws {SegueError} `prompt_not_understood`; `plan_not_usable`; `adapter_not_usable`; `bad_request` for a picture that the model can't start from. */
  open(start: ProgramStart): State;
  /** No chunk is in flight: the next media step begins one. */
  betweenChunks(state: State): boolean;
  /** Loops that may step now, most wanted first; at most one per loop. */
  turns(state: State): readonly LoopTurn[];
  /** The loop state that is current for a turn: a result that was planned from another one is void. */
  current(state: State, loopId: string): LoopState | null;
  /** What follows from a committed step. `stepped` is the loop's state after it. */
  advance(state: State, step: CommittedStep, predict: Predict): Transition<State>;
  /** @throws {SegueError} `prompt_not_understood`, `plan_not_usable`, `adapter_not_usable`: the state is as before then. */
  redirect(state: State, request: RedirectRequest, predict: Predict): BegunRedirect<State>;
  /** The adapter that was last asked for: what a redirect that names none keeps, also where nothing of it was shown yet. */
  adapterAsked(state: State): AdapterInForce | null;
  /** A chunk of the video that the program takes in; absent where it takes none. It keeps the newest that nothing was made of: `dropped` says that it let one go. @param idle no unit is out: what hasn't been begun may be replaced. @throws {TypeError} for other pictures. */
  receive?(state: State, frames: readonly SharedArrayBuffer[], idle: boolean): { readonly state: State; readonly dropped: boolean };
  /** Predicted device milliseconds from a redirect, just begun, to its first changed frame. */
  predictRedirectMs(state: State, predict: Predict): number;
  /** Whether a chunk in flight could be steered: the runtime then keeps it, if it directly follows what was seen. */
  steerable(state: State): boolean;
  /** Drops a redirect that nothing has been shown of; the story goes on as it was. */
  withdraw(state: State): State;
  /** A kept version as the state to go on from: another future, with what is still being thought about taken over from `current`. */
  rewound(version: State, current: State): State;
  /**
   * A version of the past to go on from, as another future, with what was in force there and nothing of `current` beside it. Its lineage is above `current`'s,
   * or `lineage` where another session goes on from it. What it makes is of `conditioningVersion`.
   */
  returned(version: State, current: State, conditioningVersion: number, lineage?: number): State;
  /**
   * Predicted device milliseconds from a kept version to the first frame after it, made anew under what is held and asked for now, in `current`. Null
   * where nothing else could come of it.
   */
  remakeMs(version: State, current: State, predict: Predict): number | null;
  /** A kept version to go on from because what came after it was recalled unsent: the same story, with everything of `current` that was not in the version yet. */
  revised(version: State, current: State): State;
  /** Chunks that begin from now on are made in fewer denoise steps, or in all again; one that is under way stays as it is. Absent where there are no fewer. */
  reduced?(state: State, reduced: boolean): State;
  /** Everything that the state keeps alive with the executor. */
  blocks(state: State): readonly BlockId[];
  /** Output slots that were filled and not emitted yet. */
  slots(state: State): readonly FilledSlot[];
}

/** How a program that plays a kept story comes by its chunks. */
export interface StoryTape<State> {
  /** Whose story. */
  source(state: State): string;
  /** Chunks that it wants now; null: none. */
  wants(state: State): { readonly from: number; readonly count: number } | null;
  /** They, as far as they are kept. */
  feed(state: State, chunks: readonly KeptChunk[]): State;
  /** Goes on from another moment, earlier or later; `requestId` is applied with the first frame from there. */
  seek(state: State, to90k: MediaTime90k, requestId: string): State;
}

export interface ProgramStart {
  /** What is played again, by a program that does. */
  readonly replay?: KeptRange;
  readonly seed: number;
  /** Null lets the model choose by seed. */
  readonly prompt: string | null;
  /** RGB of a picture that the story starts from, `format.width × format.height`, row by row. */
  readonly image: SharedArrayBuffer | null;
  /** Attributes that the story begins with, by name; those that it lacks, and all where it is absent, are the model's choice. A prompt edits them. */
  readonly plan?: NamedPlan;
  readonly adapter?: AdapterInForce | null;
  /** Of a program that takes a video in: the noise level that it is made anew from, above 0, at most 1. */
  readonly strength?: number;
}

export interface RedirectRequest {
  readonly requestId: string;
  /** Null: as it was last asked for. */
  readonly prompt: string | null;
  /** Attributes by name that are set, before the prompt edits them. */
  readonly plan?: NamedPlan;
  /** Null: none. Absent: as it was last asked for. */
  readonly adapter?: AdapterInForce | null;
  readonly seamless: boolean;
  readonly conditioningVersion: number;
  /** Absent: the story goes on in the new scene. */
  readonly transition?: SceneTransition;
}

/** `cut`: a new shot, without the picture before it. `blend`: seamless, and by degrees over so many chunks. */
export type SceneTransition = { readonly kind: 'cut' } | { readonly kind: 'blend'; readonly chunks: number };

/** What comes of a redirect at once. */
export interface BegunRedirect<State> {
  readonly state: State;
  readonly warnings: readonly PromptWarning[];
  /** Where it is known better than by {@link RealtimeProgram.predictRedirectMs}. */
  readonly predictedMs?: number;
  /** What is unsent may be recalled: nothing has to be thought about first. */
  readonly recall?: true;
  readonly decisions?: readonly Decision[];
}

/** Predicted milliseconds of one unit of a component. */
export type Predict = (component: string) => number;

export interface CommittedStep {
  readonly turn: LoopTurn;
  readonly stepped: LoopState;
  readonly outputs: StepOutputs;
  /** What the step ran under. */
  readonly conditioning: Conditioning;
}

export interface FilledSlot {
  readonly pool: 'video' | 'audio';
  readonly slot: number;
}

export interface Transition<State> {
  readonly state: State;
  /**
   * A state that the story can be continued from at `state.position90k`, as it would have been kept had nothing been
   * generated after it. Replaces an earlier version of the same position. Null where there is no new one.
   */
  readonly version: State | null;
  readonly frame: EmittedFrame | null;
  readonly text: readonly TextOutput[];
  /** A request of which the emitted frame is the first to show anything. */
  readonly applied: AppliedChange | null;
  /** A request whose transition is done with the emitted frame. */
  readonly completed?: Pick<AppliedChange, 'requestId' | 'chunk' | 'media90k'>;
  /** What is unsent may be recalled: it could be made anew under what has just been learnt. */
  readonly recall?: true;
  /** Decisions, for the trace. */
  readonly decisions: readonly Decision[];
}

/** Picture and sound of one frame's time, ready in slots. */
export interface EmittedFrame {
  readonly start90k: MediaTime90k;
  readonly end90k: MediaTime90k;
  readonly chunk: number;
  readonly frameInChunk: number;
  readonly videoSlot: number;
  readonly audioSlot: number;
  readonly samples: number;
  readonly origin: 'seed' | 'generated';
  readonly step: number;
  readonly conditioningVersion: number;
  readonly actionSequence: number;
  /** Adapter that it was made with. */
  readonly adapter?: AppliedAdapter | null;
  readonly events: ChunkEvents;
}

export interface TextOutput {
  readonly stream: 'plan' | 'narration';
  readonly requestId: string | null;
  readonly text: string;
  /** Of a plan: the same by attribute name. */
  readonly attributes?: NamedPlan;
  readonly complete: boolean;
  /** It takes the place of the pieces before, instead of going on with them. */
  readonly whole?: true;
}

export interface AppliedChange {
  readonly requestId: string;
  readonly how: AppliedHow;
  readonly chunk: number;
  readonly step: number;
  readonly media90k: MediaTime90k;
  readonly adapter?: AdapterInForce | null;
}

export interface Decision {
  readonly name: string;
  readonly requestId?: string;
  readonly chunk?: number;
  readonly step?: number;
  readonly args: Readonly<Record<string, string | number | boolean>>;
}
