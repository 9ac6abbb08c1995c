import { endOf } from './inline_ports.ts';
import type { InlineSpec } from './inline_spec.ts';

/**
 * Nodes that run nothing because outputs are closed: those with an edge from a closed output or from another such node; a join only where both its sides are.
 * @param closed ends of edges as `node.port`.
 */
export function skippedNodes({ nodes, edges }: Pick<InlineSpec, 'nodes' | 'edges'>, closed: ReadonlySet<string>): ReadonlySet<string> {
  const skipped = new Set<string>();
  const dead = (from: string): boolean => closed.has(from) || skipped.has(endOf(from).node);
  for (let grows = true; grows; ) {
    grows = false;
    for (const [name, node] of Object.entries(nodes)) {
      if (skipped.has(name)) continue;
      const incoming = edges.filter(({ to }) => endOf(to).node === name);
      const joins = node.kind === 'control' && node.control === 'join';
      if (incoming.length === 0 || !(joins ? incoming.every(({ from }) => dead(from)) : incoming.some(({ from }) => dead(from)))) continue;
      skipped.add(name);
      grows = true;
    }
  }
  return skipped;
}

/** The branch whose two sides a join's inputs hang on, one each; null where none is: both could give, and what comes out would depend on who is first. */
export function branchOf(spec: Pick<InlineSpec, 'nodes' | 'edges'>, join: string): string | null {
  const source = (port: string): string | undefined => spec.edges.find(({ to }) => to === `${join}.${port}`)?.from;
  const sides = [source('then'), source('else')];
  if (sides.some((side) => side === undefined)) return null;
  const dies = (from: string, closed: string): boolean => from === closed || skippedNodes(spec, new Set([closed])).has(endOf(from).node);
  for (const [name, node] of Object.entries(spec.nodes)) {
    if (node.kind !== 'control' || node.control !== 'branch') continue;
    const exclusive = (a: string, b: string): boolean => dies(a, `${name}.else`) && !dies(a, `${name}.then`) && dies(b, `${name}.then`) && !dies(b, `${name}.else`);
    if (exclusive(sides[0]!, sides[1]!) || exclusive(sides[1]!, sides[0]!)) return name;
  }
  return null;
}
