import type { MediaDemand } from '../scheduler/AdmissionController.ts';
import { InlineGraph } from './InlineGraph.ts';
import { endOf, type Port } from './inline_ports.ts';
import { INPUT, nodeOf, validateInline, type InlineEdge, type InlineLibrary, type InlineNodeSpec, type InlineOffer, type InlineSpec } from './inline_spec.ts';
import type { ProgramSpec } from './ProgramSpec.ts';
import type { TensorBundle } from './tensor_bundle.ts';

/** What one role gives to another: an output of a node, handed over once however many nodes take it there. */
export interface HandOver {
  /** Names the transfer node of the producer, its permits, and the input of the consumer. */
  readonly id: string;
  readonly from: string;
  readonly producer: string;
  readonly consumer: string;
  /** How a value lies in blocks; null: plain data, which needs no transfer. */
  readonly bundle: TensorBundle | null;
}

/** A program whose roles run in pools of their own: the same nodes and edges as inline, so the same results. */
export interface DisaggregatedProgram {
  readonly spec: ProgramSpec;
  /** By role: consumers before producers as far as there is an order. */
  readonly stages: ReadonlyMap<string, InlineGraph>;
  readonly handOvers: readonly HandOver[];
  /** Inputs of the run that a stage is given, beside what is handed over to it. */
  readonly inputsOf: (role: string) => readonly string[];
  readonly inputNames: ReadonlySet<string>;
}

/**
 * Cuts an inline program where its edges go from one role (`placement.role`) to another.
 * @throws {TypeError} as `validateInline`, and for a loop without a role, or an edge that can't be cut: naming the node or edge and both roles.
 */
export function disaggregate(whole: InlineSpec, library: InlineLibrary, offer: InlineOffer, bytesOf: (component: string) => MediaDemand['memory']): DisaggregatedProgram {
  const validated = validateInline(whole, library, offer);
  const fault = (where: string, problem: string): never => {
    throw new TypeError(`program ${whole.programId}: ${where}: ${problem}`);
  };
  const roles = rolesOf(whole, fault);
  const cuts = whole.edges.filter(({ from, to }) => endOf(from).node !== INPUT && roles.get(endOf(from).node) !== roles.get(endOf(to).node));
  const handOvers = new Map<string, HandOver & { readonly port: Port }>();
  const handOverOf = ({ kind, from, to }: InlineEdge): HandOver & { readonly port: Port } => {
    const [producer, consumer] = [roles.get(endOf(from).node)!, roles.get(endOf(to).node)!];
    if (kind === 'stream') return fault(`edge ${from} → ${to}`, `a stream's slots don't move: its ends are of roles ${producer} and ${consumer}`);
    const id = `${from.replace('.', '_')}_to_${consumer}`;
    const port = portOf(whole, library, from);
    const made = handOvers.get(id) ?? { id, from, producer, consumer, port, bundle: library.tensors[port.type] ?? null };
    handOvers.set(id, made);
    return made;
  };
  for (const cut of cuts) handOverOf(cut);
  const stages = new Map<string, InlineGraph>();
  const inputs = new Map<string, readonly string[]>();
  for (const role of new Set(roles.values())) {
    const own = (end: string): boolean => roles.get(endOf(end).node) === role;
    const gives = [...handOvers.values()].filter(({ producer }) => producer === role);
    const takes = [...handOvers.values()].filter(({ consumer }) => consumer === role);
    // Plain inputs are everybody's: nodes reckon with them. One that comes item by item goes where its edge goes.
    const given = Object.entries(whole.inputs).filter(([name, { kind }]) => kind !== 'stream' || whole.edges.some(({ from, to }) => from === `${INPUT}.${name}` && own(to)));
    const stage: InlineSpec = {
      programId: `${whole.programId}/${role}`,
      requires: [],
      inputs: {
        ...Object.fromEntries(given),
        ...Object.fromEntries(takes.map(({ id, port }) => [id, { kind: port.kind, type: port.type, comes: 'handed' } as const])),
        ...Object.fromEntries(gives.map(({ id }) => [id, { kind: 'stream', type: 'permit', comes: 'permits' } as const])),
      },
      nodes: {
        ...Object.fromEntries(Object.entries(whole.nodes).filter(([name]) => roles.get(name) === role)),
        ...Object.fromEntries(gives.map(({ id, port, producer, consumer }): [string, InlineNodeSpec] => [id, { kind: 'transfer', carries: port, from: producer, to: consumer }])),
      },
      edges: [
        ...whole.edges.filter(({ from, to }) => own(to) && (endOf(from).node === INPUT || own(from))),
        ...gives.flatMap(({ id, from, port }): InlineEdge[] => [{ kind: port.kind, from, to: `${id}.items` }, { kind: 'stream', from: `${INPUT}.${id}`, to: `${id}.permits` }]),
        ...cuts.filter(({ to }) => own(to)).map((cut): InlineEdge => ({ kind: cut.kind, from: `${INPUT}.${handOverOf(cut).id}`, to: cut.to })),
      ],
    };
    stages.set(role, new InlineGraph(stage, library, offer, bytesOf));
    inputs.set(role, given.map(([name]) => name));
  }
  const spec: ProgramSpec = {
    ...validated,
    kind: 'disaggregated',
    nodes: { ...validated.nodes, ...Object.fromEntries([...handOvers.values()].map(({ id, producer, consumer }) => [id, { kind: 'transfer', from: producer, to: consumer } as const])) },
    edges: [...handOvers.values()].reduce<ProgramSpec['edges']>((edges, { id, from, consumer, port }) => {
      const source = endOf(from).node;
      return [...edges.map((edge) => (edge.from === source && roles.get(edge.to) === consumer && edge.kind === port.kind ? { ...edge, from: id } : edge)), { kind: port.kind, from: source, to: id }];
    }, validated.edges),
  };
  return { spec, stages: new Map([...stages].reverse()), handOvers: [...handOvers.values()], inputsOf: (role) => inputs.get(role) ?? [], inputNames: new Set(Object.keys(whole.inputs)) };
}

type Fault = (where: string, problem: string) => never;

/** Role of every node: declared by loops; a stream is where it is fed, any other node where it is taken. */
function rolesOf({ nodes, edges }: InlineSpec, fault: Fault): ReadonlyMap<string, string> {
  const roles = new Map<string, string>();
  for (const [name, node] of Object.entries(nodes)) {
    if (node.placement !== undefined) roles.set(name, node.placement.role);
    else if (node.kind === 'model_loop') fault(`nodes.${name}.placement`, 'a loop of a disaggregated program declares its role');
  }
  // Control nodes may feed each other: as often as there are nodes settles it.
  for (let round = 0; round < Object.keys(nodes).length; round++) {
    for (const [name, node] of Object.entries(nodes)) {
      if (roles.has(name)) continue;
      const near = edges.flatMap(({ from, to }) => (node.kind === 'stream' ? (endOf(to).node === name ? [endOf(from).node] : []) : endOf(from).node === name ? [endOf(to).node] : []));
      const found = [...new Set(near.flatMap((other) => roles.get(other) ?? []))];
      if (found.length > 1) fault(`nodes.${name}.placement`, `is between roles ${found.join(' and ')}: declare one`);
      if (found.length === 1) roles.set(name, found[0]!);
    }
  }
  for (const name of Object.keys(nodes)) if (!roles.has(name)) fault(`nodes.${name}.placement`, 'nothing says which role it is of');
  return roles;
}

function portOf({ nodes }: InlineSpec, library: InlineLibrary, from: string): Port {
  const { node: name, port } = endOf(from);
  // It was validated: an edge comes from an output of a node that isn't a sink.
  return nodeOf(nodes[name] as Parameters<typeof nodeOf>[0], library)!.outputs[port]!;
}
