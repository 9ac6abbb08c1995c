import { SegueError } from '../../protocol/errors.ts';
import type { EngineRequest } from '../../streams/messages.ts';
import type { Predict, ProgramState, RealtimeProgram, RedirectRequest, SceneTransition, Transition } from '../programs/RealtimeProgram.ts';
import type { ActionLatch } from '../scheduler/ActionLatch.ts';
import type { AdmissionGrant } from '../scheduler/AdmissionController.ts';
import { fencing } from '../scheduler/RequestScheduler.ts';
import type { SessionWords } from '../../streams/session_words.ts';
import type { Device } from './Device.ts';
import type { PromotableDraft } from './PromotableDraft.ts';
import type { SessionAnswers } from './SessionAnswers.ts';
import type { SessionHalt } from './SessionHalt.ts';
import type { SessionTrace } from './SessionTrace.ts';
import type { Story } from './Story.ts';
import type { StoryProgress } from './StoryProgress.ts';
import type { CommittedUnit, WorkSource } from './WorkSource.ts';

export type SceneRequest = Extract<EngineRequest, { readonly request: 'redirect' | 'cut' | 'blend' }>;

export interface SceneRequestParts {
  readonly program: RealtimeProgram;
  readonly story: Story;
  readonly progress: StoryProgress;
  readonly halt: SessionHalt;
  readonly answers: SessionAnswers;
  readonly words: SessionWords;
  readonly latch: ActionLatch;
  readonly grant: AdmissionGrant;
  readonly device: Device<WorkSource>;
  /** What the session has typed ahead, in the caller's hands; null where nothing was made of it. */
  readonly drafted: () => PromotableDraft | null;
  /** The word was raised again: what comes now must not be committed. */
  readonly overtaken: () => boolean;
  readonly takeForce: (transition: Transition<ProgramState>) => void;
  readonly felt: (unit: CommittedUnit) => void;
  readonly takeBack: () => void;
  readonly trace: SessionTrace;
}

/** Redirects, cuts and blends: gone back where they fence, begun by the program, or taken over from a draft that says the same. */
export class SceneRequests {
  readonly #parts: SceneRequestParts;

  constructor(parts: SceneRequestParts) {
    this.#parts = parts;
  }

  /** @param supersedes another one that was not shown yet, and that was told so. */
  begin(request: SceneRequest, supersedes: boolean): void {
    // Whatever words it has, what was typed before is over. Without words it isn't what was typed.
    const drafted = request.prompt === null ? null : this.#parts.drafted();
    try {
      this.#begin(drafted, request, supersedes);
    } finally {
      drafted?.release();
    }
  }

  #begin(drafted: PromotableDraft | null, request: SceneRequest, supersedes: boolean): void {
    const { program, story, halt, answers, device, overtaken, takeBack, trace } = this.#parts;
    const { requestId } = request;
    const wish = this.#wishOf(request);
    const was = halt.by;
    halt.go();
    const version = 'presented90k' in request && !wish.seamless ? this.#goBack(request, wish, drafted) : null;
    // A frame that is there commits like any other: not once the word has been raised again.
    if (drafted !== null && !overtaken() && this.#promote(drafted, version, wish)) return;
    try {
      const predict: Predict = (component) => device.costs.component(component);
      const { state, warnings, predictedMs, decisions = [], recall } = program.redirect(story.state, wish, predict);
      story.replace(state);
      answers.predict(requestId, predictedMs ?? program.predictRedirectMs(state, predict), warnings);
      trace.decided(decisions);
      if (recall === true) takeBack();
    } catch (error) {
      // What isn't understood changes nothing but what the fence has changed already; a session that was held stays held,
      // and a redirect that was told to be superseded must not take effect after all.
      halt.restore(was);
      if (supersedes) story.replace(program.rewound(story.newest, program.withdraw(story.state)));
      answers.failed(requestId, error instanceof SegueError ? error : new SegueError('internal', 'the redirect could not be begun', { cause: error }));
    }
  }

  #wishOf(request: SceneRequest): RedirectRequest {
    const { requestId, prompt, conditioningVersion } = request;
    const { program, story } = this.#parts;
    const transition = transitionOf(request);
    const asked = request.request === 'redirect' ? request.adapter : undefined;
    const plan = request.request === 'redirect' ? request.plan : undefined;
    return { requestId, prompt, ...(plan === undefined ? {} : { plan }), adapter: asked === undefined ? program.adapterAsked(story.state) : asked, seamless: !fencing(request), conditioningVersion, ...(transition === null ? {} : { transition }) };
  }

  /** To what was seen; null where the chunk in flight directly follows that, and may be steered. */
  #goBack(request: SceneRequest & { readonly presented90k: number }, wish: RedirectRequest, drafted: PromotableDraft | null): ProgramState | null {
    const { program, story, progress } = this.#parts;
    const target = story.clamp(request.presented90k);
    const steers = request.request === 'redirect' && drafted?.reaches(story.from(target)[0], wish) !== true && target === story.state.position90k && program.steerable(story.state);
    if (steers) {
      progress.reachedBy(target);
      return null;
    }
    // Without new words, those that nothing was shown of yet are still wanted.
    if (wish.prompt !== null || wish.plan !== undefined) story.replace(program.withdraw(story.state));
    progress.backTo(request.presented90k);
    return story.newest;
  }

  /** Goes on with what the draft has come to, if it says the same. @param version what was gone back to; null where nothing was. */
  #promote(drafted: PromotableDraft, version: ProgramState | null, request: RedirectRequest): boolean {
    const { story, latch, words, grant, device, answers, trace, takeForce, felt: wasFelt, takeBack } = this.#parts;
    const held = latch.read(words.action);
    const promotion = drafted.begin(story.state, version, held, request, grant.account, (component) => device.costs.component(component));
    if (promotion === null) return false;
    const { transition, versions, felt, from, warnings, predictedMs, taken } = promotion;
    answers.predict(request.requestId, predictedMs, warnings);
    trace.tell('draft.promoted', { from }, request.requestId);
    for (const kept of versions) story.keep(kept);
    takeForce(transition);
    taken();
    if (felt !== null) wasFelt(felt);
    if (transition.recall === true) takeBack();
    return true;
  }
}

function transitionOf(request: SceneRequest): SceneTransition | null {
  if (request.request === 'cut') return { kind: 'cut' };
  return request.request === 'blend' ? { kind: 'blend', chunks: request.chunks } : null;
}
