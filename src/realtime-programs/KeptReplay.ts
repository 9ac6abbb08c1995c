import { bindingContext, UNCONDITIONED } from '../engine/model/binding_context.ts';
import type { AudioState } from '../engine/model/kernels/audio.ts';
import type { VaeTileDecodeState } from '../engine/model/kernels/vae_tile_decode.ts';
import type { LoopState } from '../engine/model/loop_kernel.ts';
import type { BlockId, GivenTensor } from '../engine/model/work.ts';
import type { ProgramSpec } from '../engine/programs/ProgramSpec.ts';
import type { AppliedChange, CommittedStep, FilledSlot, ProgramStart, ProgramState, RealtimeProgram, StoryTape, Transition } from '../engine/programs/RealtimeProgram.ts';
import type { MediaDemand } from '../engine/scheduler/AdmissionController.ts';
import type { LoopTurn } from '../engine/scheduler/LoopTurn.ts';
import { SegueError } from '../protocol/errors.ts';
import { frameDuration90k, mediaTime90kToMs, type MediaFormat, type MediaTime90k } from '../streams/media_time.ts';
import type { KeptRange } from '../streams/kept_range.ts';
import type { KeptChunk } from '../streams/storage_messages.ts';
import { SOUND, type ChunkData } from './ContinuationKeeping.ts';
import type { ContinuationModel } from './continuation_model.ts';
import { keptFrame, type KeptFrame } from './kept_frame.ts';
import { givenTensor } from './KeptPicture.ts';

interface ReplayState extends ProgramState {
  readonly seed: number;
  readonly range: KeptRange;
  /** That are here and not played yet, oldest first; the first holds the position. */
  readonly chunks: readonly KeptChunk[];
  /** Chunk that is asked for next; null: none comes after those that are here. */
  readonly next: number | null;
  readonly picture: VaeTileDecodeState | null;
  /** Video slot of the picture that waits for its sound. */
  readonly filled: number | null;
  readonly sound: AudioState;
  /** Request that went to this moment, until its first frame is there. */
  readonly sought: string | null;
}

/** Chunks that are here beside the one that is played: a second. */
const AHEAD_CHUNKS = 6;

/**
 * Plays a kept story again: picture and sound of each frame from the latents and under the noise that they were made from, at the pace of the original, over the same way.
 * Nothing is made of words; going back, or on, to a moment is a `rewind`.
 */
export class KeptReplay implements RealtimeProgram<ReplayState> {
  readonly spec: ProgramSpec;
  readonly demand: MediaDemand;
  readonly format: MediaFormat;
  readonly framesPerChunk: number;
  readonly vocabulary = [];
  readonly tape: StoryTape<ReplayState>;
  readonly #model: ContinuationModel;
  readonly #frame90k: number;

  constructor(model: ContinuationModel) {
    const { loops, components, framesPerChunk, format } = model;
    this.#model = model;
    this.format = format;
    this.framesPerChunk = framesPerChunk;
    this.#frame90k = frameDuration90k(format);
    this.spec = {
      programId: 'kept_replay',
      kind: 'realtime',
      nodes: {
        picture: { kind: 'model_loop', loopKind: loops.picture.kind, components: [components.picture] },
        sound: { kind: 'model_loop', loopKind: loops.sound.kind, components: [components.sound] },
        videoOut: { kind: 'stream', stream: 'video' },
        audioOut: { kind: 'stream', stream: 'audio' },
      },
      interruption: {
        picture: { unit: 'frame', interrupt: 'remade', redirect: 'remade', says: 'Frames that were not presented are decoded again.' },
        sound: { unit: 'frame_of_sound', interrupt: 'remade', redirect: 'remade', says: 'Goes back with its frame, to the sample.' },
      },
      edges: [
        { kind: 'stream', from: 'picture', to: 'videoOut' },
        { kind: 'tensor', from: 'sound', to: 'sound', acrossChunks: true },
        { kind: 'stream', from: 'sound', to: 'audioOut' },
      ],
    };
    const times = (component: string) => Array<string>(framesPerChunk).fill(component);
    const sound = model.bytesOf(components.sound);
    const held = 8 * framesPerChunk;
    this.demand = {
      chunkComponents: [...times(components.picture), ...times(components.sound)],
      chunkMs: mediaTime90kToMs(this.#frame90k * framesPerChunk),
      redirectComponents: [],
      memory: { weights: 0, staging: 0, kv: (sound.kv ?? 0) * held, activations: (sound.activations ?? 0) * held },
      minSlots: { video: framesPerChunk + 1, audio: framesPerChunk + 1 },
    };
    this.tape = { source: ({ range }) => range.sessionId, wants: (state) => this.#wants(state), feed: (state, chunks) => this.#fed(state, chunks), seek: (state, to90k, requestId) => this.#sought(state, to90k, requestId) };
  }

  open({ seed, replay }: ProgramStart): ReplayState {
    if (replay === undefined) throw new SegueError('bad_request', 'a replay needs a story', { param: 'program' });
    return { position90k: replay.from90k, chunk: replay.chunk, lineage: 0, seed, range: replay, chunks: [], next: replay.chunk - 1, picture: null, filled: null, sound: this.#silence(replay.chunk, seed), sought: null };
  }

  betweenChunks({ position90k, range, filled }: ReplayState): boolean {
    return filled === null && (position90k - range.from90k) % (this.#frame90k * this.framesPerChunk) === 0;
  }

  turns(state: ReplayState): readonly LoopTurn[] {
    const { picture, filled, sound, position90k, chunks } = state;
    if (picture === null) return [];
    const { loops, components } = this.#model;
    const base = { leadsTo: position90k, boosted: false, conditioning: { kind: 'fixed', conditioning: UNCONDITIONED } as const };
    const { lineage } = this.#frameAt(state, chunks[0]!);
    if (filled === null) return [{ ...base, loopId: 'picture', kernel: loops.picture.kind, component: components.picture, state: picture, lineage, after: [components.sound], opensMedia: true }];
    return [{ ...base, loopId: 'sound', kernel: loops.sound.kind, component: components.sound, state: sound, lineage, after: [], opensMedia: false }];
  }

  current({ picture, sound }: ReplayState, loopId: string): LoopState | null {
    return loopId === 'picture' ? picture : loopId === 'sound' ? sound : null;
  }

  advance(state: ReplayState, step: CommittedStep): Transition<ReplayState> {
    const slot = Object.values(step.outputs.slots)[0];
    if (slot === undefined) throw new TypeError(`a ${step.turn.loopId} unit fills a slot, this one filled none`);
    const none = { version: null, frame: null, text: [], applied: null, decisions: [] };
    if (step.turn.loopId === 'picture') return { ...none, state: { ...state, picture: step.stepped as VaeTileDecodeState, filled: slot } };
    const { position90k, filled, chunks, sought } = state;
    const [chunk] = chunks as [KeptChunk];
    const frame = this.#frameAt(state, chunk);
    const end90k = position90k + this.#frame90k;
    const isLast = end90k >= chunk.end90k;
    const moved: ReplayState = { ...state, position90k: end90k, chunk: chunk.chunk + (isLast ? 1 : 0), sound: step.stepped as AudioState, chunks: isLast ? chunks.slice(1) : chunks, picture: null, filled: null, sought: null };
    const next = this.#prepared(moved, isLast ? null : chunk);
    const applied: AppliedChange | null = sought === null ? null : { requestId: sought, how: 'rewind', chunk: chunk.chunk, step: 0, media90k: position90k };
    return { ...none, state: next, version: { ...next, sought: null }, applied, frame: this.#emitted(state, chunk, frame, filled!, slot) };
  }

  redirect(): never {
    throw new SegueError('conflict', 'a replay shows what was: there is nothing to ask of it');
  }

  adapterAsked(): null {
    return null;
  }

  predictRedirectMs(): number {
    return 0;
  }

  steerable(): boolean {
    return false;
  }

  withdraw(state: ReplayState): ReplayState {
    return state;
  }

  rewound(version: ReplayState, current: ReplayState): ReplayState {
    return { ...version, lineage: current.lineage + 1, sought: current.sought };
  }

  returned(version: ReplayState, current: ReplayState, _conditioningVersion: number, lineage = current.lineage + 1): ReplayState {
    return { ...version, lineage };
  }

  remakeMs(): null {
    return null;
  }

  revised(version: ReplayState, current: ReplayState): ReplayState {
    return this.rewound(version, current);
  }

  blocks({ sound }: ReplayState): readonly BlockId[] {
    return sound.blocks;
  }

  slots({ filled }: ReplayState): readonly FilledSlot[] {
    return filled === null ? [] : [{ pool: 'video', slot: filled }];
  }

  #wants({ chunks, next }: ReplayState): { readonly from: number; readonly count: number } | null {
    return next === null || chunks.length > AHEAD_CHUNKS / 2 ? null : { from: Math.max(0, next), count: AHEAD_CHUNKS };
  }

  /** Where what is wanted isn't there, what is played ends with what is. The chunk before the position is there for what its sound carries on. */
  #fed(state: ReplayState, fed: readonly KeptChunk[]): ReplayState {
    const { range, chunk: at } = state;
    const before = state.chunks.length === 0 ? fed.find(({ chunk }) => chunk === at - 1) : undefined;
    const sound = before === undefined ? state.sound : this.#model.loops.sound.resumed((JSON.parse(before.data) as ChunkData).sound, carriedOf(before));
    const chunks = [...state.chunks];
    for (const chunk of fed) if (chunk.chunk === (chunks.at(-1)?.chunk ?? at - 1) + 1 && chunk.start90k < range.to90k) chunks.push(chunk);
    const last = chunks.at(-1);
    const ends = chunks.length === state.chunks.length || last!.end90k >= range.to90k;
    const held = { ...state, sound, chunks, next: ends ? null : last!.chunk + 1 };
    return state.picture === null ? this.#prepared(held, null) : held;
  }

  /** Goes on from the chunk that holds a moment of the range, earlier or later: its chunks come from the storage again. */
  #sought(state: ReplayState, to90k: MediaTime90k, requestId: string): ReplayState {
    const { range, seed } = state;
    const chunks = Math.floor((Math.min(Math.max(to90k, range.from90k), range.to90k - 1) - range.from90k) / (this.#frame90k * this.framesPerChunk));
    const chunk = range.chunk + chunks;
    const position90k = range.from90k + chunks * this.#frame90k * this.framesPerChunk;
    return { ...state, position90k, chunk, lineage: state.lineage + 1, chunks: [], next: chunk - 1, picture: null, filled: null, sound: this.#silence(chunk, seed), sought: requestId };
  }

  /** The next frame can be decoded where its chunk is here. @param within that the frame before was of, too. */
  #prepared(state: ReplayState, within: KeptChunk | null): ReplayState {
    const [chunk] = state.chunks;
    if (chunk === undefined || state.position90k >= state.range.to90k) return state;
    const { loops } = this.#model;
    const frame = this.#frameAt(state, chunk);
    const latents = givenTensor(frame.latents);
    const source = { latents, chunk: chunk.chunk, frames: [frame.frameInChunk], start90k: chunk.start90k };
    // A cut begins its sound anew.
    const { write } = JSON.parse(chunk.data) as ChunkData;
    const before = within === null && frame.frameInChunk === 0 && write === null ? this.#silence(chunk.chunk, state.seed) : state.sound;
    return { ...state, picture: loops.picture.initState(source, bindingContext(state.seed)), sound: loops.sound.withChunk(before, source) };
  }

  #frameAt({ position90k }: ReplayState, chunk: KeptChunk): KeptFrame {
    return keptFrame(chunk, Math.round((position90k - chunk.start90k) / this.#frame90k));
  }

  #silence(firstChunk: number, seed: number): AudioState {
    return this.#model.loops.sound.initState({ firstChunk }, bindingContext(seed));
  }

  #emitted({ position90k }: ReplayState, { chunk }: KeptChunk, frame: KeptFrame, videoSlot: number, audioSlot: number) {
    const { frameInChunk, seeded, conditioningVersion, actionSequence, adapter, started, active, completed } = frame;
    const { audioSampleRate, framesPerSecond } = this.format;
    return {
      start90k: position90k,
      end90k: position90k + this.#frame90k,
      chunk,
      frameInChunk,
      videoSlot,
      audioSlot,
      samples: audioSampleRate / framesPerSecond,
      origin: seeded ? 'seed' : 'generated',
      step: 0,
      conditioningVersion,
      actionSequence,
      adapter,
      events: { started, active, completed },
    } as const;
  }
}

/** What the sound of a chunk's end is carried on with. */
export function carriedOf({ tensors }: KeptChunk): Readonly<Record<string, GivenTensor>> | null {
  const carried = tensors.filter(({ name }) => name.startsWith(SOUND)).map((tensor) => [tensor.name.slice(SOUND.length), givenTensor(tensor)] as const);
  return carried.length === 0 ? null : Object.fromEntries(carried);
}
