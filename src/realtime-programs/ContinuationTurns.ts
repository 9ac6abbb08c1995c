import type { ArDecodeState } from '../engine/model/kernels/ar_decode.ts';
import type { AppliedAdapter, LoopState } from '../engine/model/loop_kernel.ts';
import type { LoopTurn } from '../engine/scheduler/LoopTurn.ts';
import { directorPass } from './continuation_declaration.ts';
import { startComponents, videoOf, type ContinuationModel } from './continuation_model.ts';
import type { ContinuationState, Incoming, Opening, Scene, Talk } from './continuation_state.ts';
import { stepsOfNextChunk } from './chunk_steps.ts';
import { mixOf, sceneOfNextChunk, stepPlansOf } from './scene_blend.ts';
import type { StoryRestoration } from './StoryRestoration.ts';

/** Which loops of a video continuation may step, and what each step leads to. */
export class ContinuationTurns {
  readonly #model: ContinuationModel;
  readonly #restoration: StoryRestoration;

  constructor(model: ContinuationModel, restoration: StoryRestoration) {
    this.#model = model;
    this.#restoration = restoration;
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

  #talkTurn(state: ContinuationState, talk: Talk): LoopTurn {
    const { components } = this.#model;
    const steps = stepsOfNextChunk(this.#model, state, talk);
    const waiting = talk.mode === 'seamless' ? null : state.position90k;
    const media = [...(talk.mode === 'open' || talk.mode === 'cut' ? startComponents(this.#model, state) : Array<string>(steps).fill(videoOf(this.#model, talk.adapter).denoise)), components.picture, components.sound];
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

  #mediaTurn(state: ContinuationState): LoopTurn | null {
    const { components, loops } = this.#model;
    const { scene, upcoming, video, inFlight, start } = state;
    if (scene === null) return null;
    const boosted = [scene, upcoming].some((wish) => wish !== null && wish.requestId !== null && !wish.shown);
    const leadsTo = state.position90k;
    const frame = [components.picture, components.sound];
    const steps = inFlight === null ? stepsOfNextChunk(this.#model, state, upcoming) : video.plan.steps;
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
      const { write } = videoOf(this.#model, writeUnder === null ? scene.adapter : (writeUnder.adapter ?? null));
      return { ...this.#base(state, 'video', video, write), memo, conditioning, leadsTo, after: [...Array<string>(steps).fill(videoOf(this.#model, (upcoming ?? scene).adapter).denoise), ...frame], boosted };
    }
    if (state.incoming !== null && inFlight === null) return this.#incomingTurn(state, state.incoming, boosted);
    const { denoise } = videoOf(this.#model, (inFlight === null ? (upcoming ?? scene) : scene).adapter);
    const after = [...Array<string>(steps - video.plan.step - 1).fill(denoise), ...frame];
    const turn = this.#base(state, 'video', video, denoise);
    return { ...turn, conditioning: { ...turn.conditioning, ...(steps === this.#model.steps ? {} : { steps }) }, leadsTo, after, opensMedia: inFlight === null, boosted };
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
}

/** @param chunk what is left of other scenes in it. */
function live(scene: Scene | null, adapter: AppliedAdapter | null, chunk: number): Extract<LoopTurn['conditioning'], { kind: 'live' }> {
  return { kind: 'live', version: scene?.conditioningVersion ?? 0, prompt: scene?.prompt ?? null, ...(scene === null ? {} : mixOf(scene, chunk)), adapter };
}
