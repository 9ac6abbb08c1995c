import type { ArDecodeState } from '../engine/model/kernels/ar_decode.ts';
import type { AudioState } from '../engine/model/kernels/audio.ts';
import type { EncoderChunkState } from '../engine/model/kernels/encoder_chunk.ts';
import type { StartBankState } from '../engine/model/kernels/start_bank.ts';
import type { VaeTileDecodeState } from '../engine/model/kernels/vae_tile_decode.ts';
import type { VaeTileEncodeState } from '../engine/model/kernels/vae_tile_encode.ts';
import type { VideoContinuationState } from '../engine/model/kernels/video_continuation.ts';
import type { Picture } from '../engine/model/kernels/vae_tile_encode.ts';
import type { AppliedAdapter, Conditioning, PromptBlocks } from '../engine/model/loop_kernel.ts';
import type { BlockId } from '../engine/model/work.ts';
import type { CommittedStep, ProgramState, Transition } from '../engine/programs/RealtimeProgram.ts';
import type { AdapterInForce } from '../protocol/session_adapter.ts';
import type { AppliedHow } from '../streams/messages.ts';
import type { ScenePlan } from './continuation_model.ts';
import type { ChunkTape, MadeChunk } from './continuation_tape.ts';
import { promptsOf, type SceneBlend } from './scene_blend.ts';
import type { Restoration } from './StoryRestoration.ts';

/** What is being shown, and by whose wish. */
export interface Scene {
  readonly plan: ScenePlan;
  readonly prompt: Readonly<Record<string, BlockId>>;
  readonly adapter: AppliedAdapter | null;
  readonly conditioningVersion: number;
  /** Null: the session's first prompt. */
  readonly requestId: string | null;
  /** Request whose scene this one replaced. */
  readonly replacedRequestId: string | null;
  readonly how: AppliedHow;
  /** Denoise step at which it took force in the chunk that shows it first. */
  readonly step: number;
  /** A frame that shows it was emitted. */
  readonly shown: boolean;
  /** Chunks over which it takes the place of the scene before; null: at once. */
  readonly over: number | null;
  /** Once it has begun to. */
  readonly blend: SceneBlend | null;
}

/** Words that are being turned into a scene: first the director plans, then the plan is encoded. */
export interface Talk {
  readonly requestId: string | null;
  readonly conditioningVersion: number;
  /** `open` begins with start frames, and so does `cut` in the midst of a story; `hard` makes no media until its scene is there; `seamless` lets it flow. */
  readonly mode: 'open' | 'hard' | 'cut' | 'seamless';
  /** Of a seamless one: see {@link Scene.over}. */
  readonly over: number | null;
  /** What the director starts from; once it has spoken, what it planned. */
  readonly plan: ScenePlan;
  readonly adapter: AppliedAdapter | null;
  /** Passes of the director that are still to come after the current one. */
  readonly edits: readonly string[];
  /** Stands in for a pass that ends without a plan. */
  readonly changes: ScenePlan;
  readonly director: ArDecodeState | null;
  readonly encoder: EncoderChunkState | null;
  /** The plan was given, not thought of: nobody has said it yet. */
  readonly given?: true;
}

/** A picture that the story starts from, until its first frame is shown. Words wait until it is known what the picture shows: they change that. */
export interface Opening {
  readonly encode: VaeTileEncodeState;
  /** The session's first prompt; null: the story goes on as the picture is. */
  readonly prompt: string | null;
  /** Prompt of a redirect that came before the picture was read. */
  readonly asked: string | null;
  /** Attributes that such a redirect set. */
  readonly given: ScenePlan | null;
  /** Adapter that the session was opened with. */
  readonly adapter: AppliedAdapter | null;
}

/** A video that comes in while the story goes on: each chunk is made from one of its chunks. */
export interface Incoming {
  /** The newest chunk that nothing has been made of yet. */
  readonly waiting: readonly Picture[] | null;
  /** Start entry of the scene that chunks are recoloured like, and the plan that it belongs to. */
  readonly like: { readonly plan: ScenePlan; readonly latents: BlockId } | null;
  readonly encode: VaeTileEncodeState | null;
  /** The session's first prompt, until the first frame has come that it changes. */
  readonly prompt: string | null;
  /** Adapter that the session was opened with. */
  readonly adapter: AppliedAdapter | null;
  /** Noise level that its chunks are made from, above 0, at most 1. */
  readonly strength: number;
}

/** The director goes on to tell about its plan when there is time. */
export interface Narration {
  readonly requestId: string | null;
  readonly director: ArDecodeState;
  /** Length of what was said already. */
  readonly said: number;
}

/** A chunk from its first denoise step (or its start frames) until its last frame is emitted. */
export interface ChunkInFlight {
  /** The loop before its first step: where a restart begins. */
  readonly boundary: VideoContinuationState;
  /** Of the latest denoise step; null for start frames. Its keys and values are written under the same. */
  readonly conditioning: Conditioning | null;
  readonly picture: VaeTileDecodeState | null;
  /** Video slot of the picture that waits for its sound. */
  readonly filled: number | null;
}

export interface ContinuationState extends ProgramState {
  readonly seed: number;
  /** Chunks that begin now are made in the model's reduced number of steps. */
  readonly reduced: boolean;
  /** Frames emitted in this story. */
  readonly frames: number;
  /** Null: the story starts from the bank, or is under way. */
  readonly opening: Opening | null;
  readonly scene: Scene | null;
  /** Takes force with the next chunk. */
  readonly upcoming: Scene | null;
  readonly start: StartBankState | null;
  readonly video: VideoContinuationState;
  readonly sound: AudioState;
  readonly inFlight: ChunkInFlight | null;
  /** What a finished chunk's keys and values are to be written under; null = what is held when they are. */
  readonly writeUnder: Conditioning | null;
  /** Null where nothing comes in. */
  readonly incoming: Incoming | null;
  readonly talk: Talk | null;
  readonly narration: Narration | null;
  /** How the chunk in flight, or the next one, is being made. */
  readonly tape: ChunkTape;
  /** The chunk that ends here; null inside of one, and before the first. */
  readonly made: MadeChunk | null;
  /** Null: the story goes on. */
  readonly restoring: Restoration | null;
}

/** Blocks that the state keeps alive, with repeats: the pool counts. */
export function blocksOf({ opening, scene, upcoming, start, video, sound, inFlight, writeUnder, incoming, talk, narration, made, restoring }: ContinuationState): BlockId[] {
  const blocks = [...video.blocks, ...sound.blocks];
  if (incoming !== null && incoming.like !== null) blocks.push(incoming.like.latents);
  const prompts: (PromptBlocks | null | undefined)[] = [scene?.prompt, upcoming?.prompt, ...(restoring?.encoded ?? []).map(({ prompt }) => prompt)];
  for (const wanted of [scene, upcoming]) if (wanted !== null) prompts.push(...promptsOf(wanted));
  for (const conditioning of [inFlight?.conditioning, writeUnder]) prompts.push(conditioning?.prompt, ...(conditioning?.mix ?? []).map(({ prompt }) => prompt));
  for (const prompt of prompts) if (prompt) blocks.push(...Object.values(prompt));
  for (const state of [opening?.encode, incoming?.encode, start, inFlight?.boundary, inFlight?.picture, talk?.director, talk?.encoder, narration?.director, restoring?.encoder]) if (state) blocks.push(...state.blocks);
  for (const block of [made?.latents, made?.pin, restoring?.last?.latents]) if (block != null) blocks.push(block);
  for (const { latents } of restoring?.writes ?? []) blocks.push(latents);
  return blocks;
}

/** A state as a version keeps it: without what was being said, wished for or shown to it at the time, and what the device had time for. */
export function kept(state: ContinuationState): ContinuationState {
  const { incoming } = state;
  return { ...state, incoming: incoming === null ? null : { ...incoming, waiting: null, encode: null }, talk: null, narration: null, upcoming: null, reduced: false };
}

/** Nothing follows from a step but the state. */
export function unchanged(state: ContinuationState): Transition<ContinuationState> {
  return { state, version: null, frame: null, text: [], applied: null, decisions: [] };
}

export function inForce(adapter: AppliedAdapter | null): AdapterInForce | null {
  return adapter === null ? null : { id: adapter.id, scale: adapter.scale };
}

/** For a decision: whose it is. */
export function requestOf({ requestId }: Pick<Talk, 'requestId'>): { readonly requestId?: string } {
  return requestId === null ? {} : { requestId };
}

export function firstSlot({ outputs, turn }: CommittedStep): number {
  const slot = Object.values(outputs.slots)[0];
  if (slot === undefined) throw new TypeError(`a ${turn.loopId} unit fills a slot, this one filled none`);
  return slot;
}
