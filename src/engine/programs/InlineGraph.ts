import type { LoopState } from '../model/loop_kernel.ts';
import type { BlockId, MemoryTag } from '../model/work.ts';
import type { MediaDemand } from '../scheduler/AdmissionController.ts';
import type { LoopTurn } from '../scheduler/LoopTurn.ts';
import { SegueError } from '../../protocol/errors.ts';
import type { Heads, InlineNode, InlineSink, NodeState } from './InlineNode.ts';
import type { InlineDemand, InlineIntake, InlineProgram, InlineTransition, RunEvent, RunInputs } from './InlineProgram.ts';
import { item, type Given, type Item } from './inline_ports.ts';
import { endOf, INPUT, nodeOf, validateInline, type InlineLibrary, type InlineOffer, type InlineSpec } from './inline_spec.ts';
import type { ProgramSpec } from './ProgramSpec.ts';
import type { CommittedStep, FilledSlot } from './RealtimeProgram.ts';

/** Items that may wait on an edge before the node that gives them is held: bounds what a run keeps alive, whatever the order of its steps. */
const EDGE_ITEMS = 1;
/** Slots that a run needs to get anywhere: one that waits for its other half, one on its way out. */
const MIN_SLOTS = { video: 2, audio: 2 } as const;

interface GraphState {
  readonly nodes: Readonly<Record<string, NodeState>>;
  readonly sinks: Readonly<Record<string, unknown>>;
  /** What waits on each edge, oldest first, in the order of the spec's edges. */
  readonly queues: readonly (readonly Item[])[];
}

/**
 * Runs an {@link InlineSpec}: each node takes items from the heads of its edges, steps its loop, and gives items on. Nodes are pure and
 * edges keep their order (a Kahn process network: "The semantics of a simple language for parallel programming", 1974), so what comes out
 * of each sink is the same in whatever order the scheduler serves the nodes.
 */
export class InlineGraph implements InlineProgram<GraphState> {
  readonly spec: ProgramSpec;
  readonly intake: InlineIntake<GraphState>;
  readonly #graph: InlineSpec;
  readonly #nodes: ReadonlyMap<string, InlineNode>;
  readonly #sinks: ReadonlyMap<string, InlineSink>;
  readonly #bytesOf: (component: string) => MediaDemand['memory'];

  /**
   * @param bytesOf bytes of blocks that one unit of a component makes.
   * @throws {TypeError} for a program that the model can't run; see {@link validateInline}.
   */
  constructor(graph: InlineSpec, library: InlineLibrary, offer: InlineOffer, bytesOf: (component: string) => MediaDemand['memory']) {
    this.spec = validateInline(graph, library, offer);
    this.#graph = graph;
    this.#bytesOf = bytesOf;
    const entries = Object.entries(graph.nodes);
    this.#nodes = new Map(entries.flatMap(([name, node]) => (node.kind === 'stream' ? [] : [[name, nodeOf(node, library)!] as const])));
    const names = Object.entries(graph.inputs).flatMap(([name, { kind }]) => (kind === 'stream' ? [name] : []));
    this.intake = {
      names,
      wants: ({ queues }) => names.filter((name) => graph.edges.every(({ from }, at) => from !== `${INPUT}.${name}` || queues[at]!.length < EDGE_ITEMS)),
      feed: (state, name, value) => this.#settle({ ...state, queues: this.#given(state.queues, INPUT, [{ port: name, item: item(value) }]) }),
    };
    this.#sinks = new Map(entries.flatMap(([name, node]) => (node.kind === 'stream' ? [[name, library.sinks[node.stream]!] as const] : [])));
  }

  open(inputs: RunInputs, seed: number): InlineTransition<GraphState> {
    this.#checkInputs(inputs);
    const state: GraphState = {
      nodes: Object.fromEntries([...this.#nodes].map(([name, node]) => [name, node.open(seed, this.#connected(name))])),
      sinks: Object.fromEntries([...this.#sinks].map(([name, sink]) => [name, sink.open()])),
      queues: this.#graph.edges.map(() => []),
    };
    const given = Object.keys(this.#graph.inputs).filter((port) => !this.intake.names.includes(port)).map((port): Given => ({ port, item: item(inputs[port]) }));
    return this.#settle({ ...state, queues: this.#given(state.queues, INPUT, given) });
  }

  demand(inputs: RunInputs): InlineDemand {
    this.#checkInputs(inputs);
    const memory: Record<MemoryTag, number> = { weights: 0, kv: 0, activations: 0, staging: 0 };
    const components: string[] = [];
    for (const node of this.#nodes.values()) {
      const { alive, units } = node.demand(inputs);
      for (const [component, count] of alive) for (const [tag, bytes] of Object.entries(this.#bytesOf(component)) as [MemoryTag, number][]) memory[tag] += bytes * count;
      for (const [component, count] of units) components.push(...Array<string>(count).fill(component));
    }
    return { memory, components, minSlots: MIN_SLOTS };
  }

  turns(state: GraphState): readonly LoopTurn[] {
    return [...this.#nodes].flatMap(([loopId, node]): LoopTurn[] => {
      const { loop } = state.nodes[loopId]!;
      const turn = loop === null || this.#held(state, loopId) ? null : node.turn(state.nodes[loopId]!);
      if (turn === null) return [];
      const { component, conditioning } = turn;
      return [{ loopId, kernel: node.loopKind, component, state: loop!, lineage: 0, conditioning: { kind: 'fixed', conditioning }, leadsTo: null, after: [], opensMedia: false, boosted: false }];
    });
  }

  current(state: GraphState, loopId: string): LoopState | null {
    return state.nodes[loopId]?.loop ?? null;
  }

  advance(state: GraphState, { turn: { loopId }, stepped, outputs }: CommittedStep): InlineTransition<GraphState> {
    const node = this.#nodes.get(loopId);
    if (node === undefined) throw new TypeError(`program ${this.spec.programId} has no loop ${loopId}`);
    const { state: next, gives } = node.stepped(state.nodes[loopId]!, stepped, outputs);
    return this.#settle({ ...state, nodes: { ...state.nodes, [loopId]: next }, queues: this.#given(state.queues, loopId, gives) });
  }

  finished(state: GraphState): boolean {
    return state.queues.every((queue) => queue.length === 0) && [...this.#nodes].every(([name, node]) => node.finished(state.nodes[name]!));
  }

  describe(state: GraphState): string {
    const waiting = [...this.#nodes].filter(([name, node]) => !node.finished(state.nodes[name]!)).map(([name]) => name);
    const full = this.#graph.edges.filter((_, at) => state.queues[at]!.length > 0).map(({ from, to }) => `${from} → ${to}`);
    return `unfinished: ${waiting.join(', ') || 'none'}; items on: ${full.join(', ') || 'no edge'}`;
  }

  blocks({ nodes, queues }: GraphState): readonly BlockId[] {
    return [...[...this.#nodes].flatMap(([name, node]) => node.blocks(nodes[name]!)), ...queues.flatMap((queue) => queue.flatMap(({ blocks }) => blocks))];
  }

  slots({ queues }: GraphState): readonly FilledSlot[] {
    return queues.flatMap((queue) => queue.flatMap(({ slots }) => slots));
  }

  /** Lets nodes and sinks take what they can until nobody can. Ends: every round takes an item, and only steps bring new ones. */
  #settle(from: GraphState): InlineTransition<GraphState> {
    let state = from;
    const events: RunEvent[] = [];
    for (let moved = true; moved; ) {
      moved = false;
      for (const [name, node] of this.#nodes) {
        const taken = node.take(state.nodes[name]!, this.#heads(state, name));
        if (taken === null) continue;
        moved = true;
        const queues = this.#given(this.#without(state.queues, name, taken.taken), name, taken.gives ?? []);
        state = { ...state, nodes: { ...state.nodes, [name]: taken.state }, queues };
      }
      for (const [name, sink] of this.#sinks) {
        const taken = sink.take(state.sinks[name], this.#heads(state, name));
        if (taken === null) continue;
        moved = true;
        events.push(taken.event);
        state = { ...state, sinks: { ...state.sinks, [name]: taken.state }, queues: this.#without(state.queues, name, taken.taken) };
      }
    }
    return { state, events };
  }

  #connected(name: string): ReadonlySet<string> {
    return new Set(this.#graph.edges.map(({ to }) => endOf(to)).filter(({ node }) => node === name).map(({ port }) => port));
  }

  /** What it gave last is still to be taken: it must not run ahead. */
  #held({ queues }: GraphState, name: string): boolean {
    return this.#graph.edges.some(({ from }, at) => endOf(from).node === name && queues[at]!.length >= EDGE_ITEMS);
  }

  #heads({ queues }: GraphState, name: string): Heads {
    return Object.fromEntries(this.#graph.edges.flatMap(({ to }, at) => (endOf(to).node === name ? [[endOf(to).port, queues[at]![0]]] : [])));
  }

  #given(queues: GraphState['queues'], name: string, gives: readonly Given[]): GraphState['queues'] {
    if (gives.length === 0) return queues;
    return queues.map((queue, at) => [...queue, ...gives.filter(({ port }) => this.#graph.edges[at]!.from === `${name}.${port}`).map(({ item: given }) => given)]);
  }

  #without(queues: GraphState['queues'], name: string, ports: readonly string[]): GraphState['queues'] {
    return queues.map((queue, at) => (ports.some((port) => this.#graph.edges[at]!.to === `${name}.${port}`) ? queue.slice(1) : queue));
  }

  #checkInputs(inputs: RunInputs): void {
    for (const name of Object.keys(this.#graph.inputs)) if (inputs[name] === undefined) throw new SegueError('bad_request', `program ${this.spec.programId} needs input ${name}`, { param: name });
    for (const name of Object.keys(inputs)) if (this.#graph.inputs[name] === undefined) throw new SegueError('bad_request', `program ${this.spec.programId} has no input ${name}`, { param: name });
  }
}
