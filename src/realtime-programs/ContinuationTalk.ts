import { bindingContext } from '../engine/model/binding_context.ts';
import type { ArDecodeState } from '../engine/model/kernels/ar_decode.ts';
import type { VaeTileEncodeState } from '../engine/model/kernels/vae_tile_encode.ts';
import type { AppliedAdapter } from '../engine/model/loop_kernel.ts';
import type { TextOutput, Transition } from '../engine/programs/RealtimeProgram.ts';
import { SegueError } from '../protocol/errors.ts';
import type { ContinuationModel, ScenePlan } from './continuation_model.ts';
import { requestOf, unchanged, type ContinuationState, type Opening, type Talk } from './continuation_state.ts';

/** Between the plans of two passes. */
const NEXT_THOUGHT = '; ';

/** Words on their way to a plan: the director reads an edit of the plan in force, once per edit, and goes on to tell about what it planned. */
export class ContinuationTalk {
  readonly #model: ContinuationModel;
  readonly #aloud: boolean;

  /** @param aloud tells each token of a plan as it comes. */
  constructor(model: ContinuationModel, aloud = false) {
    this.#model = model;
    this.#aloud = aloud;
  }

  /** What is said at the start of a story whose plan is otherwise `plan`. @throws {SegueError} `prompt_not_understood`. */
  firstTalk(plan: ScenePlan, prompt: string | null, adapter: AppliedAdapter | null, seed: number): Talk {
    const base = { requestId: null, conditioningVersion: 0, mode: 'open', over: null, plan, adapter } as const;
    if (prompt !== null) return { ...base, ...this.listen(plan, prompt, seed).talk, encoder: null };
    return { ...base, ...this.given(plan, seed) };
  }

  /** A plan that nobody has to think of. */
  given(plan: ScenePlan, seed: number) {
    const { loops, language } = this.#model;
    return { edits: [], changes: {}, director: null, encoder: loops.encoder.initState({ ids: language.encode(plan) }, bindingContext(seed)), given: true } as const;
  }

  openImage(bytes: SharedArrayBuffer, prompt: string | null, adapter: AppliedAdapter | null, seed: number): Opening {
    const { image, language } = this.#model;
    if (image === null) throw new SegueError('bad_request', 'this model can’t start from a picture', { param: 'image' });
    // Read later, once it is known what it changes; refused now.
    if (prompt !== null) language.parse(prompt);
    return { encode: image.loop.initState({ image: bytes }, bindingContext(seed)), prompt, asked: null, given: null, adapter };
  }

  /** It is known what the picture shows: words change that, and without words it is the plan. */
  imageRead(state: ContinuationState, opening: Opening, encode: VaeTileEncodeState): Transition<ContinuationState> {
    const { language } = this.#model;
    const { prompt, asked, given, adapter } = opening;
    const plan = { ...language.planOfEntry(encode.plan.entry!), ...given };
    const first = this.firstTalk(plan, asked ?? prompt, (state.talk ?? { adapter }).adapter, state.seed);
    const talk = state.talk === null ? first : { ...first, requestId: state.talk.requestId, conditioningVersion: state.talk.conditioningVersion };
    const decisions = [{ name: 'image.read', args: { plan: language.describe(plan) } }];
    return { ...unchanged({ ...state, opening: { ...opening, encode, asked: null, given: null }, talk }), decisions };
  }

  listen(plan: ScenePlan, prompt: string, seed: number) {
    const { edits, changes, warnings } = this.#model.language.parse(prompt);
    return { talk: { edits: edits.slice(1), changes, director: this.#direct(plan, edits[0]!, seed) }, warnings };
  }

  #direct(plan: ScenePlan, edit: string, seed: number): ArDecodeState {
    const { loops, language } = this.#model;
    const { endIds, maxTokens } = language;
    return loops.director.initState({ ids: language.directorIds(plan, edit), endIds, maxTokens }, bindingContext(seed));
  }

  planned(state: ContinuationState, talk: Talk, director: ArDecodeState): Transition<ContinuationState> {
    const { loops, language } = this.#model;
    const read = language.read(director.plan.tokens);
    if (read.plan === null && !director.plan.done) return { ...unchanged({ ...state, talk: { ...talk, director } }), text: this.#thought(talk, director.plan.tokens) };
    // A director that ends without a plan is passed over: what the words name by themselves is done, and the trace says so.
    const plan = read.plan ?? { ...talk.plan, ...talk.changes };
    const decisions = [{ name: 'director.plan', ...requestOf(talk), args: { plan: language.describe(plan), understood: read.plan !== null, tokens: director.plan.tokens.length } }];
    const [edit, ...edits] = talk.edits;
    if (edit !== undefined && read.plan !== null) {
      return { ...unchanged({ ...state, talk: { ...talk, plan, edits, director: this.#direct(plan, edit, state.seed) } }), text: this.#aloud ? [{ stream: 'plan', requestId: talk.requestId, text: NEXT_THOUGHT, complete: false }] : [], decisions };
    }
    const encoder = loops.encoder.initState({ ids: language.encode(plan) }, bindingContext(state.seed));
    const narration = director.plan.done ? null : { requestId: talk.requestId, director, said: 0 };
    return {
      ...unchanged({ ...state, talk: { ...talk, plan, edits: [], director: null, encoder }, narration }),
      text: talk.mode === 'open' ? [] : [this.planText(talk, plan)],
      decisions,
    };
  }

  planText({ requestId }: Talk, plan: ScenePlan): TextOutput {
    return { stream: 'plan', requestId, text: this.#model.language.describe(plan), attributes: this.#model.language.named(plan), complete: true, whole: true };
  }

  /** The newest token of a plan in the making. */
  #thought({ requestId, director }: Talk, tokens: readonly number[]): readonly TextOutput[] {
    const { say } = this.#model.language;
    if (!this.#aloud || tokens.length === (director?.plan.tokens.length ?? 0)) return [];
    return [{ stream: 'plan', requestId, text: say(tokens).slice(say(tokens.slice(0, -1)).length), complete: false }];
  }

  narrated(state: ContinuationState, director: ArDecodeState): Transition<ContinuationState> {
    const narration = state.narration!;
    const { narration: all } = this.#model.language.read(director.plan.tokens);
    const { done } = director.plan;
    const fresh = all.slice(narration.said);
    const text: TextOutput[] = fresh === '' && !done ? [] : [{ stream: 'narration', requestId: narration.requestId, text: fresh, complete: done }];
    return { ...unchanged({ ...state, narration: done ? null : { ...narration, director, said: all.length } }), text };
  }
}
