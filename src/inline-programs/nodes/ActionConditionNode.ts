import type { ActionVocabulary } from '../../engine/model/spec/model_spec.ts';
import type { Heads, InlineNode, NodeDemand, NodeState, Taken } from '../../engine/programs/InlineNode.ts';
import { item } from '../../engine/programs/inline_ports.ts';
import { SegueError } from '../../protocol/errors.ts';

/** What is held in one chunk: a value of each action of the model. */
export interface ChunkAction {
  /** −1 left, 0 straight, 1 right. */
  readonly steer: number;
  /** 0 stopped … 3 fastest. */
  readonly speed: number;
}

/** Held actions as the video loop consumes them: one entry a chunk, the last for all chunks after it. */
export type ActionConditioning = readonly ChunkAction[];

interface ActionState extends NodeState {
  readonly done: boolean;
}

const NAMES = ['steer', 'speed'] as const;

/**
 * Packs an action trace into conditioning, checked against the model's vocabulary. It has no unit: the model embeds actions inside each of its
 * steps, so what there is to do beforehand costs microseconds and nothing on the device.
 */
export class ActionConditionNode implements InlineNode<ActionState> {
  readonly loopKind = 'action_condition';
  readonly components = [];
  readonly inputs = { actions: { kind: 'control', type: 'actions' } } as const;
  readonly outputs = { conditioning: { kind: 'tensor', type: 'action_conditioning' } } as const;
  readonly #vocabulary: ActionVocabulary;

  /** @throws {TypeError} for a model that can't be driven. */
  constructor(vocabulary: ActionVocabulary) {
    for (const name of NAMES) if (vocabulary[name] === undefined) throw new TypeError(`the model takes no action ${name}, it takes ${Object.keys(vocabulary).join(', ') || 'none'}`);
    this.#vocabulary = vocabulary;
  }

  open(): ActionState {
    return { loop: null, done: false };
  }

  take(state: ActionState, { actions }: Heads): Taken<ActionState> | null {
    if (state.done || actions === undefined) return null;
    return { state: { ...state, done: true }, taken: ['actions'], gives: [{ port: 'conditioning', item: item(this.#packed(actions.value)) }] };
  }

  turn(): null {
    return null;
  }

  stepped(): never {
    throw new TypeError('action_condition has no step');
  }

  midway(): boolean {
    return false;
  }

  finished({ done }: ActionState): boolean {
    return done;
  }

  blocks(): readonly never[] {
    return [];
  }

  demand({ actions }: Readonly<Record<string, unknown>>): NodeDemand {
    this.#packed(actions);
    return { alive: [], units: [] };
  }

  #packed(value: unknown): ActionConditioning {
    const bad = (problem: string) => new SegueError('bad_request', `actions: ${problem}`, { param: 'actions' });
    if (!Array.isArray(value) || value.length === 0) throw bad('at least one entry; the last holds for all chunks after it');
    return value.map((entry: unknown, at): ChunkAction => {
      const held = (entry ?? {}) as Partial<ChunkAction>;
      for (const name of NAMES) {
        const { values } = this.#vocabulary[name]!;
        if (!values.includes(held[name] as number)) throw bad(`entry ${at}: ${name} is one of ${values.join(', ')}, got ${JSON.stringify(held[name])}`);
      }
      return { steer: held.steer!, speed: held.speed! };
    });
  }
}
