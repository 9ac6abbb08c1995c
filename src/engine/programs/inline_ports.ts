import type { BlockId } from '../model/work.ts';
import type { FilledSlot } from './RealtimeProgram.ts';

/** What flows along an edge of an inline program. `stream` ends in a sink, item by item; the others carry one value to one or more nodes. */
export const INLINE_EDGE_KINDS = ['tensor', 'text', 'control', 'stream'] as const;
export type InlineEdgeKind = (typeof INLINE_EDGE_KINDS)[number];

/** An input or output of a node: two ports can be joined where both fields agree. */
export interface Port {
  readonly kind: InlineEdgeKind;
  /** What the value is, for example `latents`. */
  readonly type: string;
  /** An input that may be left without an edge: the node is told which of its inputs have one. */
  readonly optional?: true;
  /**
   * Of an input of a stage of a disaggregated run. `handed`: items come from another stage, one after the other. `permits`: each lets one item leave; what is left of them at the end is
   * nobody's.
   */
  readonly comes?: 'handed' | 'permits';
}

export type Ports = Readonly<Record<string, Port>>;

/** A value on an edge, with what it keeps alive: blocks are counted once per edge, a slot is on one edge only. */
export interface Item {
  readonly value: unknown;
  readonly blocks: readonly BlockId[];
  readonly slots: readonly FilledSlot[];
}

/** An item that a node puts on its output `port`; every edge from there gets it. */
export interface Given {
  readonly port: string;
  readonly item: Item;
}

export function portText({ kind, type }: Port): string {
  return `${kind} of ${type}`;
}

export function item(value: unknown, { blocks = [], slots = [] }: { readonly blocks?: readonly BlockId[]; readonly slots?: readonly FilledSlot[] } = {}): Item {
  return { value, blocks, slots };
}

/** An item that comes from another stage: whoever takes it in says so, and owns its blocks from then on. */
export class HandedItem {
  readonly value: unknown;
  readonly blocks: readonly BlockId[];
  readonly #taken: () => void;

  constructor(value: unknown, blocks: readonly BlockId[], taken: () => void) {
    this.value = value;
    this.blocks = blocks;
    this.#taken = taken;
  }

  take(): void {
    this.#taken();
  }
}

/** An end of an edge, `node.port`. */
export function endOf(end: string): { readonly node: string; readonly port: string } {
  const dot = end.indexOf('.');
  return { node: dot < 0 ? end : end.slice(0, dot), port: dot < 0 ? '' : end.slice(dot + 1) };
}
