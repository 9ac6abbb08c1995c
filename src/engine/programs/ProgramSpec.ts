import type { ControlSpec } from './ControlNode.ts';
import { checkPolicy, type LoopOffer, type NodePolicy } from './node_policy.ts';

/**
 * What a program is made of: nodes that run loops and edges that say what flows between them. Declared apart from the code that runs
 * it, so that a program can be checked against a model before any of it runs, exported on the card, and drawn.
 */
export interface ProgramSpec {
  readonly programId: string;
  readonly kind: 'inline' | 'disaggregated' | 'workflow' | 'training' | 'realtime';
  readonly nodes: Readonly<Record<string, ProgramNode>>;
  readonly edges: readonly ProgramEdge[];
  /** Of a live program, for each node that steps a loop: what interruption means there. */
  readonly interruption?: Readonly<Record<string, LoopInterruption>>;
}

/**
 * What becomes of what a loop has made and nobody has seen. `abandoned`: given up, and made again only if it is asked for again. `remade`: goes back to what was
 * presented, and is made anew from there. `steered`: goes on under what is asked for now, where it still can, else is remade. `kept`: goes on.
 */
export type InterruptionEffect = 'abandoned' | 'remade' | 'steered' | 'kept';

/** Interruption takes effect between two units of the loop; the one in flight comes back to nobody. */
export interface LoopInterruption {
  /** What one unit of it makes: no more than that is waited for. */
  readonly unit: 'token' | 'plan_embedding' | 'start_frames' | 'denoise_step' | 'frame' | 'frame_of_sound' | 'picture_latents';
  readonly interrupt: InterruptionEffect;
  /** Words, a cut or a style that come midway. */
  readonly redirect: InterruptionEffect;
  readonly says: string;
}

/** One node: what it runs, and what holds for it. */
export type ProgramNode = ProgramNodeKind & NodePolicy;

export type ProgramNodeKind =
  /** Steps a named loop of the model. */
  | { readonly kind: 'model_loop'; readonly loopKind: string; readonly components: readonly string[] }
  /** Runs one component once. */
  | { readonly kind: 'component'; readonly component: string }
  /** Packs what is held into what loops consume, as `action_condition` packs actions. No WorkUnit: its cost is none. */
  | { readonly kind: 'condition'; readonly condition: 'action_condition' }
  | { readonly kind: 'external'; readonly service: string }
  | { readonly kind: 'artifact'; readonly access: 'read' | 'write' }
  /** Decides what flows. Retries and cancellation are no nodes: each node declares its own, see {@link NodePolicy}. */
  | { readonly kind: 'control'; readonly control: ControlSpec['control'] }
  /** Emits partial outputs to a stream of the session; `frames` comes in. */
  | { readonly kind: 'stream'; readonly stream: 'frames' | 'video' | 'audio' | 'text' | 'media' | 'logprobs' }
  | { readonly kind: 'transfer'; readonly from: string; readonly to: string };

export interface ProgramEdge {
  readonly kind: 'tensor' | 'text' | 'artifact' | 'stream' | 'control' | 'cache' | 'behavior';
  readonly from: string;
  readonly to: string;
  /** Carries state from one chunk to the next: a cycle is legal only over such edges. */
  readonly acrossChunks?: boolean;
}

/** What a loaded model offers to programs. */
export interface ModelOffer {
  readonly loopKinds: readonly string[];
  readonly components: readonly string[];
  /** What `loops.yaml` says of each kind of loop; absent where a program was checked against it before. */
  readonly loops?: Readonly<Record<string, LoopOffer>>;
}

/**
 * Checks a program against a model.
 * @throws {TypeError} naming the program, the node or edge, and what is there instead.
 */
export function validateProgram(spec: ProgramSpec, offer: ModelOffer): void {
  const fault = (where: string, problem: string): never => {
    throw new TypeError(`program ${spec.programId}: ${where}: ${problem}`);
  };
  for (const [name, node] of Object.entries(spec.nodes)) {
    if (node.kind === 'model_loop') {
      if (!offer.loopKinds.includes(node.loopKind)) fault(`node ${name}`, `needs a loop of kind ${node.loopKind}, the model has ${offer.loopKinds.join(', ')}`);
      for (const component of node.components) if (!offer.components.includes(component)) fault(`node ${name}`, `needs component ${component}, the model has ${offer.components.join(', ')}`);
    }
    checkPolicy(node, node.kind === 'model_loop' ? offer.loops?.[node.loopKind] : null, (key, problem) => fault(`nodes.${name}.${key}`, problem));
    if (node.kind === 'component' && !offer.components.includes(node.component)) fault(`node ${name}`, `needs component ${node.component}, the model has ${offer.components.join(', ')}`);
  }
  for (const { from, to } of spec.edges) {
    for (const end of [from, to]) if (spec.nodes[end] === undefined) fault(`edge ${from} → ${to}`, `no node ${end}, there are ${Object.keys(spec.nodes).join(', ')}`);
  }
  for (const name of Object.keys(spec.interruption ?? {})) if (spec.nodes[name]?.kind !== 'model_loop') fault(`interruption ${name}`, 'is no node that steps a loop');
  if (spec.kind === 'realtime') {
    for (const [name, { kind }] of Object.entries(spec.nodes)) if (kind === 'model_loop' && spec.interruption?.[name] === undefined) fault(`node ${name}`, 'a live program declares what interruption means in each loop');
  }
  const cycle = findCycle(spec);
  if (cycle !== null) fault(`cycle ${cycle.join(' → ')}`, 'needs an edge that is declared acrossChunks');
}

function findCycle({ nodes, edges }: ProgramSpec): string[] | null {
  const state = new Map<string, 'open' | 'done'>();
  const path: string[] = [];
  const visit = (node: string): string[] | null => {
    if (state.get(node) === 'done') return null;
    if (state.get(node) === 'open') return [...path.slice(path.indexOf(node)), node];
    state.set(node, 'open');
    path.push(node);
    for (const edge of edges) {
      if (edge.from !== node || edge.acrossChunks === true) continue;
      const found = visit(edge.to);
      if (found !== null) return found;
    }
    path.pop();
    state.set(node, 'done');
    return null;
  };
  for (const node of Object.keys(nodes)) {
    const found = visit(node);
    if (found !== null) return found;
  }
  return null;
}
