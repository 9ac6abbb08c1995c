import { bindingContext } from '../engine/model/binding_context.ts';
import type { AudioState } from '../engine/model/kernels/audio.ts';
import type { VaeTileEncodeState } from '../engine/model/kernels/vae_tile_encode.ts';
import type { VideoContinuationState } from '../engine/model/kernels/video_continuation.ts';
import type { BlockId } from '../engine/model/work.ts';
import type { AppliedChange, CommittedStep, EmittedFrame, Transition } from '../engine/programs/RealtimeProgram.ts';
import { frameDuration90k } from '../streams/media_time.ts';
import type { ContinuationModel } from './continuation_model.ts';
import { firstSlot, inForce, kept, unchanged, type ChunkInFlight, type ContinuationState, type Incoming, type Scene } from './continuation_state.ts';
import type { ContinuationTalk } from './ContinuationTalk.ts';
import { EMPTY_TAPE, stepRecord, type ChunkTape } from './continuation_tape.ts';
import { completesBlend, eventsOf, sceneOfNextChunk } from './scene_blend.ts';

/** How a chunk becomes frames: from start frames, from what came in or by denoising, to pictures and sound, and the versions that are kept on the way. */
export class ContinuationMedia {
  readonly #model: ContinuationModel;
  readonly #talk: ContinuationTalk;
  readonly #frame90k: number;
  readonly #samplesPerFrame: number;

  /** @throws {TypeError} for a format in which a frame has no whole number of samples. */
  constructor(model: ContinuationModel, talk: ContinuationTalk) {
    this.#model = model;
    this.#talk = talk;
    this.#frame90k = frameDuration90k(model.format);
    this.#samplesPerFrame = model.format.audioSampleRate / model.format.framesPerSecond;
    if (!Number.isInteger(this.#samplesPerFrame)) throw new TypeError(`${model.format.audioSampleRate} samples/s are no whole number per frame at ${model.format.framesPerSecond} frames/s`);
  }

  /** The newest chunk that came in, in the place of one that nothing was made of. @throws {TypeError} for other pictures. */
  receive(state: ContinuationState, incoming: Incoming, frames: readonly SharedArrayBuffer[], idle: boolean): { readonly state: ContinuationState; readonly dropped: boolean } {
    const { opening, talk, scene, seed } = state;
    // Checks them: what can't be encoded must not wait.
    this.#model.image!.loop.initState({ frames, towards: null }, bindingContext(seed));
    const stale = idle && incoming.encode?.plan.encoded === 0;
    const next: ContinuationState = { ...state, incoming: { ...incoming, waiting: frames, encode: stale ? null : incoming.encode, prompt: null } };
    const first = opening === null && talk === null && scene === null;
    return { state: this.prepared(first ? { ...next, opening: this.#talk.openImage(frames[0]!, incoming.prompt, incoming.adapter, seed) } : next), dropped: stale || incoming.waiting !== null };
  }

  started(state: ContinuationState, latents: BlockId): ContinuationState {
    if (state.incoming === null) return this.seeded(state, latents);
    return { ...state, start: null, incoming: { ...state.incoming, like: { plan: (state.upcoming ?? state.scene)!.plan, latents } } };
  }

  /** What the next chunk of an incoming video needs: an entry that it is to look like, then the newest frames. What was begun for another scene is given up. */
  prepared(state: ContinuationState): ContinuationState {
    const { incoming, video, inFlight, seed } = state;
    const wanted = state.upcoming ?? state.scene;
    const { loops, language, image } = this.#model;
    if (incoming === null || wanted === null || inFlight !== null || !loops.video.isFresh(video)) return state;
    const ctx = bindingContext(seed);
    const { like, waiting, encode } = incoming;
    if (like === null || language.bankIndex(like.plan) !== language.bankIndex(wanted.plan)) {
      const index = language.bankIndex(wanted.plan);
      const start = state.start?.plan.index === index ? state.start : loops.start.initState({ index }, ctx);
      return { ...state, start, incoming: { ...incoming, encode: null, waiting: waiting ?? encode?.pictures ?? null } };
    }
    if (encode !== null || waiting === null) return { ...state, start: null };
    const towards = { like: like.latents, level: incoming.strength, chunk: video.plan.chunk };
    return { ...state, start: null, incoming: { ...incoming, waiting: null, encode: image!.loop.initState({ frames: waiting, towards }, ctx) } };
  }

  /** A chunk of the incoming video, encoded as far as `encode` says; once it is whole, the chunk in flight begins with it. */
  comeIn(state: ContinuationState, encode: VaeTileEncodeState): ContinuationState {
    const incoming = { ...state.incoming!, encode };
    if (!encode.plan.done) return { ...state, incoming };
    const boundary = state.video;
    const video = this.#model.loops.video.noised(boundary, encode.latents!, incoming.strength);
    const inFlight: ChunkInFlight = { boundary, conditioning: null, picture: null, filled: null };
    return { ...state, video, inFlight, scene: sceneOfNextChunk(state), upcoming: null, incoming: { ...incoming, encode: null } };
  }

  seeded(state: ContinuationState, latents: BlockId): ContinuationState {
    const boundary = state.video;
    const video = this.#model.loops.video.seeded(boundary, latents);
    return this.#ready({ ...state, start: null, video, inFlight: { boundary, conditioning: null, picture: null, filled: null } });
  }

  denoised(state: ContinuationState, step: CommittedStep): Transition<ContinuationState> {
    const { conditioning } = step;
    const video = step.stepped as VideoContinuationState;
    const inFlight: ChunkInFlight = { boundary: state.inFlight?.boundary ?? state.video, conditioning, picture: null, filled: null };
    const scene = state.inFlight === null ? sceneOfNextChunk(state) : state.scene;
    const upcoming = state.inFlight === null ? null : state.upcoming;
    const tape: ChunkTape = { ...state.tape, steps: [...(state.inFlight === null ? [] : state.tape.steps), stepRecord(step)] };
    const next = { ...state, video, inFlight, scene, upcoming, tape, made: null };
    return unchanged(this.#model.loops.video.isChunkReady(video) ? this.#ready(next) : next);
  }

  /** Latents are complete: what is left of the chunk's frames is decoded and heard. */
  #ready(state: ContinuationState): ContinuationState {
    const { loops } = this.#model;
    const latents = loops.video.latentsOf(state.video);
    const first = state.frames % this.#model.framesPerChunk;
    const frames = Array.from({ length: this.#model.framesPerChunk - first }, (_, index) => first + index);
    const start90k = state.position90k - first * this.#frame90k;
    const picture = loops.picture.initState({ latents, frames, start90k }, bindingContext(state.seed));
    const sound = loops.sound.withChunk(state.sound, { latents, chunk: state.video.plan.chunk, frames, start90k });
    return { ...state, sound, inFlight: { ...state.inFlight!, picture } };
  }

  written(state: ContinuationState, step: CommittedStep): Transition<ContinuationState> {
    const next = { ...state, video: step.stepped as VideoContinuationState, writeUnder: null, tape: { ...EMPTY_TAPE, write: stepRecord(step) } };
    return { ...unchanged(next), version: kept(next) };
  }

  /** Picture and sound of a frame are there: emit it, and keep the version that goes on after it. */
  sounded(state: ContinuationState, step: CommittedStep): Transition<ContinuationState> {
    const sound = step.stepped as AudioState;
    const inFlight = state.inFlight!;
    const frames = state.frames + 1;
    const frameInChunk = state.frames % this.#model.framesPerChunk;
    const last = frameInChunk === this.#model.framesPerChunk - 1;
    const scene = state.scene!;
    const next: ContinuationState = {
      ...state,
      frames,
      opening: null,
      position90k: state.position90k + this.#frame90k,
      chunk: Math.floor(frames / this.#model.framesPerChunk),
      sound,
      scene: scene.shown ? scene : { ...scene, shown: true },
      inFlight: last ? null : { ...inFlight, filled: null },
      writeUnder: last ? inFlight.conditioning : state.writeUnder,
    };
    const frame = this.#frame(state, inFlight, step, scene);
    const { conditioningVersion, actionSequence, events } = frame;
    const tape: ChunkTape = { ...state.tape, frames: [...state.tape.frames, { lineage: step.turn.lineage, conditioningVersion, actionSequence, ...events, under: inFlight.conditioning === null ? null : (state.tape.steps.at(-1) ?? null) }] };
    const applied: AppliedChange | null =
      scene.shown || scene.requestId === null ? null : { requestId: scene.requestId, how: scene.how, chunk: frame.chunk, step: scene.step, media90k: frame.start90k, adapter: inForce(scene.adapter) };
    const done = completesBlend(scene, frame.chunk, frameInChunk);
    const completed = done === null ? {} : { completed: { requestId: done, chunk: frame.chunk, media90k: frame.start90k } };
    const { video } = state;
    const recorded: ContinuationState = last
      ? { ...next, tape: EMPTY_TAPE, made: { ...tape, latents: this.#model.loops.video.latentsOf(video), pin: video.pin, pinnedFrames: video.plan.pinnedFrames, seeded: video.plan.seeded } }
      : { ...next, tape };
    return { ...unchanged(recorded), version: last ? kept(recorded) : this.#pinned(recorded), frame, applied, ...completed };
  }

  /** To go on inside a chunk: its frames so far stay as they were seen, the rest is made anew around them. Start frames are simply shown on. */
  #pinned(state: ContinuationState): ContinuationState {
    if (state.video.plan.seeded) return kept(state);
    const { video } = this.#model.loops;
    return kept({ ...state, video: video.withPin(state.inFlight!.boundary, video.latentsOf(state.video), state.frames % this.#model.framesPerChunk), inFlight: null });
  }

  #frame(state: ContinuationState, { filled, conditioning }: ChunkInFlight, step: CommittedStep, scene: Scene): EmittedFrame {
    const { plan } = state.video;
    return {
      start90k: state.position90k,
      end90k: state.position90k + this.#frame90k,
      chunk: plan.chunk,
      frameInChunk: state.frames % this.#model.framesPerChunk,
      videoSlot: filled!,
      audioSlot: step.outputs.slots['pcm'] ?? firstSlot(step),
      samples: this.#samplesPerFrame,
      origin: plan.seeded ? 'seed' : 'generated',
      step: plan.changedAtStep,
      conditioningVersion: scene.conditioningVersion,
      actionSequence: conditioning?.actionSequence ?? 0,
      // Of its latents: start frames are made with none.
      adapter: conditioning?.adapter ?? null,
      events: eventsOf(scene, plan.chunk, state.frames % this.#model.framesPerChunk),
    };
  }
}
