import type { Heads, InlineNode, NodeDemand, NodeState, Taken } from './InlineNode.ts';
import { type Port, type Ports } from './inline_ports.ts';

/** When a branch takes its `then`: a value, or the value of a key of it, equals this. */
export interface BranchCondition {
  readonly key?: string;
  readonly equals: string | number | boolean;
}

/** Nodes that decide what flows, and run nothing. */
export type ControlSpec =
  /** Looks at `choice` once, and gives every `value` to `then` or to `else`; what hangs on the other side alone runs nothing. */
  | { readonly control: 'branch'; readonly carries: Port; readonly choice: Port; readonly when: BranchCondition }
  /** Both sides of a branch together again: waits for the one that was taken, and gives what comes of it. */
  | { readonly control: 'join'; readonly carries: Port }
  /** Gives every `value`, but none before `after` came: a dependency without payload. */
  | { readonly control: 'wait'; readonly carries: Port; readonly after: Port };

interface ControlState extends NodeState {
  /** Of a branch the side that it took, of a wait whether it is over; null until then. */
  readonly open: 'then' | 'else' | null;
}

/** A control node of an inline program. Pure, and without a unit: it passes an item on where there is room for it. */
export class ControlNode implements InlineNode<ControlState> {
  readonly loopKind = 'control';
  readonly components = [];
  readonly inputs: Ports;
  readonly outputs: Ports;
  readonly passes = true;
  readonly #spec: ControlSpec;

  constructor(spec: ControlSpec) {
    const { carries, control } = spec;
    this.#spec = spec;
    this.inputs = control === 'join' ? { then: carries, else: carries } : { value: carries, ...(control === 'branch' ? { choice: spec.choice } : { after: spec.after }) };
    this.outputs = control === 'branch' ? { then: carries, else: carries } : { value: carries };
  }

  open(): ControlState {
    return { loop: null, open: this.#spec.control === 'join' ? 'then' : null };
  }

  take(state: ControlState, heads: Heads): Taken<ControlState> | null {
    const spec = this.#spec;
    if (spec.control === 'join') {
      // Only one side of a branch ever gives anything, so which is looked at first decides nothing.
      const side = heads['then'] !== undefined ? 'then' : 'else';
      const given = heads[side];
      return given === undefined ? null : { state, taken: [side], gives: [{ port: 'value', item: given }] };
    }
    if (state.open === null) {
      const decides = spec.control === 'branch' ? 'choice' : 'after';
      const given = heads[decides];
      if (given === undefined) return null;
      if (spec.control === 'wait') return { state: { ...state, open: 'then' }, taken: [decides] };
      const open = holds(given.value, spec.when) ? 'then' : 'else';
      return { state: { ...state, open }, taken: [decides], closes: [open === 'then' ? 'else' : 'then'] };
    }
    const { value } = heads;
    if (value === undefined) return null;
    return { state, taken: ['value'], gives: [{ port: spec.control === 'branch' ? state.open : 'value', item: value }] };
  }

  turn(): null {
    return null;
  }

  stepped(): never {
    throw new TypeError(`a ${this.#spec.control} has no step`);
  }

  midway(): boolean {
    return false;
  }

  finished({ open }: ControlState): boolean {
    return open !== null;
  }

  blocks(): readonly never[] {
    return [];
  }

  demand(): NodeDemand {
    return { alive: [], units: [] };
  }
}

function holds(value: unknown, { key, equals }: BranchCondition): boolean {
  return (key === undefined ? value : (value as Readonly<Record<string, unknown>> | null)?.[key]) === equals;
}
