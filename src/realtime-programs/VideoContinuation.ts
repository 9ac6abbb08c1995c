import type { ArDecodeState } from '../engine/model/kernels/ar_decode.ts';
import type { EncoderChunkState } from '../engine/model/kernels/encoder_chunk.ts';
import type { StartBankState } from '../engine/model/kernels/start_bank.ts';
import type { VaeTileDecodeState } from '../engine/model/kernels/vae_tile_decode.ts';
import type { VaeTileEncodeState } from '../engine/model/kernels/vae_tile_encode.ts';
import { bindingContext } from '../engine/model/binding_context.ts';
import type { LoopState } from '../engine/model/loop_kernel.ts';
import type { BlockId } from '../engine/model/work.ts';
import type { ProgramSpec } from '../engine/programs/ProgramSpec.ts';
import type { BegunRedirect, CommittedStep, FilledSlot, Predict, ProgramStart, RealtimeProgram, RedirectRequest, Transition } from '../engine/programs/RealtimeProgram.ts';
import type { MediaDemand } from '../engine/scheduler/AdmissionController.ts';
import type { LoopTurn } from '../engine/scheduler/LoopTurn.ts';
import { SegueError } from '../protocol/errors.ts';
import type { AdapterInForce, AdapterOffer } from '../protocol/session_adapter.ts';
import { frameDuration90k, mediaTime90kToMs, type MediaFormat } from '../streams/media_time.ts';
import { continuationDemand, continuationSpec } from './continuation_declaration.ts';
import { appliedAdapter, type ContinuationModel } from './continuation_model.ts';
import { ContinuationDrafts } from './ContinuationDrafts.ts';
import { ContinuationKeeping } from './ContinuationKeeping.ts';
import { ContinuationMedia } from './ContinuationMedia.ts';
import { blocksOf, firstSlot, kept, unchanged, type ContinuationState } from './continuation_state.ts';
import { ContinuationTalk } from './ContinuationTalk.ts';
import { EMPTY_TAPE } from './continuation_tape.ts';
import { ContinuationTurns } from './ContinuationTurns.ts';
import { SceneChanges } from './SceneChanges.ts';
import { StoryRestoration } from './StoryRestoration.ts';

/**
 * Endless video with sound, steered by actions and redirected by words. Per chunk: denoise steps, then picture and sound of one frame
 * after the other, each emitted as soon as it is there, then the clean write that lets the next chunk see this one.
 * A redirect first lets the director plan and the encoder encode; then the chunk in flight is steered, made anew or finished.
 *
 * Loops by role: `director`, `encoder`, `start`, `video` (denoise and write), `picture`, `sound`;
 * and `image`, where the story starts from a given picture instead of from the start bank.
 *
 * With `transform` each chunk is made from a chunk of a video that comes in (loop `incoming`): recoloured like the scene, noised, denoised after what was
 * made before. What interruption means there: a redirect voids the chunk in flight and lands with the next one that comes in, because what is in
 * flight was recoloured for the old scene; it is never steered, and nothing unsent is made anew, because its frames are gone. While none
 * comes in, nothing is made.
 */
export class VideoContinuation implements RealtimeProgram<ContinuationState> {
  readonly spec: ProgramSpec;
  readonly demand: MediaDemand;
  readonly format: MediaFormat;
  readonly framesPerChunk: number;
  readonly vocabulary: readonly string[];
  readonly adapters: readonly AdapterOffer[];
  readonly keeping?: ContinuationKeeping;
  readonly speculation?: ContinuationDrafts;
  readonly reduced?: (state: ContinuationState, reduced: boolean) => ContinuationState;
  readonly #model: ContinuationModel;
  readonly #transform: { readonly strength: number } | null;
  readonly #restoration: StoryRestoration;
  readonly #turns: ContinuationTurns;
  readonly #talk: ContinuationTalk;
  readonly #media: ContinuationMedia;
  readonly #changes: SceneChanges;

  /**
   * @param transform noise level that chunks of an incoming video are made from, where a session names none; null: nothing comes in.
   * @param options `aloud`: plans are told token by token while the director thinks, not only once they are whole.
   * @throws {TypeError} for a model that can't encode pictures.
   */
  constructor(model: ContinuationModel, transform: { readonly strength: number } | null = null, { aloud = false }: { readonly aloud?: boolean } = {}) {
    if (transform !== null && model.image === null) throw new TypeError('this model can’t take a video in: it has no loop vae_tile_encode');
    this.#model = model;
    this.#transform = transform;
    this.#restoration = new StoryRestoration(model);
    this.#turns = new ContinuationTurns(model, this.#restoration);
    this.#talk = new ContinuationTalk(model, aloud);
    this.#media = new ContinuationMedia(model, this.#talk);
    this.#changes = new SceneChanges(model, this.#talk, this.#media);
    // Frames that came in are kept by nobody, so what was made of them couldn't be made again.
    if (transform === null) this.keeping = new ContinuationKeeping(model);
    // What an incoming video comes to isn't known before it comes.
    if (transform === null) this.speculation = new ContinuationDrafts(model, this.#changes);
    // Of what is made of an incoming video, fewer steps keep less of what was asked for: it has none to spare.
    if (transform === null && model.reducedSteps !== null) this.reduced = (state, reduced) => ({ ...state, reduced });
    this.format = model.format;
    this.framesPerChunk = model.framesPerChunk;
    this.vocabulary = model.language.vocabulary;
    this.adapters = (model.adapters ?? []).map(({ id, title }) => ({ id, title }));
    this.spec = continuationSpec(model, { transform: transform !== null, aloud });
    this.demand = continuationDemand(model, mediaTime90kToMs(frameDuration90k(model.format) * model.framesPerChunk), transform !== null);
  }

  open({ seed, prompt, image, plan: named, adapter: wished = null, strength }: ProgramStart): ContinuationState {
    const { loops, language } = this.#model;
    const ctx = bindingContext(seed);
    const adapter = appliedAdapter(this.#model, wished);
    if (named !== undefined && (image !== null || this.#transform !== null)) throw new SegueError('bad_request', 'a story that starts from pictures begins with what they show, not with a plan', { param: 'plan' });
    const begun = { ...language.choose(seed), ...(named === undefined ? {} : language.fromNamed(named)) };
    if (this.#transform !== null && image !== null) throw new SegueError('bad_request', 'what a transformed video starts from is its first frame', { param: 'image' });
    if (strength !== undefined && this.#transform === null) throw new SegueError('bad_request', `program ${this.spec.programId} takes no video in`, { param: 'transform' });
    // Its words change what its first frame shows; refused now where they can't be understood.
    if (this.#transform !== null && prompt !== null) language.parse(prompt);
    const opening = image === null ? null : this.#talk.openImage(image, prompt, adapter, seed);
    return {
      position90k: 0,
      chunk: 0,
      lineage: 0,
      seed,
      reduced: false,
      frames: 0,
      opening,
      scene: null,
      upcoming: null,
      start: null,
      video: loops.video.initState({ firstChunk: 0 }, ctx),
      sound: loops.sound.initState({ firstChunk: 0 }, ctx),
      inFlight: null,
      writeUnder: null,
      incoming: this.#transform === null ? null : { waiting: null, like: null, encode: null, prompt, adapter, strength: strength ?? this.#transform.strength },
      talk: this.#transform !== null ? null : opening === null ? this.#talk.firstTalk(begun, prompt, adapter, seed) : null,
      narration: null,
      tape: EMPTY_TAPE,
      made: null,
      restoring: null,
    };
  }

  receive(state: ContinuationState, frames: readonly SharedArrayBuffer[], idle: boolean): { readonly state: ContinuationState; readonly dropped: boolean } {
    if (state.incoming === null) throw new SegueError('bad_request', `program ${this.spec.programId} takes no video in`, { param: 'frames' });
    return this.#media.receive(state, state.incoming, frames, idle);
  }

  betweenChunks({ inFlight, start }: ContinuationState): boolean {
    return inFlight === null && start === null;
  }

  turns(state: ContinuationState): readonly LoopTurn[] {
    return this.#turns.turns(state);
  }

  current(state: ContinuationState, loopId: string): LoopState | null {
    switch (loopId) {
      case 'director':
        return state.talk !== null ? state.talk.director : (state.narration?.director ?? null);
      case 'encoder':
        return state.restoring?.encoder ?? state.talk?.encoder ?? null;
      case 'start':
        return state.start;
      case 'image':
        return state.opening?.encode ?? null;
      case 'incoming':
        return state.incoming?.encode ?? null;
      case 'video':
        return state.video;
      case 'picture':
        return state.inFlight?.picture ?? null;
      case 'sound':
        // Going back to the frame before leaves it as it was, but without the picture that it belongs to.
        return state.inFlight === null || state.inFlight.filled === null ? null : state.sound;
      default:
        return null;
    }
  }

  advance(state: ContinuationState, step: CommittedStep, predict: Predict): Transition<ContinuationState> {
    if (state.restoring !== null) return this.#restored(this.#restoration.advance(state, step));
    const transition = this.#advanced(state, step, predict);
    return state.incoming === null ? transition : { ...transition, state: this.#media.prepared(transition.state) };
  }

  #advanced(state: ContinuationState, step: CommittedStep, predict: Predict): Transition<ContinuationState> {
    switch (step.turn.loopId) {
      case 'director':
        return state.talk !== null ? this.#talk.planned(state, state.talk, step.stepped as ArDecodeState) : this.#talk.narrated(state, step.stepped as ArDecodeState);
      case 'encoder':
        return this.#changes.encoded(state, state.talk!, (step.stepped as EncoderChunkState).encoded!, predict);
      case 'start':
        return unchanged(this.#media.started(state, (step.stepped as StartBankState).latents!));
      case 'incoming':
        return unchanged(this.#media.comeIn(state, step.stepped as VaeTileEncodeState));
      case 'image':
        return this.#talk.imageRead(state, state.opening!, step.stepped as VaeTileEncodeState);
      case 'video':
        return state.video.plan.phase === 'denoise' ? this.#media.denoised(state, step) : this.#media.written(state, step);
      case 'picture':
        return unchanged({ ...state, inFlight: { ...state.inFlight!, picture: step.stepped as VaeTileDecodeState, filled: step.outputs.slots['rgb'] ?? firstSlot(step) } });
      case 'sound':
        return this.#media.sounded(state, step);
      default:
        throw new TypeError(`program ${this.spec.programId} has no loop ${step.turn.loopId}`);
    }
  }

  redirect(state: ContinuationState, request: RedirectRequest, predict: Predict): BegunRedirect<ContinuationState> {
    return this.#changes.redirect(state, request, predict);
  }

  adapterAsked(state: ContinuationState): AdapterInForce | null {
    return this.#changes.adapterAsked(state);
  }

  predictRedirectMs(state: ContinuationState, predict: Predict): number {
    return this.#changes.predictRedirectMs(state, predict);
  }

  steerable(state: ContinuationState): boolean {
    return this.#changes.steerable(state);
  }

  withdraw(state: ContinuationState): ContinuationState {
    return this.#changes.withdraw(state);
  }

  rewound(version: ContinuationState, current: ContinuationState): ContinuationState {
    return this.#changes.rewound(version, current);
  }

  returned(version: ContinuationState, current: ContinuationState, conditioningVersion: number, lineage?: number): ContinuationState {
    return this.#changes.returned(version, current, conditioningVersion, lineage);
  }

  remakeMs(version: ContinuationState, current: ContinuationState, predict: Predict): number | null {
    return this.#changes.remakeMs(version, current, predict);
  }

  revised(version: ContinuationState, current: ContinuationState): ContinuationState {
    return this.#changes.revised(version, current);
  }

  blocks(state: ContinuationState): readonly BlockId[] {
    return blocksOf(state);
  }

  slots({ inFlight }: ContinuationState): readonly FilledSlot[] {
    return inFlight === null || inFlight.filled === null ? [] : [{ pool: 'video', slot: inFlight.filled }];
  }

  /** After a step of a restoration: where it is over, the story can be gone back to as it is now. */
  #restored(state: ContinuationState): Transition<ContinuationState> {
    return { ...unchanged(state), version: state.restoring === null ? kept(state) : null };
  }
}
