import type { ArDecodeState } from '../../engine/model/kernels/ar_decode.ts';
import type { LoopState } from '../../engine/model/loop_kernel.ts';
import type { BlockId } from '../../engine/model/work.ts';
import type { Heads, InlineNode, NodeDemand, NodeState, NodeTurn, Taken } from '../../engine/programs/InlineNode.ts';
import { item, type Given } from '../../engine/programs/inline_ports.ts';
import { SegueError } from '../../protocol/errors.ts';
import type { ContinuationModel, ScenePlan } from '../../realtime-programs/continuation_model.ts';
import { bindingContext, UNCONDITIONED } from '../../engine/model/binding_context.ts';

export interface DirectorState extends NodeState {
  readonly seed: number;
  readonly loop: ArDecodeState | null;
  /** What is shown before the words change it; null until it is known. */
  readonly plan: ScenePlan | null;
  /** Passes that are still to come after the current one. */
  readonly edits: readonly string[];
  /** What the words name by themselves: stands in for a pass that ends without a plan. */
  readonly changes: ScenePlan;
  /** Length of what was said of the current pass. */
  readonly said: number;
  readonly phase: 'waits' | 'speaks' | 'done';
}

/**
 * Reasons in words: from a prompt to a scene, token by token, over the scene that is `shown` or else one that the seed chooses. A prompt of several wishes is as many passes, each over
 * the plan of the one before.
 */
export class DirectorNode implements InlineNode<DirectorState> {
  readonly loopKind = 'ar_decode';
  readonly inputs = { prompt: { kind: 'text', type: 'prompt' }, shown: { kind: 'control', type: 'scene', optional: true } } as const;
  readonly outputs = { words: { kind: 'stream', type: 'words' }, scene: { kind: 'control', type: 'scene' } } as const;
  readonly components: readonly string[];
  readonly #model: ContinuationModel;

  constructor(model: ContinuationModel) {
    this.#model = model;
    this.components = [model.components.directorPrefill, model.components.directorStep];
  }

  open(seed: number, connected: ReadonlySet<string>): DirectorState {
    return { seed, loop: null, plan: connected.has('shown') ? null : this.#model.language.choose(seed), edits: [], changes: {}, said: 0, phase: 'waits' };
  }

  take(state: DirectorState, { prompt, shown }: Heads): Taken<DirectorState> | null {
    const plan = state.plan ?? (shown?.value as ScenePlan | undefined);
    if (state.phase !== 'waits' || prompt === undefined || plan === undefined) return null;
    const { edits, changes } = this.#model.language.parse(promptOf(prompt.value));
    const [first, ...rest] = edits;
    return { state: { ...state, plan, phase: 'speaks', edits: rest, changes, loop: this.#direct(plan, first!, state.seed) }, taken: state.plan === null ? ['prompt', 'shown'] : ['prompt'] };
  }

  turn({ phase, loop }: DirectorState): NodeTurn | null {
    const { directorPrefill, directorStep } = this.#model.components;
    return phase === 'speaks' ? { component: loop!.kv === null ? directorPrefill : directorStep, conditioning: UNCONDITIONED } : null;
  }

  stepped(state: DirectorState, stepped: LoopState): { state: DirectorState; gives: readonly Given[] } {
    const { language } = this.#model;
    const loop = stepped as ArDecodeState;
    const { tokens, done } = loop.plan;
    const text = language.say(tokens);
    const [edit, ...edits] = state.edits;
    const last = done && edit === undefined;
    const words: Given = { port: 'words', item: item({ text: `${text.slice(state.said)}${done && !last ? '\n' : ''}`, complete: last }) };
    if (!done) return { state: { ...state, loop, said: text.length }, gives: [words] };
    const plan: ScenePlan = language.read(tokens).plan ?? { ...state.plan, ...state.changes };
    const spoken = { ...state, plan, said: 0 };
    if (edit !== undefined) return { state: { ...spoken, edits, loop: this.#direct(plan, edit, state.seed) }, gives: [words] };
    return { state: { ...spoken, loop: null, phase: 'done' }, gives: [words, { port: 'scene', item: item(plan) }] };
  }

  midway({ phase }: DirectorState): boolean {
    return phase === 'speaks';
  }

  finished({ phase }: DirectorState): boolean {
    return phase === 'done';
  }

  blocks({ loop }: DirectorState): readonly BlockId[] {
    return loop?.blocks ?? [];
  }

  demand({ prompt }: Readonly<Record<string, unknown>>): NodeDemand {
    const { components, language } = this.#model;
    const passes = language.parse(promptOf(prompt)).edits.length;
    // Keys and values that are read, and those that are written.
    return { alive: [[components.directorStep, 2]], units: [[components.directorPrefill, passes], [components.directorStep, passes * (language.maxTokens - 1)]] };
  }

  #direct(plan: ScenePlan, edit: string, seed: number): ArDecodeState {
    const { loops, language } = this.#model;
    const { endIds, maxTokens } = language;
    return loops.director.initState({ ids: language.directorIds(plan, edit), endIds, maxTokens }, bindingContext(seed));
  }
}

function promptOf(value: unknown): string {
  if (typeof value !== 'string') throw new SegueError('bad_request', `a prompt is text, got ${typeof value}`, { param: 'prompt' });
  return value;
}
