import type { LoopState } from '../../engine/model/loop_kernel.ts';
import type { BlockId } from '../../engine/model/work.ts';
import type { Heads, InlineNode, NodeDemand, NodeState, NodeTurn, Taken } from '../../engine/programs/InlineNode.ts';
import type { Given, Port, Ports } from '../../engine/programs/inline_ports.ts';
import { UNCONDITIONED } from '../../engine/model/binding_context.ts';

export interface OnceState extends NodeState {
  readonly seed: number;
  readonly done: boolean;
}

export interface OnceDeclaration {
  readonly loopKind: string;
  readonly component: string;
  readonly input: readonly [name: string, port: Port];
  readonly outputs: Ports;
  /** Results that are alive at once: its own and those on their way. */
  readonly alive: number;
  /** Binds the loop to what was taken. */
  readonly bind: (value: unknown, seed: number) => LoopState;
  /** What is given when the loop has run: an item for each output. */
  readonly results: (loop: LoopState) => readonly Given[];
}

/** A loop that takes one value, runs one unit and gives what came of it: the prompt encoder, the start frames, a picture's latents, log-probabilities. */
export class OnceNode implements InlineNode<OnceState> {
  readonly loopKind: string;
  readonly components: readonly string[];
  readonly inputs: Ports;
  readonly outputs: Ports;
  readonly #declaration: OnceDeclaration;

  constructor(declaration: OnceDeclaration) {
    const { loopKind, component, input, outputs } = declaration;
    this.loopKind = loopKind;
    this.components = [component];
    this.inputs = { [input[0]]: input[1] };
    this.outputs = outputs;
    this.#declaration = declaration;
  }

  open(seed: number): OnceState {
    return { seed, loop: null, done: false };
  }

  take(state: OnceState, heads: Heads): Taken<OnceState> | null {
    const { input, bind } = this.#declaration;
    const head = heads[input[0]];
    if (state.done || state.loop !== null || head === undefined) return null;
    return { state: { ...state, loop: bind(head.value, state.seed) }, taken: [input[0]] };
  }

  turn({ done }: OnceState): NodeTurn | null {
    return done ? null : { component: this.#declaration.component, conditioning: UNCONDITIONED };
  }

  stepped(state: OnceState, loop: LoopState): { state: OnceState; gives: readonly Given[] } {
    return { state: { ...state, loop: null, done: true }, gives: this.#declaration.results(loop) };
  }

  midway({ loop }: OnceState): boolean {
    return loop !== null;
  }

  finished({ done }: OnceState): boolean {
    return done;
  }

  blocks({ loop }: OnceState): readonly BlockId[] {
    return loop?.blocks ?? [];
  }

  demand(): NodeDemand {
    const { component, alive } = this.#declaration;
    return { alive: [[component, alive]], units: [[component, 1]] };
  }
}
