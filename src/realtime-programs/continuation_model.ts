import type { ArDecodeInput, ArDecodeState } from '../engine/model/kernels/ar_decode.ts';
import type { AudioChunkSource, AudioInput, AudioPlan, AudioState } from '../engine/model/kernels/audio.ts';
import type { EncoderChunkInput, EncoderChunkState } from '../engine/model/kernels/encoder_chunk.ts';
import type { StartBankInput, StartBankState } from '../engine/model/kernels/start_bank.ts';
import type { VaeTileDecodeInput, VaeTileDecodeState } from '../engine/model/kernels/vae_tile_decode.ts';
import type { VaeTileEncodeInput, VaeTileEncodeState } from '../engine/model/kernels/vae_tile_encode.ts';
import type { VideoContinuationInput, VideoContinuationPlan, VideoContinuationState } from '../engine/model/kernels/video_continuation.ts';
import type { AppliedAdapter, LoopKernel, LoopState } from '../engine/model/loop_kernel.ts';
import type { BlockId } from '../engine/model/work.ts';
import type { MemoryBudget } from '../engine/memory/BlockPool.ts';
import type { NamedPlan } from '../protocol/named_plan.ts';
import type { PromptWarning } from '../protocol/prompt_warning.ts';
import { adapterInForce, type AdapterInForce } from '../protocol/session_adapter.ts';
import type { MediaFormat } from '../streams/media_time.ts';

type Loop<Input, State extends LoopState> = Omit<LoopKernel<Input, State, unknown>, 'finalize'>;

export interface VideoLoop extends Loop<VideoContinuationInput, VideoContinuationState> {
  isChunkReady(state: VideoContinuationState): boolean;
  latentsOf(state: VideoContinuationState): BlockId;
  withPin(state: VideoContinuationState, latents: BlockId, pinnedFrames?: number): VideoContinuationState;
  seeded(state: VideoContinuationState, latents: BlockId): VideoContinuationState;
  noised(state: VideoContinuationState, latents: BlockId, level: number): VideoContinuationState;
  isFresh(state: VideoContinuationState): boolean;
  finished(state: VideoContinuationState, latents: BlockId, seeded: boolean): VideoContinuationState;
  resumed(kept: Pick<VideoContinuationPlan, 'chunk' | 'tPrev'> & Pick<VideoContinuationState, 'window' | 'prev'>): VideoContinuationState;
}

export interface SoundLoop extends Loop<AudioInput, AudioState> {
  withChunk(state: AudioState, source: AudioChunkSource): AudioState;
  resumed(plan: AudioPlan, carried: AudioState['carried']): AudioState;
}

/** The loops that a video continuation composes, by their role in it. */
export interface ContinuationLoops {
  readonly director: Loop<ArDecodeInput, ArDecodeState>;
  readonly encoder: Loop<EncoderChunkInput, EncoderChunkState>;
  readonly start: Loop<StartBankInput, StartBankState>;
  readonly video: VideoLoop;
  readonly picture: Loop<VaeTileDecodeInput, VaeTileDecodeState>;
  readonly sound: SoundLoop;
}

/** The loop that turns a given picture into the start of a story, and the component that it drives. */
export interface ImageStart {
  readonly loop: Loop<VaeTileEncodeInput, VaeTileEncodeState>;
  readonly component: string;
  /** Encodes a frame of a given video. */
  readonly videoComponent: string;
}

/** Components by what they do in the program. */
export interface ContinuationComponents {
  /** Reads what the director is to continue and makes the first token; `directorStep` makes every further one. */
  readonly directorPrefill: string;
  readonly directorStep: string;
  readonly encoder: string;
  readonly start: string;
  readonly denoise: string;
  readonly write: string;
  readonly picture: string;
  readonly sound: string;
  /** What `denoise` and `write` are with an adapter; absent where the model takes none. */
  readonly adapted?: VideoComponents;
}

/** The components of a chunk's steps and of what follows them. */
export interface VideoComponents {
  readonly denoise: string;
  readonly write: string;
}

/** An adapter of the model, as sessions ask for it and as steps run under it. */
export interface ModelAdapter {
  readonly id: string;
  readonly title: string;
  /** SHA-256 of its file. */
  readonly version: string;
}

/** What the picture should show: index of the value of each attribute, by attribute name. */
export type ScenePlan = Readonly<Record<string, number>>;

/** What people say, as the model's loops take it. */
export interface PromptLanguage {
  /** Words that may be used. */
  readonly vocabulary: readonly string[];
  /** Any of these ends what the director says. */
  readonly endIds: readonly number[];
  readonly maxTokens: number;
  /** The plan of a session that began without a prompt. */
  choose(seed: number): ScenePlan;
  /** @throws {SegueError} `prompt_not_understood` where it knows nothing of it. */
  parse(prompt: string): UnderstoodPrompt;
  /** What the director continues: the plan in force and one edit of it. */
  directorIds(plan: ScenePlan, edit: string): readonly number[];
  /** What the director has said so far; `plan` is null until it is complete. */
  read(tokens: readonly number[]): { readonly plan: ScenePlan | null; readonly narration: string };
  /** What the director has said so far, as text; grows at its end as tokens come. */
  say(tokens: readonly number[]): string;
  /** The plan in words. */
  describe(plan: ScenePlan): string;
  /** The plan by attribute, in words. */
  named(plan: ScenePlan): NamedPlan;
  /** The attributes that are named. @throws {SegueError} `plan_not_usable`. */
  fromNamed(plan: NamedPlan): ScenePlan;
  /** The plan as the encoder takes it. */
  encode(plan: ScenePlan): readonly number[];
  /** Start frames that fit the plan. */
  bankIndex(plan: ScenePlan): number;
  /** What an entry of the start bank shows. */
  planOfEntry(index: number): ScenePlan;
}

export interface UnderstoodPrompt {
  /** At least one; each is a pass of the director over the plan that the one before made. */
  readonly edits: readonly string[];
  /** What the words name by themselves: stands in for a director that makes no plan. */
  readonly changes: ScenePlan;
  /** Words without effect. */
  readonly warnings: readonly PromptWarning[];
}

/** A loaded model, as far as a video continuation needs it. */
export interface ContinuationModel {
  readonly format: MediaFormat;
  readonly framesPerChunk: number;
  /** Denoise steps of a chunk. */
  readonly steps: number;
  /** Fewer, where there is no time for all; null: the model declares none. */
  readonly reducedSteps: number | null;
  /** The first chunk that shows a redirect is made in the reduced number; absent: in all. */
  readonly previews?: boolean;
  readonly windowChunks: number;
  /** Lowest noise level, exclusive, at which a partly denoised chunk may still be steered; 1 = never. */
  readonly steerUntil: number;
  readonly loops: ContinuationLoops;
  readonly components: ContinuationComponents;
  readonly language: PromptLanguage;
  /** Null where the model can't start from a picture. */
  readonly image: ImageStart | null;
  /** Absent: none. */
  readonly adapters?: readonly ModelAdapter[];
  /** Bytes of blocks that one unit of a component makes. */
  bytesOf(component: string): MemoryBudget;
}

/** An adapter as steps run under it. @throws {SegueError} `adapter_not_usable`. */
export function appliedAdapter({ adapters = [] }: Pick<ContinuationModel, 'adapters'>, wish: AdapterInForce | null): AppliedAdapter | null {
  if (wish === null) return null;
  const { id, scale } = adapterInForce(wish, adapters);
  return { id, scale, version: adapters.find((adapter) => adapter.id === id)!.version };
}

/** The components of a chunk's steps, under an adapter or without. */
export function videoOf({ components: { denoise, write, adapted } }: Pick<ContinuationModel, 'components'>, adapter: AppliedAdapter | null): VideoComponents {
  return adapter === null ? { denoise, write } : adapted!;
}

/** What is still to run for the start frames themselves: nothing, where the story starts from a picture. */
export function startComponents({ components }: Pick<ContinuationModel, 'components'>, { opening }: { readonly opening: object | null }): readonly string[] {
  return opening === null ? [components.start] : [];
}
