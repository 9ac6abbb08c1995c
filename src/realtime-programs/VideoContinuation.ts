import type { ArDecodeState } from '../engine/model/kernels/ar_decode.ts';
import type { AudioState } from '../engine/model/kernels/audio.ts';
import type { EncoderChunkState } from '../engine/model/kernels/encoder_chunk.ts';
import type { StartBankState } from '../engine/model/kernels/start_bank.ts';
import type { VaeTileDecodeState } from '../engine/model/kernels/vae_tile_decode.ts';
import type { VaeTileEncodeState } from '../engine/model/kernels/vae_tile_encode.ts';
import type { VideoContinuationState } from '../engine/model/kernels/video_continuation.ts';
import { bindingContext } from '../engine/model/binding_context.ts';
import type { LoopState } from '../engine/model/loop_kernel.ts';
import type { BlockId } from '../engine/model/work.ts';
import type { ProgramSpec } from '../engine/programs/ProgramSpec.ts';
import type { AppliedChange, CommittedStep, Decision, EmittedFrame, FilledSlot, Predict, ProgramStart, RealtimeProgram, RedirectRequest, TextOutput, Transition } from '../engine/programs/RealtimeProgram.ts';
import type { MediaDemand } from '../engine/scheduler/AdmissionController.ts';
import type { LoopTurn } from '../engine/scheduler/LoopTurn.ts';
import { SegueError } from '../protocol/errors.ts';
import { frameDuration90k, mediaTime90kToMs, type MediaFormat } from '../streams/media_time.ts';
import { ContinuationDrafts } from './ContinuationDrafts.ts';
import { continuationDemand, continuationSpec, directorPass } from './continuation_declaration.ts';
import type { ContinuationModel, ScenePlan } from './continuation_model.ts';
import { blocksOf, type ChunkInFlight, type ContinuationState, type Opening, type Scene, type Talk } from './continuation_state.ts';
import { changeOptions } from './redirect_choice.ts';

/**
 * Endless video with sound, steered by actions and redirected by words. Per chunk: denoise steps, then picture and sound of one frame
 * after the other, each emitted as soon as it is there, then the clean write that lets the next chunk see this one.
 * A redirect first lets the director plan and the encoder encode; then the chunk in flight is steered, made anew or finished.
 *
 * Loops by role: `director`, `encoder`, `start`, `video` (denoise and write), `picture`, `sound`;
 * and `image`, where the story starts from a given picture instead of from the start bank.
 */
export class VideoContinuation implements RealtimeProgram<ContinuationState> {
  readonly spec: ProgramSpec;
  readonly demand: MediaDemand;
  readonly format: MediaFormat;
  readonly framesPerChunk: number;
  readonly vocabulary: readonly string[];
  readonly speculation: ContinuationDrafts;
  readonly #model: ContinuationModel;
  readonly #frame90k: number;
  readonly #samplesPerFrame: number;

  constructor(model: ContinuationModel) {
    this.#model = model;
    this.format = model.format;
    this.framesPerChunk = model.framesPerChunk;
    this.vocabulary = model.language.vocabulary;
    this.#frame90k = frameDuration90k(model.format);
    this.#samplesPerFrame = model.format.audioSampleRate / model.format.framesPerSecond;
    if (!Number.isInteger(this.#samplesPerFrame)) throw new TypeError(`${model.format.audioSampleRate} samples/s are no whole number per frame at ${model.format.framesPerSecond} frames/s`);
    this.speculation = new ContinuationDrafts(model, this);
    this.spec = continuationSpec(model);
    this.demand = continuationDemand(model, mediaTime90kToMs(this.#frame90k * model.framesPerChunk));
  }

  open({ seed, prompt, image }: ProgramStart): ContinuationState {
    const { loops, language } = this.#model;
    const ctx = bindingContext(seed);
    const opening = image === null ? null : this.#openImage(image, prompt, seed);
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
      talk: opening === null ? this.#firstTalk(language.choose(seed), prompt, seed) : null,
      narration: null,
    };
  }

  betweenChunks({ inFlight, start }: ContinuationState): boolean {
    return inFlight === null && start === null;
  }

  turns(state: ContinuationState): readonly LoopTurn[] {
    const { talk, opening } = state;
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
        return state.talk?.encoder ?? null;
      case 'start':
        return state.start;
      case 'image':
        return state.opening?.encode ?? null;
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
    switch (step.turn.loopId) {
      case 'director':
        return state.talk !== null ? this.#planned(state, state.talk, step.stepped as ArDecodeState) : this.#narrated(state, step.stepped as ArDecodeState);
      case 'encoder':
        return this.encoded(state, state.talk!, (step.stepped as EncoderChunkState).encoded!, predict);
      case 'start':
        return unchanged(this.#seeded(state, (step.stepped as StartBankState).latents!));
      case 'image':
        return this.#imageRead(state, state.opening!, step.stepped as VaeTileEncodeState);
      case 'video':
        return state.video.plan.phase === 'denoise' ? this.#denoised(state, step) : this.#written(state, step.stepped as VideoContinuationState);
      case 'picture':
        return unchanged({ ...state, inFlight: { ...state.inFlight!, picture: step.stepped as VaeTileDecodeState, filled: step.outputs.slots['rgb'] ?? firstSlot(step) } });
      case 'sound':
        return this.#sounded(state, step);
      default:
        throw new TypeError(`program ${this.spec.programId} has no loop ${step.turn.loopId}`);
    }
  }

  redirect(state: ContinuationState, { requestId, prompt, seamless, conditioningVersion }: RedirectRequest) {
    const { opening } = state;
    const entry = opening?.encode.plan.entry ?? null;
    const plan = state.scene?.plan ?? state.talk?.plan ?? (entry === null ? this.#model.language.choose(state.seed) : this.#model.language.planOfEntry(entry));
    const { talk: heard, warnings } = this.#listen(plan, prompt, state.seed);
    const fresh = state.frames === 0 || state.scene === null;
    const talk: Talk = { requestId, conditioningVersion, mode: fresh ? 'open' : seamless ? 'seamless' : 'hard', plan, ...heard, encoder: null };
    // A new wish replaces one that nothing was shown of; narration of the old one ends here, unfinished.
    const next = { ...state, talk, upcoming: null, narration: null, opening: opening === null ? null : { ...opening, asked: entry === null ? prompt : null } };
    return { state: next, warnings };
  }

  predictRedirectMs(state: ContinuationState, predict: Predict): number {
    const { components } = this.#model;
    const passes = 1 + (state.talk?.edits.length ?? 0);
    const think = passes * directorPass(components).reduce((sum, component) => sum + predict(component), 0) + predict(components.encoder);
    if (state.talk?.mode === 'open') return think + this.#startComponents(state).reduce((ms, component) => ms + predict(component), predict(components.picture) + predict(components.sound));
    return think + this.#changeOptions(state, state.talk?.mode !== 'seamless', predict)[0]!.predictedMs;
  }

  steerable(state: ContinuationState): boolean {
    return this.#changeOptions(state, true, () => 1).some(({ how }) => how === 'steer');
  }

  withdraw(state: ContinuationState): ContinuationState {
    const { talk, scene, opening } = state;
    return {
      ...state,
      opening: opening === null ? null : { ...opening, asked: null },
      talk: talk?.requestId == null ? talk : null,
      upcoming: null,
      narration: null,
      scene: scene !== null && !scene.shown && scene.requestId !== null ? null : scene,
    };
  }

  rewound(version: ContinuationState, current: ContinuationState): ContinuationState {
    const lineage = current.lineage + 1;
    const { talk, scene, narration } = current;
    if (current.frames === 0 && (scene ?? talk) !== null) return { ...(scene === null ? current : this.#opened(current, scene)), talk, narration, lineage };
    const unseen = current.upcoming ?? (scene !== null && !scene.shown ? scene : null);
    return {
      ...version,
      lineage,
      talk: talk === null ? version.talk : talk.mode === 'seamless' ? { ...talk, mode: 'hard' } : talk,
      upcoming: unseen === null ? null : { ...unseen, how: 'restart', step: 0 },
      narration,
    };
  }

  remakeMs({ video, inFlight, start, scene }: ContinuationState, predict: Predict): number | null {
    const { components, steps } = this.#model;
    if (scene === null || start !== null || inFlight !== null || video.plan.seeded) return null;
    const write = video.plan.phase === 'write' ? predict(components.write) : 0;
    return write + steps * predict(components.denoise) + predict(components.picture) + predict(components.sound);
  }

  revised(version: ContinuationState, current: ContinuationState): ContinuationState {
    const { scene, talk, narration } = current;
    const wish = current.upcoming ?? (scene?.conditioningVersion === version.scene?.conditioningVersion ? null : scene);
    return { ...version, lineage: current.lineage + 1, talk, narration, upcoming: wish === null ? null : { ...wish, how: 'restart', step: 0, shown: false } };
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
    const media = [...(talk.mode === 'open' ? this.#startComponents(state) : Array<string>(steps).fill(components.denoise)), components.picture, components.sound];
    const boosted = talk.requestId !== null;
    if (talk.encoder !== null) return { ...this.#base(state, 'encoder', talk.encoder), leadsTo: waiting, after: media, boosted };
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
      const conditioning: LoopTurn['conditioning'] =
        state.writeUnder === null ? { kind: 'live', version: scene.conditioningVersion, prompt: scene.prompt } : { kind: 'fixed', conditioning: state.writeUnder };
      return { ...this.#base(state, 'video', video, components.write), conditioning, leadsTo, after: [...Array<string>(steps).fill(components.denoise), ...frame], boosted };
    }
    const after = [...Array<string>(steps - video.plan.step - 1).fill(components.denoise), ...frame];
    return { ...this.#base(state, 'video', video, components.denoise), leadsTo, after, opensMedia: inFlight === null, boosted };
  }

  #directorBase(state: ContinuationState, director: ArDecodeState) {
    const { directorPrefill, directorStep } = this.#model.components;
    return this.#base(state, 'director', director, director.kv === null ? directorPrefill : directorStep);
  }

  #base(state: ContinuationState, loopId: keyof ContinuationModel['loops'], loop: LoopState, component: string = this.#model.components[loopId as 'encoder']) {
    const scene = state.inFlight === null ? (state.upcoming ?? state.scene) : state.scene;
    return {
      loopId,
      kernel: this.#model.loops[loopId].kind,
      component,
      state: loop,
      lineage: state.lineage,
      conditioning: { kind: 'live', version: scene?.conditioningVersion ?? 0, prompt: scene?.prompt ?? null } as LoopTurn['conditioning'],
      opensMedia: false,
    };
  }

  // ---------------------------------------------------------------- words

  /** What is said at the start of a story whose plan is otherwise `plan`. @throws {SegueError} `prompt_not_understood`. */
  #firstTalk(plan: ScenePlan, prompt: string | null, seed: number): Talk {
    const { loops, language } = this.#model;
    const base = { requestId: null, conditioningVersion: 0, mode: 'open', plan } as const;
    if (prompt !== null) return { ...base, ...this.#listen(plan, prompt, seed).talk, encoder: null };
    return { ...base, edits: [], changes: {}, director: null, encoder: loops.encoder.initState({ ids: language.encode(plan) }, bindingContext(seed)) };
  }

  #openImage(bytes: SharedArrayBuffer, prompt: string | null, seed: number): Opening {
    const { image, language } = this.#model;
    if (image === null) throw new SegueError('bad_request', 'this model can’t start from a picture', { param: 'image' });
    // Read later, once it is known what it changes; refused now.
    if (prompt !== null) language.parse(prompt);
    return { encode: image.loop.initState({ image: bytes }, bindingContext(seed)), prompt, asked: null };
  }

  /** It is known what the picture shows: words change that, and without words it is the plan. */
  #imageRead(state: ContinuationState, opening: Opening, encode: VaeTileEncodeState): Transition<ContinuationState> {
    const { language } = this.#model;
    const plan = language.planOfEntry(encode.plan.entry!);
    const { prompt, asked } = opening;
    const talk =
      state.talk !== null && asked !== null ? { ...state.talk, plan, ...this.#listen(plan, asked, state.seed).talk } : this.#firstTalk(plan, prompt, state.seed);
    const decisions = [{ name: 'image.read', args: { plan: language.describe(plan) } }];
    return { ...unchanged({ ...state, opening: { ...opening, encode, asked: null }, talk }), decisions };
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
    return { stream: 'plan', requestId, text: this.#model.language.describe(plan), complete: true };
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
      conditioningVersion: talk.conditioningVersion,
      requestId: talk.requestId,
      replacedRequestId: state.scene?.requestId ?? null,
      how: 'restart',
      step: 0,
      shown: false,
    };
    if (talk.mode === 'open') {
      const opened = this.#opened(state, scene);
      // Versions hold what was seen: a first scene that somebody asked for later is not that yet.
      // Said here, because a story that begins without words has no director to say it.
      return { ...unchanged(opened), version: talk.requestId === null ? kept(opened) : null, text: [this.#planText(talk, talk.plan)] };
    }
    const options = this.#changeOptions(state, talk.mode === 'hard', predict);
    const { how, predictedMs } = options[0]!;
    const next = this.#apply({ ...state, talk: null }, { ...scene, how, step: how === 'steer' ? state.video.plan.step : 0 });
    const decision: Decision = {
      name: 'redirect.choice',
      ...requestOf(talk),
      chunk: next.video.plan.chunk,
      step: next.video.plan.step,
      args: { how, predictedMs: round(predictedMs), ...Object.fromEntries(options.map((option) => [`${option.how}Ms`, round(option.predictedMs)])) },
    };
    return { ...unchanged(next), decisions: [decision], ...(talk.mode === 'seamless' ? { recall: true } : {}) };
  }

  /** At the start of a story: start frames of the scene (or the picture it was given), then on from them. */
  #opened(state: ContinuationState, scene: Scene): ContinuationState {
    const { loops, language } = this.#model;
    const ctx = bindingContext(state.seed);
    const latents = state.opening?.encode.latents ?? null;
    const opened: ContinuationState = {
      ...state,
      talk: null,
      scene,
      upcoming: null,
      start: latents === null ? loops.start.initState({ index: language.bankIndex(scene.plan) }, ctx) : null,
      video: loops.video.initState({ firstChunk: 0 }, ctx),
      sound: loops.sound.initState({ firstChunk: 0 }, ctx),
      inFlight: null,
      writeUnder: null,
    };
    return latents === null ? opened : this.#seeded(opened, latents);
  }

  #changeOptions(state: ContinuationState, fenced: boolean, predict: Predict) {
    const { steps, steerUntil, components, loops } = this.#model;
    const { inFlight, video } = state;
    const chunk =
      inFlight === null
        ? null
        : { stepsDone: video.plan.step, noise: 1 - video.plan.step / steps, seeded: video.plan.seeded, ready: loops.video.isChunkReady(video), framesLeft: this.framesPerChunk - (state.frames % this.framesPerChunk) };
    return changeOptions({ fenced, chunk, steps, steerUntil, writePending: inFlight === null && video.plan.phase === 'write' }, components, predict);
  }

  #apply(state: ContinuationState, scene: Scene): ContinuationState {
    if (scene.how === 'steer') return { ...state, scene, upcoming: null };
    if (scene.how === 'continue' || state.inFlight === null) return { ...state, upcoming: scene };
    const { boundary } = state.inFlight;
    return { ...state, upcoming: scene, video: boundary, inFlight: null, lineage: state.lineage + 1 };
  }

  // ---------------------------------------------------------------- media

  #seeded(state: ContinuationState, latents: BlockId): ContinuationState {
    const boundary = state.video;
    const video = this.#model.loops.video.seeded(boundary, latents);
    return this.#ready({ ...state, start: null, video, inFlight: { boundary, conditioning: null, picture: null, filled: null } });
  }

  #denoised(state: ContinuationState, { stepped, conditioning }: CommittedStep): Transition<ContinuationState> {
    const video = stepped as VideoContinuationState;
    const inFlight: ChunkInFlight = { boundary: state.inFlight?.boundary ?? state.video, conditioning, picture: null, filled: null };
    const scene = state.inFlight === null ? (state.upcoming ?? state.scene) : state.scene;
    const upcoming = state.inFlight === null ? null : state.upcoming;
    const next = { ...state, video, inFlight, scene, upcoming };
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

  #written(state: ContinuationState, video: VideoContinuationState): Transition<ContinuationState> {
    const next = { ...state, video, writeUnder: null };
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
    const applied: AppliedChange | null =
      scene.shown || scene.requestId === null ? null : { requestId: scene.requestId, how: scene.how, chunk: frame.chunk, step: scene.step, media90k: frame.start90k };
    return { ...unchanged(next), version: last ? kept(next) : this.#pinned(next), frame, applied };
  }

  /** To go on inside a chunk: its frames so far stay as they were seen, the rest is made anew around them. Start frames are simply shown on. */
  #pinned(state: ContinuationState): ContinuationState {
    if (state.video.plan.seeded) return kept(state);
    const { video } = this.#model.loops;
    return kept({ ...state, video: video.withPin(state.inFlight!.boundary, video.latentsOf(state.video), state.frames % this.framesPerChunk), inFlight: null });
  }

  #frame(state: ContinuationState, { filled, conditioning }: ChunkInFlight, step: CommittedStep, scene: Scene): EmittedFrame {
    const { plan } = state.video;
    const mine = scene.requestId === null ? [] : [scene.requestId];
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
      events: scene.shown ? { started: [], active: mine, completed: [] } : { started: mine, active: mine, completed: scene.replacedRequestId === null ? [] : [scene.replacedRequestId] },
    };
  }
}

/** A state as a version keeps it: without what was being said or wished for at the time. */
function kept(state: ContinuationState): ContinuationState {
  return { ...state, talk: null, narration: null, upcoming: null };
}

function unchanged(state: ContinuationState): Transition<ContinuationState> {
  return { state, version: null, frame: null, text: [], applied: null, decisions: [] };
}

function requestOf({ requestId }: Talk): { readonly requestId?: string } {
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
