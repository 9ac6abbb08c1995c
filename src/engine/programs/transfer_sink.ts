import type { InlineSink } from './InlineNode.ts';
import type { Port } from './inline_ports.ts';

/** Where an item leaves a stage: one for each permit that the consumer has given. */
export function transferSink(name: string, carries: Port): InlineSink<null> {
  return {
    inputs: { items: carries, permits: { kind: 'stream', type: 'permit' } },
    open: () => null,
    take: (state, { items, permits }) => (items === undefined || permits === undefined ? null : { state, taken: ['items', 'permits'], event: { type: 'handover', handOver: name, value: items.value, blocks: items.blocks } }),
  };
}
