import type { LoopState } from '../model/loop_kernel.ts';
import type { BlockId, MemoryTag } from '../model/work.ts';
import type { MediaDemand } from '../scheduler/AdmissionController.ts';
import type { LoopTurn } from '../scheduler/LoopTurn.ts';
import { SegueError } from '../../protocol/errors.ts';
import type { InlineNode, InlineSink, NodeState } from './InlineNode.ts';
import type { InlineDemand, InlineIntake, InlineProgram, InlineTransition, RunEvent, RunInputs } from './InlineProgram.ts';
import { EdgeQueues, type Queues } from './edge_queues.ts';
import { HandedItem, item, type Given } from './inline_ports.ts';
import { INPUT, nodeOf, validateInline, type InlineLibrary, type InlineOffer, type InlineSpec } from './inline_spec.ts';
import { DEFAULT_ATTEMPTS } from './node_policy.ts';
import type { ProgramSpec } from './ProgramSpec.ts';
import type { CommittedStep, FilledSlot } from './RealtimeProgram.ts';
import { HANDOVER_ITEMS } from './handover_items.ts';
import { skippedNodes } from './skipped_nodes.ts';
import { bundleBytes, type TensorBundle } from './tensor_bundle.ts';
import { transferSink } from './transfer_sink.ts';

/** Slots that a run needs to get anywhere: one that waits for its other half, one on its way out. */
const MIN_SLOTS = { video: 2, audio: 2 } as const;

interface GraphState {
  readonly nodes: Readonly<Record<string, NodeState>>;
  readonly sinks: Readonly<Record<string, unknown>>;
  readonly queues: Queues;
  /** Outputs that a branch has closed, as `node.port`, and the nodes that run nothing because of it. */
  readonly closed: ReadonlySet<string>;
  readonly skipped: ReadonlySet<string>;
  /** Handed inputs of which more may come. */
  readonly open: ReadonlySet<string>;
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
  readonly #edges: EdgeQueues;
  /** Inputs that other stages hand over, and the edges that permits wait on. */
  readonly #handed: ReadonlySet<string>;
  readonly #permitEdges: ReadonlySet<number>;
  readonly #tensors: Readonly<Record<string, TensorBundle>>;
  readonly #bytesOf: (component: string) => MediaDemand['memory'];

  /**
   * @param bytesOf bytes of blocks that one unit of a component makes.
   * @throws {TypeError} for a program that the model can't run; see {@link validateInline}.
   */
  constructor(graph: InlineSpec, library: InlineLibrary, offer: InlineOffer, bytesOf: (component: string) => MediaDemand['memory']) {
    this.spec = validateInline(graph, library, offer);
    this.#graph = graph;
    this.#edges = new EdgeQueues(graph.edges);
    this.#tensors = library.tensors;
    this.#bytesOf = bytesOf;
    const entries = Object.entries(graph.nodes);
    this.#nodes = new Map(entries.flatMap(([name, node]) => (node.kind === 'stream' || node.kind === 'transfer' ? [] : [[name, nodeOf(node, library)!] as const])));
    const inputs = Object.entries(graph.inputs);
    const names = inputs.flatMap(([name, { kind, comes }]) => (kind === 'stream' || comes !== undefined ? [name] : []));
    this.#handed = new Set(inputs.flatMap(([name, { comes }]) => (comes === 'handed' ? [name] : [])));
    const permits = new Set(inputs.flatMap(([name, { comes }]) => (comes === 'permits' ? [`${INPUT}.${name}`] : [])));
    this.#permitEdges = new Set(graph.edges.flatMap(({ from }, at) => (permits.has(from) ? [at] : [])));
    this.intake = {
      names,
      internal: inputs.flatMap(([name, { comes }]) => (comes === undefined ? [] : [name])),
      wants: ({ queues }) => names.filter((name) => !this.#edges.held(queues, INPUT, name)),
      feed: (state, name, value) => this.#fed(state, name, value),
    };
    this.#sinks = new Map(entries.flatMap(([name, node]) => (node.kind === 'stream' ? [[name, library.sinks[node.stream]!] as const] : node.kind === 'transfer' ? [[name, transferSink(name, node.carries) as InlineSink] as const] : [])));
  }

  open(inputs: RunInputs, seed: number): InlineTransition<GraphState> {
    this.#checkInputs(inputs);
    const state: GraphState = {
      nodes: Object.fromEntries([...this.#nodes].map(([name, node]) => [name, node.open(seed, this.#edges.connected(name))])),
      sinks: Object.fromEntries([...this.#sinks].map(([name, sink]) => [name, sink.open()])),
      queues: this.#edges.empty(),
      closed: new Set(),
      skipped: new Set(),
      open: this.#handed,
    };
    const given = Object.keys(this.#graph.inputs).filter((port) => !this.intake.names.includes(port)).map((port): Given => ({ port, item: item(inputs[port]) }));
    return this.#settle({ ...state, queues: this.#edges.given(state.queues, INPUT, given, state.skipped) });
  }

  demand(inputs: RunInputs): InlineDemand {
    this.#checkInputs(inputs);
    const memory: Record<MemoryTag, number> = { weights: 0, kv: 0, activations: 0, staging: 0 };
    const components: string[] = [];
    const add = (bytes: MediaDemand['memory'], count: number): void => {
      for (const [tag, each] of Object.entries(bytes) as [MemoryTag, number][]) memory[tag] += each * count;
    };
    for (const [name, node] of this.#nodes) {
      const { alive, units } = node.demand(inputs);
      for (const [component, count] of alive) add(this.#bytesOf(component), count);
      // What it has passed on waits there for whoever takes it.
      const bundle = node.passes === true ? this.#tensors[carriedBy(this.#graph, name)] : undefined;
      if (bundle !== undefined) add(bundleBytes(bundle), 1);
      for (const [component, count] of units) components.push(...Array<string>(count).fill(component));
    }
    const held = (type: string): MediaDemand['memory'] => {
      const bundle = this.#tensors[type];
      return bundle === undefined ? {} : bundleBytes(bundle);
    };
    // Handed over: what waits, what is on its way, and what each that takes it is at and has yet to take.
    for (const name of this.#handed) add(held(this.#graph.inputs[name]!.type), HANDOVER_ITEMS + 1 + 2 * this.#graph.edges.filter(({ from }) => from === `${INPUT}.${name}`).length);
    for (const node of Object.values(this.#graph.nodes)) if (node.kind === 'transfer') add(held(node.carries.type), 1);
    return { memory, components, minSlots: MIN_SLOTS };
  }

  turns(state: GraphState): readonly LoopTurn[] {
    return [...this.#nodes].flatMap(([loopId, node]): LoopTurn[] => {
      const { loop } = state.nodes[loopId]!;
      const turn = loop === null || state.skipped.has(loopId) || this.#edges.held(state.queues, loopId) ? null : node.turn(state.nodes[loopId]!);
      if (turn === null) return [];
      const { component, conditioning } = turn;
      const { cache = 'publish' } = this.#graph.nodes[loopId]!;
      return [{ loopId, kernel: node.loopKind, component, state: loop!, lineage: 0, conditioning: { kind: 'fixed', conditioning }, leadsTo: null, after: [], opensMedia: false, boosted: false, ...(cache === 'publish' ? {} : { cache }) }];
    });
  }

  current(state: GraphState, loopId: string): LoopState | null {
    return state.skipped.has(loopId) ? null : (state.nodes[loopId]?.loop ?? null);
  }

  advance(state: GraphState, { turn: { loopId }, stepped, outputs }: CommittedStep): InlineTransition<GraphState> {
    const node = this.#nodes.get(loopId);
    if (node === undefined) throw new TypeError(`program ${this.spec.programId} has no loop ${loopId}`);
    const { state: next, gives } = node.stepped(state.nodes[loopId]!, stepped, outputs);
    return this.#settle({ ...state, nodes: { ...state.nodes, [loopId]: next }, queues: this.#edges.given(state.queues, loopId, gives, state.skipped) });
  }

  attempts(loopId: string): number {
    return this.#graph.nodes[loopId]?.retry?.attempts ?? DEFAULT_ATTEMPTS;
  }

  beforeCancelling({ nodes, skipped }: GraphState): readonly string[] {
    return [...this.#nodes].flatMap(([name, node]) => (this.#graph.nodes[name]!.cancellation === 'item' && !skipped.has(name) && node.midway(nodes[name]!) ? [name] : []));
  }

  finished(state: GraphState): boolean {
    return state.open.size === 0 && state.queues.every((queue, at) => queue.length === 0 || this.#permitEdges.has(at)) && [...this.#nodes].every(([name, node]) => state.skipped.has(name) || node.finished(state.nodes[name]!));
  }

  describe(state: GraphState): string {
    const waiting = [...this.#nodes].filter(([name, node]) => !state.skipped.has(name) && !node.finished(state.nodes[name]!)).map(([name]) => name);
    const full = this.#graph.edges.filter((_, at) => state.queues[at]!.length > 0).map(({ from, to }) => `${from} → ${to}`);
    return `unfinished: ${waiting.join(', ') || 'none'}; items on: ${full.join(', ') || 'no edge'}`;
  }

  blocks({ nodes, queues, skipped }: GraphState): readonly BlockId[] {
    return [...[...this.#nodes].flatMap(([name, node]) => (skipped.has(name) ? [] : node.blocks(nodes[name]!))), ...this.#edges.blocks(queues)];
  }

  slots({ queues }: GraphState): readonly FilledSlot[] {
    return this.#edges.slots(queues);
  }

  /** An item of an input, or (null) its end. */
  #fed(state: GraphState, name: string, value: unknown): InlineTransition<GraphState> {
    if (value === null && this.#handed.has(name)) return this.#settle({ ...state, open: new Set([...state.open].filter((other) => other !== name)) });
    const given = value instanceof HandedItem ? item(value.value, { blocks: value.blocks }) : item(value);
    return this.#settle({ ...state, queues: this.#edges.given(state.queues, INPUT, [{ port: name, item: given }], state.skipped) });
  }

  /** Lets nodes and sinks take what they can until nobody can. Ends: every round takes an item, and only steps bring new ones. */
  #settle(from: GraphState): InlineTransition<GraphState> {
    let state = from;
    const events: RunEvent[] = [];
    for (let moved = true; moved; ) {
      moved = false;
      for (const [name, node] of this.#nodes) {
        if (state.skipped.has(name) || (node.passes === true && this.#edges.held(state.queues, name))) continue;
        const taken = node.take(state.nodes[name]!, this.#edges.heads(state.queues, name));
        if (taken === null) continue;
        moved = true;
        state = this.#closing(state, name, taken.closes ?? []);
        const queues = this.#edges.given(this.#edges.without(state.queues, name, taken.taken), name, taken.gives ?? [], state.skipped);
        state = { ...state, nodes: { ...state.nodes, [name]: taken.state }, queues };
      }
      for (const [name, sink] of this.#sinks) {
        const taken = state.skipped.has(name) ? null : sink.take(state.sinks[name], this.#edges.heads(state.queues, name));
        if (taken === null) continue;
        moved = true;
        events.push(taken.event);
        state = { ...state, sinks: { ...state.sinks, [name]: taken.state }, queues: this.#edges.without(state.queues, name, taken.taken) };
      }
    }
    return { state, events };
  }

  /** A branch has decided: the other side runs nothing, and what waits for it is let go of. */
  #closing(state: GraphState, name: string, ports: readonly string[]): GraphState {
    if (ports.length === 0) return state;
    const closed = new Set([...state.closed, ...ports.map((port) => `${name}.${port}`)]);
    const skipped = skippedNodes(this.#graph, closed);
    return { ...state, closed, skipped, queues: this.#edges.dropped(state.queues, skipped) };
  }

  #checkInputs(inputs: RunInputs): void {
    for (const name of Object.keys(this.#graph.inputs)) if (inputs[name] === undefined) throw new SegueError('bad_request', `program ${this.spec.programId} needs input ${name}`, { param: name });
    for (const name of Object.keys(inputs)) if (this.#graph.inputs[name] === undefined) throw new SegueError('bad_request', `program ${this.spec.programId} has no input ${name}`, { param: name });
  }
}

function carriedBy({ nodes }: InlineSpec, name: string): string {
  const node = nodes[name]!;
  return node.kind === 'control' ? node.carries.type : '';
}
