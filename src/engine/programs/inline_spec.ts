import { ControlNode, type ControlSpec } from './ControlNode.ts';
import type { InlineNode, InlineSink } from './InlineNode.ts';
import { endOf, portText, type InlineEdgeKind, type Port, type Ports } from './inline_ports.ts';
import type { NodePolicy } from './node_policy.ts';
import { validateProgram, type ModelOffer, type ProgramNode, type ProgramSpec } from './ProgramSpec.ts';
import { branchOf } from './skipped_nodes.ts';
import type { TensorBundle } from './tensor_bundle.ts';
import { transferSink } from './transfer_sink.ts';

/** An inline program as data: which loops, and what flows between them. Ends of edges are `node.port`; `input.name` is an input of the run. */
export interface InlineSpec {
  readonly programId: string;
  /** Capabilities that the model must have. */
  readonly requires: readonly string[];
  readonly inputs: Ports;
  readonly nodes: Readonly<Record<string, InlineNodeSpec>>;
  readonly edges: readonly InlineEdge[];
}

export type InlineNodeSpec = InlineNodeKind & NodePolicy;

export type InlineNodeKind =
  /** `role`: which of the nodes that run this loop, where there are several. */
  | { readonly kind: 'model_loop'; readonly loopKind: string; readonly role?: string }
  /** Packs what the loops consume; has no step of its own. */
  | { readonly kind: 'condition'; readonly condition: 'action_condition' }
  | ({ readonly kind: 'control' } & ControlSpec)
  /** Where items leave a stage of a disaggregated program, for another role; made by `disaggregate`. */
  | { readonly kind: 'transfer'; readonly carries: Port; readonly from: string; readonly to: string }
  | { readonly kind: 'stream'; readonly stream: StreamKind };

export type StreamKind = Extract<ProgramNode, { kind: 'stream' }>['stream'];

export interface InlineEdge {
  readonly kind: InlineEdgeKind;
  readonly from: string;
  readonly to: string;
}

/** Nodes by the loop kind that they run (`kind/role` where they have a role), conditions by name, sinks by the stream that they feed. */
export interface InlineLibrary {
  readonly conditions?: Readonly<Record<string, InlineNode>>;
  readonly loops: Readonly<Record<string, InlineNode>>;
  readonly sinks: Readonly<Partial<Record<StreamKind, InlineSink>>>;
  /** How values lie in blocks, by the type of their port. A type that is absent is plain data. */
  readonly tensors: Readonly<Record<string, TensorBundle>>;
}

export interface InlineOffer extends ModelOffer {
  readonly capabilities: readonly string[];
}

/** Name of the pseudo-node that the run's inputs come from. */
export const INPUT = 'input';

/**
 * Checks an inline program against a model and says what it is as a ProgramSpec.
 * @throws {TypeError} naming the program, the node or edge at fault, what was wanted and what is there.
 */
export function validateInline(spec: InlineSpec, library: InlineLibrary, offer: InlineOffer): ProgramSpec {
  const fault = (where: string, problem: string): never => {
    throw new TypeError(`program ${spec.programId}: ${where}: ${problem}`);
  };
  const missing = spec.requires.find((capability) => !offer.capabilities.includes(capability));
  if (missing !== undefined) fault('requires', `the model lacks ${missing}, it has ${offer.capabilities.join(', ')}`);
  if (spec.nodes[INPUT] !== undefined) fault(`node ${INPUT}`, 'the name stands for the inputs of a run');
  const ports = new Map<string, { readonly inputs: Ports; readonly outputs: Ports }>([[INPUT, { inputs: {}, outputs: spec.inputs }]]);
  const nodes: Record<string, ProgramNode> = {};
  for (const [name, node] of Object.entries(spec.nodes)) {
    const policy = policyOf(node);
    if (node.kind === 'stream') {
      const sink = library.sinks[node.stream];
      if (sink === undefined) return fault(`node ${name}`, `unknown stream ${node.stream}, there are ${Object.keys(library.sinks).join(', ')}`);
      ports.set(name, { inputs: sink.inputs, outputs: {} });
      nodes[name] = { kind: 'stream', stream: node.stream, ...policy };
      continue;
    }
    if (node.kind === 'transfer') {
      ports.set(name, { inputs: transferSink(name, node.carries).inputs, outputs: {} });
      nodes[name] = { kind: 'transfer', from: node.from, to: node.to };
      continue;
    }
    const made = nodeOf(node, library);
    if (node.kind === 'model_loop') {
      if (made === undefined || !offer.loopKinds.includes(node.loopKind)) return fault(`node ${name}`, `unknown loop ${keyOf(node)}, there are ${offer.loopKinds.filter((kind) => library.loops[kind] !== undefined).join(', ')}`);
      nodes[name] = { kind: 'model_loop', loopKind: node.loopKind, components: made.components, ...policy };
    } else if (node.kind === 'condition') {
      if (made === undefined) return fault(`node ${name}`, `unknown condition ${node.condition}, there are ${Object.keys(library.conditions ?? {}).join(', ') || 'none'}`);
      nodes[name] = { kind: 'condition', condition: node.condition, ...policy };
    } else {
      if (node.carries.kind === 'stream') return fault(`nodes.${name}.carries.kind`, 'stream, but a stream goes one way, to its sink');
      nodes[name] = { kind: 'control', control: node.control, ...policy };
    }
    ports.set(name, made!);
  }
  const port = (end: string, side: 'inputs' | 'outputs', where: string): Port => {
    const { node, port: name } = endOf(end);
    const there = ports.get(node)?.[side];
    if (there === undefined) return fault(where, `no node ${node}, there are ${[...ports.keys()].join(', ')}`);
    return there[name] ?? fault(where, `${node} has no ${side === 'inputs' ? 'input' : 'output'} ${name}, it has ${Object.keys(there).join(', ') || 'none'}`);
  };
  for (const { kind, from, to } of spec.edges) {
    const where = `edge ${from} → ${to}`;
    const [source, target] = [port(from, 'outputs', where), port(to, 'inputs', where)];
    if (source.kind !== target.kind || source.type !== target.type) fault(where, `${portText(source)} can't go where ${portText(target)} is taken`);
    if (kind !== source.kind) fault(where, `declared as ${kind}, its ports are ${portText(source)}`);
  }
  for (const [name, { inputs, outputs }] of ports) {
    for (const [input, type] of Object.entries(inputs)) {
      const edges = spec.edges.filter(({ to }) => to === `${name}.${input}`);
      if (edges.length > 1 || (edges.length === 0 && type.optional !== true)) fault(`node ${name}`, `input ${input} (${portText(type)}) takes one edge, has ${edges.length === 0 ? 'none' : edges.map(({ from }) => from).join(', ')}`);
    }
    for (const [output, type] of Object.entries(outputs)) {
      const edges = spec.edges.filter(({ from }) => from === `${name}.${output}`);
      if (type.kind === 'stream' && edges.length > 1) fault(`node ${name}`, `stream ${output} can go one way, goes to ${edges.map(({ to }) => to).join(', ')}`);
    }
  }
  for (const [name, node] of Object.entries(spec.nodes)) {
    if (node.kind === 'control' && node.control === 'join' && branchOf(spec, name) === null) fault(`node ${name}`, `its inputs ${spec.edges.flatMap(({ from, to }) => (endOf(to).node === name ? [`${endOf(to).port} (${from})`] : [])).join(' and ')} aren't the two sides of one branch`);
  }
  if (!Object.values(spec.nodes).some(({ kind }) => kind === 'stream' || kind === 'transfer')) fault('nodes', 'no stream: nothing would come out of it');
  const program: ProgramSpec = {
    programId: spec.programId,
    kind: 'inline',
    nodes,
    edges: spec.edges.filter(({ from }) => endOf(from).node !== INPUT).map(({ kind, from, to }) => ({ kind, from: endOf(from).node, to: endOf(to).node })),
  };
  validateProgram(program, offer);
  return program;
}

/** What stands for a node that isn't a stream; undefined where the library has none. */
export function nodeOf(node: Exclude<InlineNodeSpec, { kind: 'stream' | 'transfer' }>, { loops, conditions = {} }: InlineLibrary): InlineNode | undefined {
  if (node.kind === 'control') return new ControlNode(node) as unknown as InlineNode;
  return node.kind === 'condition' ? conditions[node.condition] : loops[keyOf(node)];
}

function policyOf({ retry, cancellation, cache, placement }: NodePolicy): NodePolicy {
  return { ...(retry === undefined ? {} : { retry }), ...(cancellation === undefined ? {} : { cancellation }), ...(cache === undefined ? {} : { cache }), ...(placement === undefined ? {} : { placement }) };
}

function keyOf({ loopKind, role }: Extract<InlineNodeSpec, { kind: 'model_loop' }>): string {
  return role === undefined ? loopKind : `${loopKind}/${role}`;
}
