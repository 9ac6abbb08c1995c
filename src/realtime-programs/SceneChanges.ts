import { bindingContext } from '../engine/model/binding_context.ts';
import type { BegunRedirect, Decision, Predict, RedirectRequest, Transition } from '../engine/programs/RealtimeProgram.ts';
import { SegueError } from '../protocol/errors.ts';
import type { AdapterInForce } from '../protocol/session_adapter.ts';
import { directorPass } from './continuation_declaration.ts';
import { appliedAdapter, startComponents, videoOf, type ContinuationModel } from './continuation_model.ts';
import { stepsOfNextChunk } from './chunk_steps.ts';
import type { ContinuationMedia } from './ContinuationMedia.ts';
import { inForce, kept, requestOf, unchanged, type ContinuationState, type Scene, type Talk } from './continuation_state.ts';
import type { ContinuationTalk } from './ContinuationTalk.ts';
import { EMPTY_TAPE } from './continuation_tape.ts';
import { changeOptions } from './redirect_choice.ts';

/** How what is asked for takes the place of what is shown: redirect, cut, blend and adapter; and the same once the story has been gone back on. */
export class SceneChanges {
  readonly #model: ContinuationModel;
  readonly #talk: ContinuationTalk;
  readonly #media: ContinuationMedia;

  constructor(model: ContinuationModel, talk: ContinuationTalk, media: ContinuationMedia) {
    this.#model = model;
    this.#talk = talk;
    this.#media = media;
  }

  redirect(state: ContinuationState, { requestId, prompt, plan: named, adapter: wished, seamless, conditioningVersion, transition }: RedirectRequest, predict: Predict): BegunRedirect<ContinuationState> {
    const { opening } = state;
    const fresh = state.frames === 0 || state.scene === null;
    // What comes in is recoloured for one scene or the other: there is nothing between them.
    if (transition?.kind === 'blend' && state.incoming !== null) throw new SegueError('bad_request', 'a transformed video can’t blend: redirect or cut it', { param: 'type' });
    const mode = fresh ? 'open' : transition?.kind === 'cut' ? 'cut' : seamless ? 'seamless' : 'hard';
    const wish = { requestId, conditioningVersion, mode, adapter: appliedAdapter(this.#model, wished === undefined ? this.adapterAsked(state) : wished) } as const;
    if (prompt === null && named === undefined) return this.#readapted(state, wish, predict);
    const given = named === undefined ? null : this.#model.language.fromNamed(named);
    const entry = opening?.encode.plan.entry ?? null;
    const before = state.scene?.plan ?? state.talk?.plan ?? (entry === null ? this.#model.language.choose(state.seed) : this.#model.language.planOfEntry(entry));
    const plan = { ...before, ...given };
    const { talk: heard, warnings } = prompt === null ? { talk: this.#talk.given(plan, state.seed), warnings: [] } : this.#talk.listen(plan, prompt, state.seed);
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
    if (talk?.mode === 'open' || talk?.mode === 'cut') return think + startComponents(this.#model, state).reduce((ms, component) => ms + predict(component), predict(components.picture) + predict(components.sound));
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
    const { talk, scene, narration, reduced } = current;
    const incoming = current.incoming === null ? null : { ...current.incoming, encode: null };
    if (incoming !== null && current.frames === 0) return this.#media.prepared({ ...current, incoming, start: null, inFlight: null, video: current.inFlight?.boundary ?? current.video, lineage });
    if (current.frames === 0 && (scene ?? talk) !== null) return { ...(scene === null ? current : this.#opened(current, scene)), talk, narration, lineage };
    const unseen = current.upcoming ?? (scene !== null && !scene.shown ? scene : null);
    const still = talk === null ? version.talk : talk.mode === 'seamless' && talk.over === null ? ({ ...talk, mode: 'hard' } as const) : talk;
    return this.#media.prepared({ ...this.#wished({ ...version, lineage, incoming, reduced }, unseen), talk: still, narration });
  }

  returned(version: ContinuationState, current: ContinuationState, conditioningVersion: number, lineage = current.lineage + 1): ContinuationState {
    const { scene, talk, incoming } = version;
    return this.#media.prepared({
      ...version,
      lineage,
      reduced: current.reduced,
      scene: scene === null ? null : { ...scene, conditioningVersion },
      talk: talk === null ? null : { ...talk, conditioningVersion },
      upcoming: null,
      narration: null,
      // What waited at that moment was another session's, or has long been made or let go of.
      incoming: incoming === null ? null : { ...incoming, waiting: current === version ? null : (current.incoming?.waiting ?? null), encode: null },
    });
  }

  /** A kept version, with a scene that is not in it to be shown next, in the way in which it was asked for. */
  #wished(version: ContinuationState, wish: Scene | null): ContinuationState {
    if (wish === null) return { ...version, upcoming: null };
    // A blend of its own begins anew; one that it only goes on with is a function of the chunk's index.
    const again: Scene = { ...wish, step: 0, shown: false, blend: wish.over === null ? wish.blend : null };
    if (wish.how === 'cut') return this.#opened(version, again);
    return { ...version, upcoming: { ...again, how: wish.over === null ? 'restart' : 'blend' } };
  }

  remakeMs({ video, inFlight, start, scene, incoming }: ContinuationState, current: ContinuationState, predict: Predict): number | null {
    if (incoming !== null || scene === null || start !== null || inFlight !== null || video.plan.seeded) return null;
    const components = { ...this.#model.components, ...videoOf(this.#model, scene.adapter) };
    const write = video.plan.phase === 'write' ? predict(components.write) : 0;
    return write + stepsOfNextChunk(this.#model, current, current.upcoming) * predict(components.denoise) + predict(components.picture) + predict(components.sound);
  }

  revised(version: ContinuationState, current: ContinuationState): ContinuationState {
    const { scene, talk, narration } = current;
    const wish = current.upcoming ?? (scene?.conditioningVersion === version.scene?.conditioningVersion ? null : scene);
    return { ...this.#wished({ ...version, lineage: current.lineage + 1, reduced: current.reduced }, wish), talk, narration };
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
      return { ...unchanged(opened), version: talk.requestId === null ? kept(opened) : null, text: [this.#talk.planText(talk, talk.plan)] };
    }
    if (talk.mode === 'cut') {
      const shot = this.#opened(state, { ...scene, how: 'cut' });
      return { ...unchanged(shot), decisions: [{ name: 'redirect.choice', ...requestOf(talk), chunk: shot.video.plan.chunk, step: 0, args: { how: 'cut' } }] };
    }
    const { state: next, decisions, recall } = this.#choose({ ...state, talk: null }, scene, talk.mode, predict);
    return { ...unchanged(next), text: talk.given === true ? [this.#talk.planText(talk, talk.plan)] : [], decisions, ...recall };
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
      const going = talk ?? this.#talk.firstTalk(language.choose(state.seed), null, null, state.seed);
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
      return { state: opened, warnings: [], predictedMs: [...startComponents(this.#model, state), components.picture, components.sound].reduce((ms, component) => ms + predict(component), 0) };
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
    if (state.incoming !== null) return this.#media.prepared({ ...opened, start: null, incoming: { ...state.incoming, encode: null } });
    return latents === null ? opened : this.#media.seeded(opened, latents);
  }

  /** @param scene that is wanted: under its adapter, and a change by degrees begins with a chunk (see {@link Scene.over}). */
  #changeOptions(state: ContinuationState, fenced: boolean, scene: Pick<Scene, 'requestId' | 'adapter' | 'over'> | null, predict: Predict) {
    const { steerUntil, loops } = this.#model;
    const steps = stepsOfNextChunk(this.#model, state, scene);
    const components = { ...this.#model.components, ...videoOf(this.#model, scene?.adapter ?? null) };
    const { inFlight, video } = state;
    const chunk =
      inFlight === null
        ? null
        : // What is in flight was recoloured for the old scene: it can't become the new one.
          { stepsDone: video.plan.step, stepsLeft: video.plan.steps - video.plan.step, noise: state.incoming === null ? 1 - video.plan.step / video.plan.steps : 0, seeded: video.plan.seeded, ready: loops.video.isChunkReady(video), framesLeft: this.#model.framesPerChunk - (state.frames % this.#model.framesPerChunk) };
    const options = changeOptions({ fenced, chunk, steps, steerUntil, writePending: inFlight === null && video.plan.phase === 'write' }, components, predict);
    return scene === null || scene.over === null ? options : options.filter(({ how }) => how === 'continue');
  }

  #apply(state: ContinuationState, scene: Scene): ContinuationState {
    if (scene.how === 'steer') return { ...state, scene, upcoming: null };
    if (scene.how === 'continue' || scene.how === 'blend' || state.inFlight === null) return { ...state, upcoming: scene };
    const { boundary } = state.inFlight;
    return { ...state, upcoming: scene, video: boundary, inFlight: null, lineage: state.lineage + 1 };
  }
}

function round(ms: number): number {
  return Math.round(ms * 100) / 100;
}
