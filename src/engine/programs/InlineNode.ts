import type { Conditioning, LoopState, StepOutputs } from '../model/loop_kernel.ts';
import type { BlockId } from '../model/work.ts';
import type { RunEvent } from './InlineProgram.ts';
import type { Given, Item, Ports } from './inline_ports.ts';

/** All that a node knows, as one immutable value. */
export interface NodeState {
  /** The loop that steps next or has stepped last; null while the node has nothing to run. */
  readonly loop: LoopState | null;
}

/** The next step of a node. */
export interface NodeTurn {
  readonly component: string;
  readonly conditioning: Conditioning;
}

export interface Taken<State> {
  readonly state: State;
  /** Ports whose first item was taken. */
  readonly taken: readonly string[];
  readonly gives?: readonly Given[];
  /** Outputs that nothing comes from any more: what hangs on them alone runs nothing. */
  readonly closes?: readonly string[];
}

/** Items at the head of a node's inputs, by port; absent where none waits. */
export type Heads = Readonly<Record<string, Item | undefined>>;

/** What a node needs at most, for a run with these inputs. */
export interface NodeDemand {
  /** Results of a component that are alive at once, and how many. */
  readonly alive: readonly (readonly [component: string, count: number])[];
  /** Units that it runs, as far as can be said beforehand. */
  readonly units: readonly (readonly [component: string, count: number])[];
}

/**
 * How a loop of the model takes part in an inline program: what it takes, when it steps, what it gives. Pure: it runs nothing, and
 * what it gives depends on what it took and on nothing else, so a program's results don't depend on the order in which its nodes are served.
 */
export interface InlineNode<State extends NodeState = NodeState> {
  readonly loopKind: string;
  readonly components: readonly string[];
  readonly inputs: Ports;
  readonly outputs: Ports;
  /** Passes items on without a step: takes none while what it gave waits. */
  readonly passes?: true;
  /** @param connected inputs that an edge leads to: all but optional ones always. */
  open(seed: number, connected: ReadonlySet<string>): State;
  /** Takes from the heads of its inputs what it can use now; null where it waits. @throws {SegueError} for an input that can't be run. */
  take(state: State, heads: Heads): Taken<State> | null;
  /** Null where it has no step to take. */
  turn(state: State): NodeTurn | null;
  /** After a committed step; `loop` is the loop's state after it. */
  stepped(state: State, loop: LoopState, outputs: StepOutputs): { readonly state: State; readonly gives: readonly Given[] };
  /** Has taken something that it hasn't given whole yet. */
  midway(state: State): boolean;
  /** Has given all that it will. */
  finished(state: State): boolean;
  /** Blocks that it keeps alive beside those of items it hasn't taken yet. */
  blocks(state: State): readonly BlockId[];
  demand(inputs: Readonly<Record<string, unknown>>): NodeDemand;
}

/** Where a program's results leave it: turns items into events of the run. */
export interface InlineSink<State = unknown> {
  readonly inputs: Ports;
  open(): State;
  take(state: State, heads: Heads): (Omit<Taken<State>, 'gives' | 'closes'> & { readonly event: RunEvent }) | null;
}
