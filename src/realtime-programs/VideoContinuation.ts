import type { ArDecodeState } from '../engine/model/kernels/ar_decode.ts';
import type { AudioState } from '../engine/model/kernels/audio.ts';
import type { EncoderChunkState } from '../engine/model/kernels/encoder_chunk.ts';
import type { StartBankState } from '../engine/model/kernels/start_bank.ts';
import type { VaeTileDecodeState } from '../engine/model/kernels/vae_tile_decode.ts';
import type { VaeTileEncodeState } from '../engine/model/kernels/vae_tile_encode.ts';
import type { VideoContinuationState } from '../engine/model/kernels/video_continuation.ts';
import { bindingContext } from '../engine/model/binding_context.ts';
import type { AppliedAdapter, LoopState } from '../engine/model/loop_kernel.ts';
import type { BlockId } from '../engine/model/work.ts';
import type { ProgramSpec } from '../engine/programs/ProgramSpec.ts';
import type { AppliedChange, BegunRedirect, CommittedStep, Decision, EmittedFrame, FilledSlot, Predict, ProgramStart, RealtimeProgram, RedirectRequest, TextOutput, Transition } from '../engine/programs/RealtimeProgram.ts';
import type { MediaDemand } from '../engine/scheduler/AdmissionController.ts';
import type { LoopTurn } from '../engine/scheduler/LoopTurn.ts';
import { SegueError } from '../protocol/errors.ts';
import { adapterInForce, type AdapterInForce, type AdapterOffer } from '../protocol/session_adapter.ts';
import { frameDuration90k, mediaTime90kToMs, type MediaFormat } from '../streams/media_time.ts';
import { continuationDemand, continuationSpec, directorPass } from './continuation_declaration.ts';
import type { ContinuationModel, ScenePlan, VideoComponents } from './continuation_model.ts';
import { ContinuationDrafts } from './ContinuationDrafts.ts';
import { ContinuationKeeping } from './ContinuationKeeping.ts';
import { blocksOf, kept, unchanged, type ChunkInFlight, type ContinuationState, type Incoming, type Opening, type Scene, type Talk } from './continuation_state.ts';
import { EMPTY_TAPE, stepRecord, type ChunkTape } from './continuation_tape.ts';
import { changeOptions } from './redirect_choice.ts';
import { completesBlend, eventsOf, mixOf, sceneOfNextChunk, stepPlansOf } from './scene_blend.ts';
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
  readonly #restoration: StoryRestoration;
  readonly speculation?: ContinuationDrafts;
  readonly #model: ContinuationModel;
  readonly #transform: { readonly strength: number } | null;
  readonly #frame90k: number;
  readonly #samplesPerFrame: number;

  /** @param transform noise level that chunks of an incoming video are made from; null: nothing comes in. @throws {TypeError} for a model that can't encode pictures. */
  constructor(model: ContinuationModel, transform: { readonly strength: number } | null = null) {
    if (transform !== null && model.image === null) throw new TypeError('this model can’t take a video in: it has no loop vae_tile_encode');
    this.#model = model;
    this.#transform = transform;
    // Frames that came in are kept by nobody, so what was made of them couldn't be made again.
    if (transform === null) this.keeping = new ContinuationKeeping(model);
    this.#restoration = new StoryRestoration(model);
    this.format = model.format;
    this.framesPerChunk = model.framesPerChunk;
    this.vocabulary = model.language.vocabulary;
    this.adapters = (model.adapters ?? []).map(({ id, title }) => ({ id, title }));
    this.#frame90k = frameDuration90k(model.format);
    this.#samplesPerFrame = model.format.audioSampleRate / model.format.framesPerSecond;
    if (!Number.isInteger(this.#samplesPerFrame)) throw new TypeError(`${model.format.audioSampleRate} samples/s are no whole number per frame at ${model.format.framesPerSecond} frames/s`);
    // What an incoming video comes to isn't known before it comes.
    if (transform === null) this.speculation = new ContinuationDrafts(model, this);
    this.spec = continuationSpec(model, transform !== null);
    this.demand = continuationDemand(model, mediaTime90kToMs(this.#frame90k * model.framesPerChunk), transform !== null);
  }

  open({ seed, prompt, image, plan: named, adapter: wished = null }: ProgramStart): ContinuationState {
    const { loops, language } = this.#model;
    const ctx = bindingContext(seed);
    const adapter = this.applied(wished);
    if (named !== undefined && (image !== null || this.#transform !== null)) throw new SegueError('bad_request', 'a story that starts from pictures begins with what they show, not with a plan', { param: 'plan' });
    const begun = { ...language.choose(seed), ...(named === undefined ? {} : language.fromNamed(named)) };
    if (this.#transform !== null && image !== null) throw new SegueError('bad_request', 'what a transformed video starts from is its first frame', { param: 'image' });
    // Its words change what its first frame shows; refused now where they can't be understood.
    if (this.#transform !== null && prompt !== null) language.parse(prompt);
    const opening = image === null ? null : this.#openImage(image, prompt, adapter, seed);
    return {
      position90k: 0,
      chunk: 0,
      lineage: 0,
      seed,
      frames: 0,
      opening,
      scene: null,
      upcoming: null,
      start: null,
      video: loops.video.initState({ firstChunk: 0 }, ctx),
      sound: loops.sound.initState({ firstChunk: 0 }, ctx),
      inFlight: null,
      writeUnder: null,
      incoming: this.#transform === null ? null : { waiting: null, like: null, encode: null, prompt, adapter },
      talk: this.#transform !== null ? null : opening === null ? this.#firstTalk(begun, prompt, adapter, seed) : null,
      narration: null,
      tape: EMPTY_TAPE,
      made: null,
      restoring: null,
    };
  }

  betweenChunks({ inFlight, start }: ContinuationState): boolean {
    return inFlight === null && start === null;
  }

  turns(state: ContinuationState): readonly LoopTurn[] {
    const { talk, opening, restoring } = state;
    if (restoring !== null) return [this.#restoration.turn(state, restoring)];
    if (opening !== null && opening.encode.latents === null) return [this.#imageTurn(state, opening)];
    const turns: LoopTurn[] = [];
    if (talk !== null) turns.push(this.#talkTurn(state, talk));
    if (talk === null || talk.mode === 'seamless') {
      const media = this.#mediaTurn(state);
      if (media !== null) turns.push(media);
    }
    if (talk === null && state.narration !== null) turns.push({ ...this.#directorBase(state, state.narration.director), leadsTo: null, after: [], boosted: false });
    return turns;
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
        return state.sound;
      default:
        return null;
    }
  }

  advance(state: ContinuationState, step: CommittedStep, predict: Predict): Transition<ContinuationState> {
    if (state.restoring !== null) return this.#restored(this.#restoration.advance(state, step));
    const transition = this.#advanced(state, step, predict);
    return state.incoming === null ? transition : { ...transition, state: this.#prepared(transition.state) };
  }

  receive(state: ContinuationState, frames: readonly SharedArrayBuffer[], idle: boolean): { readonly state: ContinuationState; readonly dropped: boolean } {
    const { incoming, opening, talk, scene, seed } = state;
    if (incoming === null) throw new SegueError('bad_request', `program ${this.spec.programId} takes no video in`, { param: 'frames' });
    // Checks them: what can't be encoded must not wait.
    this.#model.image!.loop.initState({ frames, towards: null }, bindingContext(seed));
    const stale = idle && incoming.encode?.plan.encoded === 0;
    const next: ContinuationState = { ...state, incoming: { ...incoming, waiting: frames, encode: stale ? null : incoming.encode, prompt: null } };
    const first = opening === null && talk === null && scene === null;
    return { state: this.#prepared(first ? { ...next, opening: this.#openImage(frames[0]!, incoming.prompt, incoming.adapter, seed) } : next), dropped: stale || incoming.waiting !== null };
  }

  #advanced(state: ContinuationState, step: CommittedStep, predict: Predict): Transition<ContinuationState> {
    switch (step.turn.loopId) {
      case 'director':
        return state.talk !== null ? this.#planned(state, state.talk, step.stepped as ArDecodeState) : this.#narrated(state, step.stepped as ArDecodeState);
      case 'encoder':
        return this.encoded(state, state.talk!, (step.stepped as EncoderChunkState).encoded!, predict);
      case 'start':
        return unchanged(this.#started(state, (step.stepped as StartBankState).latents!));
      case 'incoming':
        return unchanged(this.#comeIn(state, step.stepped as VaeTileEncodeState));
      case 'image':
        return this.#imageRead(state, state.opening!, step.stepped as VaeTileEncodeState);
      case 'video':
        return state.video.plan.phase === 'denoise' ? this.#denoised(state, step) : this.#written(state, step);
      case 'picture':
        return unchanged({ ...state, inFlight: { ...state.inFlight!, picture: step.stepped as VaeTileDecodeState, filled: step.outputs.slots['rgb'] ?? firstSlot(step) } });
      case 'sound':
        return this.#sounded(state, step);
      default:
        throw new TypeError(`program ${this.spec.programId} has no loop ${step.turn.loopId}`);
    }
  }

  redirect(state: ContinuationState, { requestId, prompt, plan: named, adapter: wished, seamless, conditioningVersion, transition }: RedirectRequest, predict: Predict): BegunRedirect<ContinuationState> {
    const { opening } = state;
    const fresh = state.frames === 0 || state.scene === null;
    // What comes in is recoloured for one scene or the other: there is nothing between them.
    if (transition?.kind === 'blend' && state.incoming !== null) throw new SegueError('bad_request', 'a transformed video can’t blend: redirect or cut it', { param: 'type' });
    const mode = fresh ? 'open' : transition?.kind === 'cut' ? 'cut' : seamless ? 'seamless' : 'hard';
    const wish = { requestId, conditioningVersion, mode, adapter: this.applied(wished === undefined ? this.adapterAsked(state) : wished) } as const;
    if (prompt === null && named === undefined) return this.#readapted(state, wish, predict);
    const given = named === undefined ? null : this.#model.language.fromNamed(named);
    const entry = opening?.encode.plan.entry ?? null;
    const before = state.scene?.plan ?? state.talk?.plan ?? (entry === null ? this.#model.language.choose(state.seed) : this.#model.language.planOfEntry(entry));
    const plan = { ...before, ...given };
    const { talk: heard, warnings } = prompt === null ? { talk: this.#given(plan, state.seed), warnings: [] } : this.#listen(plan, prompt, state.seed);
    const talk: Talk = { encoder: null, ...wish, over: transition?.kind === 'blend' && !fresh ? transition.chunks : null, plan, ...heard };
    // A new wish replaces one that nothing was shown of; narration of the old one ends here, unfinished.
    const next = { ...state, talk, upcoming: null, narration: null, opening: opening === null ? null : { ...opening, asked: entry === null ? prompt : null, given: entry === null ? given : null } };
    return { state: next, warnings };
  }

  adapterAsked({ talk, upcoming, scene, opening }: ContinuationState): AdapterInForce | null {
    return inForce((talk ?? upcoming ?? scene ?? opening)?.adapter ?? null);
  }

  predictRedirectMs(state: ContinuationState, predict: Predict): number {
    const { components } = this.#model;
    const passes = 1 + (state.talk?.edits.length ?? 0);
    const think = passes * directorPass(components).reduce((sum, component) => sum + predict(component), 0) + predict(components.encoder);
    const { talk } = state;
    if (talk?.mode === 'open' || talk?.mode === 'cut') return think + this.#startComponents(state).reduce((ms, component) => ms + predict(component), predict(components.picture) + predict(components.sound));
    return think + this.#changeOptions(state, talk?.mode !== 'seamless', talk, predict)[0]!.predictedMs;
  }

  steerable(state: ContinuationState): boolean {
    return this.#changeOptions(state, true, null, () => 1).some(({ how }) => how === 'steer');
  }

  withdraw(state: ContinuationState): ContinuationState {
    const { talk, scene, opening } = state;
    return {
      ...state,
      opening: opening === null ? null : { ...opening, asked: null, given: null },
      talk: talk?.requestId == null ? talk : null,
      upcoming: null,
      narration: null,
      scene: scene !== null && !scene.shown && scene.requestId !== null ? null : scene,
    };
  }

  rewound(version: ContinuationState, current: ContinuationState): ContinuationState {
    const lineage = current.lineage + 1;
    const { talk, scene, narration } = current;
    const incoming = current.incoming === null ? null : { ...current.incoming, encode: null };
    if (incoming !== null && current.frames === 0) return this.#prepared({ ...current, incoming, start: null, inFlight: null, video: current.inFlight?.boundary ?? current.video, lineage });
    if (current.frames === 0 && (scene ?? talk) !== null) return { ...(scene === null ? current : this.#opened(current, scene)), talk, narration, lineage };
    const unseen = current.upcoming ?? (scene !== null && !scene.shown ? scene : null);
    const still = talk === null ? version.talk : talk.mode === 'seamless' && talk.over === null ? ({ ...talk, mode: 'hard' } as const) : talk;
    return this.#prepared({ ...this.#wished({ ...version, lineage, incoming }, unseen), talk: still, narration });
  }

  /** A kept version, with a scene that is not in it to be shown next, in the way in which it was asked for. */
  #wished(version: ContinuationState, wish: Scene | null): ContinuationState {
    if (wish === null) return { ...version, upcoming: null };
    // A blend of its own begins anew; one that it only goes on with is a function of the chunk's index.
    const again: Scene = { ...wish, step: 0, shown: false, blend: wish.over === null ? wish.blend : null };
    if (wish.how === 'cut') return this.#opened(version, again);
    return { ...version, upcoming: { ...again, how: wish.over === null ? 'restart' : 'blend' } };
  }

  remakeMs({ video, inFlight, start, scene, incoming }: ContinuationState, predict: Predict): number | null {
    const { steps } = this.#model;
    if (incoming !== null || scene === null || start !== null || inFlight !== null || video.plan.seeded) return null;
    const components = { ...this.#model.components, ...this.#videoOf(scene.adapter) };
    const write = video.plan.phase === 'write' ? predict(components.write) : 0;
    return write + steps * predict(components.denoise) + predict(components.picture) + predict(components.sound);
  }

  revised(version: ContinuationState, current: ContinuationState): ContinuationState {
    const { scene, talk, narration } = current;
    const wish = current.upcoming ?? (scene?.conditioningVersion === version.scene?.conditioningVersion ? null : scene);
    return { ...this.#wished({ ...version, lineage: current.lineage + 1 }, wish), talk, narration };
  }

  blocks(state: ContinuationState): readonly BlockId[] {
    return blocksOf(state);
  }

  slots({ inFlight }: ContinuationState): readonly FilledSlot[] {
    return inFlight === null || inFlight.filled === null ? [] : [{ pool: 'video', slot: inFlight.filled }];
  }

  // ---------------------------------------------------------------- turns

  #talkTurn(state: ContinuationState, talk: Talk): LoopTurn {
    const { components, steps } = this.#model;
    const waiting = talk.mode === 'seamless' ? null : state.position90k;
    const media = [...(talk.mode === 'open' || talk.mode === 'cut' ? this.#startComponents(state) : Array<string>(steps).fill(this.#videoOf(talk.adapter).denoise)), components.picture, components.sound];
    const boosted = talk.requestId !== null;
    if (talk.encoder !== null) return { ...this.#base(state, 'encoder', talk.encoder), conditioning: live(state.scene, talk.adapter, state.video.plan.chunk), leadsTo: waiting, after: media, boosted };
    const director = talk.director!;
    const ahead = [...directorPass(components, director.plan.tokens.length + 1), ...talk.edits.flatMap(() => directorPass(components))];
    return { ...this.#directorBase(state, director), leadsTo: waiting, after: [...ahead, components.encoder, ...media], boosted };
  }

  /** Nothing else is known before the picture is read. */
  #imageTurn(state: ContinuationState, { encode, prompt, asked }: Opening): LoopTurn {
    const { components, image } = this.#model;
    const words = (asked ?? prompt) === null ? [] : directorPass(components);
    const after = [...words, components.encoder, components.picture, components.sound];
    return { ...this.#base(state, 'start', encode, image!.component), loopId: 'image', kernel: image!.loop.kind, leadsTo: state.position90k, after, boosted: asked !== null };
  }

  /** What is still to run for the start frames themselves. */
  #startComponents({ opening }: ContinuationState): readonly string[] {
    return opening === null ? [this.#model.components.start] : [];
  }

  #mediaTurn(state: ContinuationState): LoopTurn | null {
    const { components, steps, loops } = this.#model;
    const { scene, upcoming, video, inFlight, start } = state;
    if (scene === null) return null;
    const boosted = [scene, upcoming].some((wish) => wish !== null && wish.requestId !== null && !wish.shown);
    const leadsTo = state.position90k;
    const frame = [components.picture, components.sound];
    if (start !== null) return { ...this.#base(state, 'start', start), leadsTo, after: frame, boosted };
    if (inFlight !== null && loops.video.isChunkReady(video)) {
      if (inFlight.filled === null) return { ...this.#base(state, 'picture', inFlight.picture!), leadsTo, after: [components.sound], boosted };
      return { ...this.#base(state, 'sound', state.sound), leadsTo, after: [], boosted };
    }
    if (inFlight === null && video.plan.phase === 'write') {
      // Under what the chunk itself was made under, whatever has been asked for since.
      const { writeUnder } = state;
      const conditioning: LoopTurn['conditioning'] = writeUnder === null ? live(scene, scene.adapter, video.plan.chunk) : { kind: 'fixed', conditioning: writeUnder };
      const memo = writeUnder === null ? stepPlansOf(scene, video.plan.chunk) : (state.made?.steps.at(-1) ?? stepPlansOf(scene, video.plan.chunk));
      const { write } = this.#videoOf(writeUnder === null ? scene.adapter : (writeUnder.adapter ?? null));
      return { ...this.#base(state, 'video', video, write), memo, conditioning, leadsTo, after: [...Array<string>(steps).fill(this.#videoOf((upcoming ?? scene).adapter).denoise), ...frame], boosted };
    }
    if (state.incoming !== null && inFlight === null) return this.#incomingTurn(state, state.incoming, boosted);
    const { denoise } = this.#videoOf((inFlight === null ? (upcoming ?? scene) : scene).adapter);
    const after = [...Array<string>(steps - video.plan.step - 1).fill(denoise), ...frame];
    return { ...this.#base(state, 'video', video, denoise), leadsTo, after, opensMedia: inFlight === null, boosted };
  }

  /** A chunk of the video that comes in is encoded first; while there is none, nothing is made. */
  #incomingTurn(state: ContinuationState, { encode }: Incoming, boosted: boolean): LoopTurn | null {
    if (encode === null) return null;
    const { components, steps, image } = this.#model;
    const left = Array<string>(encode.plan.units - encode.plan.encoded - 1).fill(image!.videoComponent);
    const after = [...left, ...Array<string>(steps).fill(components.denoise), components.picture, components.sound];
    return { ...this.#base(state, 'start', encode, image!.videoComponent), loopId: 'incoming', kernel: image!.loop.kind, leadsTo: state.position90k, after, opensMedia: encode.plan.encoded === 0, boosted };
  }

  #directorBase(state: ContinuationState, director: ArDecodeState) {
    const { directorPrefill, directorStep } = this.#model.components;
    return this.#base(state, 'director', director, director.kv === null ? directorPrefill : directorStep);
  }

  #base(state: ContinuationState, loopId: keyof ContinuationModel['loops'], loop: LoopState, component: string = this.#model.components[loopId as 'encoder']) {
    const scene = state.inFlight === null ? sceneOfNextChunk(state) : state.scene;
    return {
      loopId,
      kernel: this.#model.loops[loopId].kind,
      component,
      state: loop,
      lineage: state.lineage,
      conditioning: live(scene, (scene ?? state.talk ?? state.opening)?.adapter ?? null, state.video.plan.chunk),
      opensMedia: false,
      memo: scene === null ? undefined : stepPlansOf(scene, state.video.plan.chunk),
    };
  }

  /** An adapter as steps run under it. @throws {SegueError} `adapter_not_usable`. */
  applied(wish: AdapterInForce | null): AppliedAdapter | null {
    const { adapters = [] } = this.#model;
    if (wish === null) return null;
    const { id, scale } = adapterInForce(wish, adapters);
    return { id, scale, version: adapters.find((adapter) => adapter.id === id)!.version };
  }

  #videoOf(adapter: AppliedAdapter | null): VideoComponents {
    const { denoise, write, adapted } = this.#model.components;
    return adapter === null ? { denoise, write } : adapted!;
  }

  // ---------------------------------------------------------------- words

  /** What is said at the start of a story whose plan is otherwise `plan`. @throws {SegueError} `prompt_not_understood`. */
  #firstTalk(plan: ScenePlan, prompt: string | null, adapter: AppliedAdapter | null, seed: number): Talk {
    const base = { requestId: null, conditioningVersion: 0, mode: 'open', over: null, plan, adapter } as const;
    if (prompt !== null) return { ...base, ...this.#listen(plan, prompt, seed).talk, encoder: null };
    return { ...base, ...this.#given(plan, seed) };
  }

  /** A plan that nobody has to think of. */
  #given(plan: ScenePlan, seed: number) {
    const { loops, language } = this.#model;
    return { edits: [], changes: {}, director: null, encoder: loops.encoder.initState({ ids: language.encode(plan) }, bindingContext(seed)), given: true } as const;
  }

  #openImage(bytes: SharedArrayBuffer, prompt: string | null, adapter: AppliedAdapter | null, seed: number): Opening {
    const { image, language } = this.#model;
    if (image === null) throw new SegueError('bad_request', 'this model can’t start from a picture', { param: 'image' });
    // Read later, once it is known what it changes; refused now.
    if (prompt !== null) language.parse(prompt);
    return { encode: image.loop.initState({ image: bytes }, bindingContext(seed)), prompt, asked: null, given: null, adapter };
  }

  /** It is known what the picture shows: words change that, and without words it is the plan. */
  #imageRead(state: ContinuationState, opening: Opening, encode: VaeTileEncodeState): Transition<ContinuationState> {
    const { language } = this.#model;
    const { prompt, asked, given, adapter } = opening;
    const plan = { ...language.planOfEntry(encode.plan.entry!), ...given };
    const first = this.#firstTalk(plan, asked ?? prompt, (state.talk ?? { adapter }).adapter, state.seed);
    const talk = state.talk === null ? first : { ...first, requestId: state.talk.requestId, conditioningVersion: state.talk.conditioningVersion };
    const decisions = [{ name: 'image.read', args: { plan: language.describe(plan) } }];
    return { ...unchanged({ ...state, opening: { ...opening, encode, asked: null, given: null }, talk }), decisions };
  }

  #listen(plan: ScenePlan, prompt: string, seed: number) {
    const { edits, changes, warnings } = this.#model.language.parse(prompt);
    return { talk: { edits: edits.slice(1), changes, director: this.#direct(plan, edits[0]!, seed) }, warnings };
  }

  #direct(plan: ScenePlan, edit: string, seed: number): ArDecodeState {
    const { loops, language } = this.#model;
    const { endIds, maxTokens } = language;
    return loops.director.initState({ ids: language.directorIds(plan, edit), endIds, maxTokens }, bindingContext(seed));
  }

  #planned(state: ContinuationState, talk: Talk, director: ArDecodeState): Transition<ContinuationState> {
    const { loops, language } = this.#model;
    const read = language.read(director.plan.tokens);
    if (read.plan === null && !director.plan.done) return unchanged({ ...state, talk: { ...talk, director } });
    // A director that ends without a plan is passed over: what the words name by themselves is done, and the trace says so.
    const plan = read.plan ?? { ...talk.plan, ...talk.changes };
    const decisions = [{ name: 'director.plan', ...requestOf(talk), args: { plan: language.describe(plan), understood: read.plan !== null, tokens: director.plan.tokens.length } }];
    const [edit, ...edits] = talk.edits;
    if (edit !== undefined && read.plan !== null) {
      return { ...unchanged({ ...state, talk: { ...talk, plan, edits, director: this.#direct(plan, edit, state.seed) } }), decisions };
    }
    const encoder = loops.encoder.initState({ ids: language.encode(plan) }, bindingContext(state.seed));
    const narration = director.plan.done ? null : { requestId: talk.requestId, director, said: 0 };
    return {
      ...unchanged({ ...state, talk: { ...talk, plan, edits: [], director: null, encoder }, narration }),
      text: talk.mode === 'open' ? [] : [this.#planText(talk, plan)],
      decisions,
    };
  }

  #planText({ requestId }: Talk, plan: ScenePlan): TextOutput {
    return { stream: 'plan', requestId, text: this.#model.language.describe(plan), attributes: this.#model.language.named(plan), complete: true };
  }

  #narrated(state: ContinuationState, director: ArDecodeState): Transition<ContinuationState> {
    const narration = state.narration!;
    const { narration: all } = this.#model.language.read(director.plan.tokens);
    const { done } = director.plan;
    const fresh = all.slice(narration.said);
    const text: TextOutput[] = fresh === '' && !done ? [] : [{ stream: 'narration', requestId: narration.requestId, text: fresh, complete: done }];
    return { ...unchanged({ ...state, narration: done ? null : { ...narration, director, said: all.length } }), text };
  }

  /** The scene is there: choose how it takes effect. Called where a plan was encoded now, or long before (`ContinuationDrafts`). */
  encoded(state: ContinuationState, talk: Talk, prompt: Scene['prompt'], predict: Predict): Transition<ContinuationState> {
    const scene: Scene = {
      plan: talk.plan,
      prompt,
      adapter: talk.adapter,
      conditioningVersion: talk.conditioningVersion,
      requestId: talk.requestId,
      replacedRequestId: state.scene?.requestId ?? null,
      how: 'restart',
      step: 0,
      shown: false,
      over: talk.over,
      blend: null,
    };
    if (talk.mode === 'open') {
      const opened = this.#opened(state, scene);
      // Versions hold what was seen: a first scene that somebody asked for later is not that yet.
      // Said here, because a story that begins without words has no director to say it.
      return { ...unchanged(opened), version: talk.requestId === null ? kept(opened) : null, text: [this.#planText(talk, talk.plan)] };
    }
    if (talk.mode === 'cut') {
      const shot = this.#opened(state, { ...scene, how: 'cut' });
      return { ...unchanged(shot), decisions: [{ name: 'redirect.choice', ...requestOf(talk), chunk: shot.video.plan.chunk, step: 0, args: { how: 'cut' } }] };
    }
    const { state: next, decisions, recall } = this.#choose({ ...state, talk: null }, scene, talk.mode, predict);
    return { ...unchanged(next), text: talk.given === true ? [this.#planText(talk, talk.plan)] : [], decisions, ...recall };
  }

  /** A scene that is wanted takes effect in the way that shows it soonest; by degrees, from the next chunk on. */
  #choose(state: ContinuationState, scene: Scene, mode: 'hard' | 'seamless', predict: Predict) {
    const options = this.#changeOptions(state, mode === 'hard', scene, predict);
    const { predictedMs } = options[0]!;
    const how = scene.over === null ? options[0]!.how : 'blend';
    const next = this.#apply(state, { ...scene, how, step: how === 'steer' ? state.video.plan.step : 0 });
    const decision: Decision = {
      name: 'redirect.choice',
      ...requestOf(scene),
      chunk: next.video.plan.chunk,
      step: next.video.plan.step,
      args: { how, predictedMs: round(predictedMs), ...Object.fromEntries(options.map((option) => [`${option.how}Ms`, round(option.predictedMs)])) },
    };
    // Who asks for a change by degrees is in no hurry for the first of them.
    return { state: next, predictedMs, decisions: [decision], recall: mode === 'seamless' && scene.over === null ? ({ recall: true } as const) : {} };
  }

  /** Another adapter and no new words: words that are being thought about go on under it; else what is shown is taken up again with it, at once. */
  #readapted(state: ContinuationState, wish: Pick<Talk, 'requestId' | 'conditioningVersion' | 'mode' | 'adapter'>, predict: Predict): BegunRedirect<ContinuationState> {
    const { components, language } = this.#model;
    const { talk, scene, upcoming } = state;
    if (talk !== null || scene === null) {
      const going = talk ?? this.#firstTalk(language.choose(state.seed), null, null, state.seed);
      // Media that was stopped for words stays stopped until they are understood.
      const mode = going.mode === 'seamless' || wish.mode === 'open' ? wish.mode : going.mode;
      return { state: { ...state, talk: { ...going, ...wish, mode, over: mode === 'seamless' ? going.over : null } }, warnings: [] };
    }
    const { requestId, conditioningVersion, adapter } = wish;
    // A cut that nothing was shown of stays one.
    const cut = upcoming === null && scene.how === 'cut' && !scene.shown;
    // A blend that is under way goes on; one that hasn't begun does so with it, or, fenced, is shown at once.
    const over = upcoming !== null && wish.mode === 'seamless' ? upcoming.over : null;
    const next: Scene = { ...(upcoming ?? scene), adapter, requestId, conditioningVersion, replacedRequestId: scene.requestId, how: cut ? 'cut' : 'restart', step: 0, shown: false, over };
    if (wish.mode === 'open' || wish.mode === 'cut' || cut) {
      const opened = this.#opened(state, next);
      return { state: opened, warnings: [], predictedMs: [...this.#startComponents(state), components.picture, components.sound].reduce((ms, component) => ms + predict(component), 0) };
    }
    const { state: chosen, predictedMs, decisions, recall } = this.#choose(state, next, wish.mode, predict);
    return { state: chosen, warnings: [], predictedMs, decisions, ...recall };
  }

  /** At the start of a story, or at a cut in it: start frames of the scene (or the picture it was given), then on from them. */
  #opened(state: ContinuationState, scene: Scene): ContinuationState {
    const { loops, language } = this.#model;
    const ctx = bindingContext(state.seed);
    const latents = scene.how === 'cut' ? null : (state.opening?.encode.latents ?? null);
    const opened: ContinuationState = {
      ...state,
      talk: null,
      scene,
      upcoming: null,
      start: latents === null ? loops.start.initState({ index: language.bankIndex(scene.plan) }, ctx) : null,
      video: loops.video.initState({ firstChunk: state.chunk }, ctx),
      sound: loops.sound.initState({ firstChunk: state.chunk }, ctx),
      inFlight: null,
      writeUnder: null,
      // A frame may have gone out while the new opening was being thought about.
      tape: { ...EMPTY_TAPE, frames: state.tape.frames },
      made: null,
    };
    if (state.incoming !== null) return this.#prepared({ ...opened, start: null, incoming: { ...state.incoming, encode: null } });
    return latents === null ? opened : this.#seeded(opened, latents);
  }

  /** @param scene that is wanted: under its adapter, and a change by degrees begins with a chunk (see {@link Scene.over}). */
  #changeOptions(state: ContinuationState, fenced: boolean, scene: Pick<Scene, 'adapter' | 'over'> | null, predict: Predict) {
    const { steps, steerUntil, loops } = this.#model;
    const components = { ...this.#model.components, ...this.#videoOf(scene?.adapter ?? null) };
    const { inFlight, video } = state;
    const chunk =
      inFlight === null
        ? null
        : // What is in flight was recoloured for the old scene: it can't become the new one.
          { stepsDone: video.plan.step, noise: state.incoming === null ? 1 - video.plan.step / steps : 0, seeded: video.plan.seeded, ready: loops.video.isChunkReady(video), framesLeft: this.framesPerChunk - (state.frames % this.framesPerChunk) };
    const options = changeOptions({ fenced, chunk, steps, steerUntil, writePending: inFlight === null && video.plan.phase === 'write' }, components, predict);
    return scene === null || scene.over === null ? options : options.filter(({ how }) => how === 'continue');
  }

  #apply(state: ContinuationState, scene: Scene): ContinuationState {
    if (scene.how === 'steer') return { ...state, scene, upcoming: null };
    if (scene.how === 'continue' || scene.how === 'blend' || state.inFlight === null) return { ...state, upcoming: scene };
    const { boundary } = state.inFlight;
    return { ...state, upcoming: scene, video: boundary, inFlight: null, lineage: state.lineage + 1 };
  }

  // ---------------------------------------------------------------- media

  #started(state: ContinuationState, latents: BlockId): ContinuationState {
    if (state.incoming === null) return this.#seeded(state, latents);
    return { ...state, start: null, incoming: { ...state.incoming, like: { plan: (state.upcoming ?? state.scene)!.plan, latents } } };
  }

  /** What the next chunk of an incoming video needs: an entry that it is to look like, then the newest frames. What was begun for another scene is given up. */
  #prepared(state: ContinuationState): ContinuationState {
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
    const towards = { like: like.latents, level: this.#transform!.strength, chunk: video.plan.chunk };
    return { ...state, start: null, incoming: { ...incoming, waiting: null, encode: image!.loop.initState({ frames: waiting, towards }, ctx) } };
  }

  /** A chunk of the incoming video, encoded as far as `encode` says; once it is whole, the chunk in flight begins with it. */
  #comeIn(state: ContinuationState, encode: VaeTileEncodeState): ContinuationState {
    const incoming = { ...state.incoming!, encode };
    if (!encode.plan.done) return { ...state, incoming };
    const boundary = state.video;
    const video = this.#model.loops.video.noised(boundary, encode.latents!, this.#transform!.strength);
    const inFlight: ChunkInFlight = { boundary, conditioning: null, picture: null, filled: null };
    return { ...state, video, inFlight, scene: sceneOfNextChunk(state), upcoming: null, incoming: { ...incoming, encode: null } };
  }

  #seeded(state: ContinuationState, latents: BlockId): ContinuationState {
    const boundary = state.video;
    const video = this.#model.loops.video.seeded(boundary, latents);
    return this.#ready({ ...state, start: null, video, inFlight: { boundary, conditioning: null, picture: null, filled: null } });
  }

  #denoised(state: ContinuationState, step: CommittedStep): Transition<ContinuationState> {
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
    const first = state.frames % this.framesPerChunk;
    const frames = Array.from({ length: this.framesPerChunk - first }, (_, index) => first + index);
    const start90k = state.position90k - first * this.#frame90k;
    const picture = loops.picture.initState({ latents, frames, start90k }, bindingContext(state.seed));
    const sound = loops.sound.withChunk(state.sound, { latents, chunk: state.video.plan.chunk, frames, start90k });
    return { ...state, sound, inFlight: { ...state.inFlight!, picture } };
  }

  #written(state: ContinuationState, step: CommittedStep): Transition<ContinuationState> {
    const next = { ...state, video: step.stepped as VideoContinuationState, writeUnder: null, tape: { ...EMPTY_TAPE, write: stepRecord(step) } };
    return { ...unchanged(next), version: kept(next) };
  }

  /** Picture and sound of a frame are there: emit it, and keep the version that goes on after it. */
  #sounded(state: ContinuationState, step: CommittedStep): Transition<ContinuationState> {
    const sound = step.stepped as AudioState;
    const inFlight = state.inFlight!;
    const frames = state.frames + 1;
    const frameInChunk = state.frames % this.framesPerChunk;
    const last = frameInChunk === this.framesPerChunk - 1;
    const scene = state.scene!;
    const next: ContinuationState = {
      ...state,
      frames,
      opening: null,
      position90k: state.position90k + this.#frame90k,
      chunk: Math.floor(frames / this.framesPerChunk),
      sound,
      scene: scene.shown ? scene : { ...scene, shown: true },
      inFlight: last ? null : { ...inFlight, filled: null },
      writeUnder: last ? inFlight.conditioning : state.writeUnder,
    };
    const frame = this.#frame(state, inFlight, step, scene);
    const { conditioningVersion, actionSequence, events } = frame;
    const tape: ChunkTape = { ...state.tape, frames: [...state.tape.frames, { lineage: step.turn.lineage, conditioningVersion, actionSequence, active: events.active }] };
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

  /** After a step of a restoration: where it is over, the story can be gone back to as it is now. */
  #restored(state: ContinuationState): Transition<ContinuationState> {
    return { ...unchanged(state), version: state.restoring === null ? kept(state) : null };
  }

  /** To go on inside a chunk: its frames so far stay as they were seen, the rest is made anew around them. Start frames are simply shown on. */
  #pinned(state: ContinuationState): ContinuationState {
    if (state.video.plan.seeded) return kept(state);
    const { video } = this.#model.loops;
    return kept({ ...state, video: video.withPin(state.inFlight!.boundary, video.latentsOf(state.video), state.frames % this.framesPerChunk), inFlight: null });
  }

  #frame(state: ContinuationState, { filled, conditioning }: ChunkInFlight, step: CommittedStep, scene: Scene): EmittedFrame {
    const { plan } = state.video;
    return {
      start90k: state.position90k,
      end90k: state.position90k + this.#frame90k,
      chunk: plan.chunk,
      frameInChunk: state.frames % this.framesPerChunk,
      videoSlot: filled!,
      audioSlot: step.outputs.slots['pcm'] ?? firstSlot(step),
      samples: this.#samplesPerFrame,
      origin: plan.seeded ? 'seed' : 'generated',
      step: plan.changedAtStep,
      conditioningVersion: scene.conditioningVersion,
      actionSequence: conditioning?.actionSequence ?? 0,
      // Of its latents: start frames are made with none.
      adapter: conditioning?.adapter ?? null,
      events: eventsOf(scene, plan.chunk, state.frames % this.framesPerChunk),
    };
  }
}

/** @param chunk what is left of other scenes in it. */
function live(scene: Scene | null, adapter: AppliedAdapter | null, chunk: number): LoopTurn['conditioning'] {
  return { kind: 'live', version: scene?.conditioningVersion ?? 0, prompt: scene?.prompt ?? null, ...(scene === null ? {} : mixOf(scene, chunk)), adapter };
}

function inForce(adapter: AppliedAdapter | null): AdapterInForce | null {
  return adapter === null ? null : { id: adapter.id, scale: adapter.scale };
}

function requestOf({ requestId }: Pick<Talk, 'requestId'>): { readonly requestId?: string } {
  return requestId === null ? {} : { requestId };
}

function firstSlot({ outputs, turn }: CommittedStep): number {
  const slot = Object.values(outputs.slots)[0];
  if (slot === undefined) throw new TypeError(`a ${turn.loopId} unit fills a slot, this one filled none`);
  return slot;
}

function round(ms: number): number {
  return Math.round(ms * 100) / 100;
}
