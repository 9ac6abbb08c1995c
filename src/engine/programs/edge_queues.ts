import type { BlockId } from '../model/work.ts';
import type { Heads } from './InlineNode.ts';
import { endOf, type Given, type Item } from './inline_ports.ts';
import type { InlineEdge } from './inline_spec.ts';
import type { FilledSlot } from './RealtimeProgram.ts';

/** Items that may wait on an edge before the node that gives them is held: bounds what a run keeps alive, whatever the order of its steps. */
export const EDGE_ITEMS = 1;

/** What waits on each edge, oldest first, in the order of the program's edges. */
export type Queues = readonly (readonly Item[])[];

/** The edges of a program, and what follows from their queues. Immutable: every change is another value. */
export class EdgeQueues {
  readonly #edges: readonly { readonly from: { readonly node: string; readonly port: string }; readonly to: { readonly node: string; readonly port: string } }[];

  constructor(edges: readonly InlineEdge[]) {
    this.#edges = edges.map(({ from, to }) => ({ from: endOf(from), to: endOf(to) }));
  }

  empty(): Queues {
    return this.#edges.map(() => []);
  }

  /** Inputs of a node that an edge leads to. */
  connected(name: string): ReadonlySet<string> {
    return new Set(this.#edges.flatMap(({ to }) => (to.node === name ? [to.port] : [])));
  }

  /** What a node gave last is still to be taken, from that output or (absent) any of them: it must not run ahead. */
  held(queues: Queues, name: string, port?: string): boolean {
    return this.#edges.some(({ from }, at) => from.node === name && (port === undefined || from.port === port) && queues[at]!.length >= EDGE_ITEMS);
  }

  heads(queues: Queues, name: string): Heads {
    return Object.fromEntries(this.#edges.flatMap(({ to }, at) => (to.node === name ? [[to.port, queues[at]![0]]] : [])));
  }

  /** @param skipped nodes that take nothing any more: what is given to them goes nowhere. */
  given(queues: Queues, name: string, gives: readonly Given[], skipped: ReadonlySet<string>): Queues {
    if (gives.length === 0) return queues;
    return queues.map((queue, at) => {
      const { from, to } = this.#edges[at]!;
      return from.node !== name || skipped.has(to.node) ? queue : [...queue, ...gives.filter(({ port }) => port === from.port).map(({ item }) => item)];
    });
  }

  without(queues: Queues, name: string, ports: readonly string[]): Queues {
    return queues.map((queue, at) => (this.#edges[at]!.to.node === name && ports.includes(this.#edges[at]!.to.port) ? queue.slice(1) : queue));
  }

  /** Nothing waits for these nodes any more. */
  dropped(queues: Queues, skipped: ReadonlySet<string>): Queues {
    return queues.map((queue, at) => (skipped.has(this.#edges[at]!.to.node) ? [] : queue));
  }

  blocks(queues: Queues): BlockId[] {
    return queues.flatMap((queue) => queue.flatMap(({ blocks }) => blocks));
  }

  slots(queues: Queues): FilledSlot[] {
    return queues.flatMap((queue) => queue.flatMap(({ slots }) => slots));
  }
}
