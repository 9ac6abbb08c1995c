import type { ArDecodeState } from '../engine/model/kernels/ar_decode.ts';
import type { PromptBlocks } from '../engine/model/loop_kernel.ts';
import type { MemoryTag } from '../engine/model/work.ts';
import type { MemoryBudget } from '../engine/memory/BlockPool.ts';
import type { Predict, RealtimeProgram, RedirectRequest, Transition } from '../engine/programs/RealtimeProgram.ts';
import type { ForeseenRedirect, ReadWords, SpeculativeProgram } from '../engine/programs/SpeculativeProgram.ts';
import type { PromptWarning } from '../protocol/prompt_warning.ts';
import { appliedAdapter, type ContinuationModel, type ScenePlan } from './continuation_model.ts';
import type { ContinuationState, Scene, Talk } from './continuation_state.ts';
import { samePlan, type ChunkTape, type FrameRecord, type StepRecord } from './continuation_tape.ts';

export interface ContinuationWords extends ReadWords {
  /** The plan that they change. */
  readonly over: ScenePlan;
  readonly edits: readonly string[];
  readonly scene: Pick<Scene, 'plan' | 'prompt'>;
  /** The director where its plan ended: it can go on to tell about it. */
  readonly narrator: ArDecodeState | null;
}

/** What a continuation lets its drafts do: its own steps, from another beginning. */
export interface DraftedContinuation extends Pick<RealtimeProgram<ContinuationState>, 'redirect' | 'rewound' | 'withdraw' | 'adapterAsked'> {
  /** A plan was encoded: how it takes effect is chosen, and it does. */
  encoded(state: ContinuationState, talk: Talk, prompt: PromptBlocks, predict: Predict): Transition<ContinuationState>;
}

/** Drafts of a video continuation: words first, because they stay true however the story moves on; then the first frame from each version that may be gone back to. */
export class ContinuationDrafts implements SpeculativeProgram<ContinuationState, ContinuationWords> {
  readonly #model: ContinuationModel;
  readonly #program: DraftedContinuation;

  constructor(model: ContinuationModel, program: DraftedContinuation) {
    this.#model = model;
    this.#program = program;
  }

  memory(forks: number): MemoryBudget {
    const { components, steps, framesPerChunk, bytesOf } = this.#model;
    const memory: Record<MemoryTag, number> = { weights: 0, kv: 0, activations: 0, staging: 0 };
    // One scene and two states of the director for the words; of each fork a chunk, what its first frame takes, and one more output of each: a unit that is out.
    const alive: Readonly<Record<string, number>> = {
      [components.directorStep]: 2,
      [components.encoder]: 2,
      [components.write]: forks + 1,
      [components.denoise]: (forks + 1) * steps + 1,
      [components.picture]: forks + 1,
      [components.sound]: (forks + 1) * framesPerChunk,
    };
    for (const [component, count] of Object.entries(alive)) for (const [tag, bytes] of Object.entries(bytesOf(component))) memory[tag as MemoryTag] += bytes * count;
    return memory;
  }

  forkable({ frames, scene, opening, start, inFlight, video, restoring }: ContinuationState, held: boolean): boolean {
    if (frames === 0 || scene === null || restoring !== null || opening !== null || start !== null || inFlight !== null) return false;
    return held || video.plan.phase === 'denoise';
  }

  read(version: ContinuationState, current: ContinuationState, request: RedirectRequest, predict: Predict): ContinuationState {
    return this.#program.redirect(this.#forked(version, current), request, predict).state;
  }

  words({ scene: over }: ContinuationState, { talk, upcoming, scene, narration }: ContinuationState, prompt: string): ContinuationWords | null {
    const read = upcoming ?? scene;
    if (talk !== null || read === null || over === null) return null;
    const { edits, warnings } = this.#model.language.parse(prompt);
    const narrator = narration?.director ?? null;
    return {
      prompt,
      plan: this.#model.language.describe(read.plan),
      warnings,
      over: over.plan,
      edits,
      scene: { plan: read.plan, prompt: read.prompt },
      narrator,
      blocks: [...Object.values(read.prompt), ...(narrator?.blocks ?? [])],
    };
  }

  make(version: ContinuationState, current: ContinuationState, request: RedirectRequest, words: ContinuationWords, predict: Predict): ContinuationState | null {
    const begun = this.begin(this.#forked(version, current), request, words, predict);
    return begun === null ? null : { ...begun.transition.state, narration: null };
  }

  begin(state: ContinuationState, request: RedirectRequest, words: ContinuationWords, predict: Predict): ForeseenRedirect<ContinuationState> | null {
    const { scene, frames, opening, restoring } = state;
    if (scene === null || frames === 0 || opening !== null || restoring !== null || !samePlan(scene.plan, words.over)) return null;
    const { requestId, conditioningVersion, seamless, prompt, transition: way } = request;
    const warnings = prompt === null ? null : this.#understood(prompt, words);
    if (warnings === null) return null;
    // Neither the director nor the encoder knows of adapters: words that were read under one are true under another.
    const adapter = appliedAdapter(this.#model, request.adapter === undefined ? this.#program.adapterAsked(state) : request.adapter);
    const mode = way?.kind === 'cut' ? 'cut' : seamless ? 'seamless' : 'hard';
    const talk: Talk = { requestId, conditioningVersion, mode, over: way?.kind === 'blend' ? way.chunks : null, adapter, plan: words.scene.plan, edits: [], changes: {}, director: null, encoder: null };
    const narration = words.narrator === null ? null : { requestId, director: words.narrator, said: 0 };
    const transition = this.#program.encoded({ ...state, upcoming: null, narration }, talk, words.scene.prompt, predict);
    const predictedMs = transition.decisions.find(({ name }) => name === 'redirect.choice')?.args['predictedMs'];
    const text = [{ stream: 'plan', requestId, text: words.plan, complete: true }] as const;
    return { transition: { ...transition, text }, warnings, predictedMs: typeof predictedMs === 'number' ? predictedMs : 0 };
  }

  promoted(transition: Transition<ContinuationState>, { requestId, conditioningVersion }: RedirectRequest, { narrator }: ContinuationWords): Transition<ContinuationState> {
    const { state, version, frame, applied } = transition;
    const own = (forked: ContinuationState): ContinuationState => renamed(forked, requestId, conditioningVersion);
    return {
      ...transition,
      state: { ...own(state), narration: narrator === null ? null : { requestId, director: narrator, said: 0 } },
      version: version === null ? null : own(version),
      frame: frame === null ? null : { ...frame, conditioningVersion, events: { ...frame.events, started: [requestId], active: [requestId] } },
      applied: applied === null ? null : { ...applied, requestId },
    };
  }

  /** As a fencing redirect leaves a story: gone back to the version, with nothing said or wished for. */
  #forked(version: ContinuationState, current: ContinuationState): ContinuationState {
    return this.#program.rewound(version, this.#program.withdraw(current));
  }

  /** The request's own warnings, where it says the same; null where it says something else or nothing that is understood. */
  #understood(prompt: string, { edits }: ContinuationWords): readonly PromptWarning[] | null {
    try {
      const parsed = this.#model.language.parse(prompt);
      return parsed.edits.length === edits.length && parsed.edits.every((edit, index) => edit === edits[index]) ? parsed.warnings : null;
    } catch {
      // The redirect itself says what isn't understood.
      return null;
    }
  }
}

function renamed(state: ContinuationState, requestId: string, version: number): ContinuationState {
  const { scene, upcoming, inFlight, writeUnder, video, tape, made } = state;
  const drafted = upcoming ?? scene;
  const wish = (one: Scene): Scene => ({ ...one, requestId, conditioningVersion: version });
  return {
    ...state,
    // What was wished for is upcoming until a step has run under it, and the scene from then on.
    scene: upcoming === null && scene !== null ? wish(scene) : scene,
    upcoming: upcoming === null ? null : wish(upcoming),
    video: upcoming === null ? { ...video, plan: { ...video.plan, conditioningVersion: version } } : video,
    inFlight: inFlight === null || inFlight.conditioning === null ? inFlight : { ...inFlight, conditioning: { ...inFlight.conditioning, version } },
    writeUnder: writeUnder === null || upcoming !== null ? writeUnder : { ...writeUnder, version },
    tape: drafted === null ? tape : taped(tape, drafted, requestId, version),
    made: drafted === null || made === null ? made : { ...made, ...taped(made, drafted, requestId, version) },
  };
}

/** What is kept of a fork's steps and frames, as if the request had been there when they were made. */
function taped({ write, steps, frames }: ChunkTape, drafted: Scene, requestId: string, version: number): ChunkTape {
  const step = (record: StepRecord): StepRecord => (record.conditioningVersion === drafted.conditioningVersion ? { ...record, conditioningVersion: version } : record);
  const named = (ids: readonly string[]): string[] => ids.map((id) => (id === drafted.requestId ? requestId : id));
  return {
    write: write === null ? null : step(write),
    steps: steps.map(step),
    frames: frames.map((frame): FrameRecord => {
      const { started = [], active, completed = [], under = null } = frame;
      if (frame.conditioningVersion !== drafted.conditioningVersion) return frame;
      return { ...frame, conditioningVersion: version, started: named(started), active: named(active), completed: named(completed), under: under === null ? null : step(under) };
    }),
  };
}
