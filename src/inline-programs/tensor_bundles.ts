import type { PromptBlocks } from '../engine/model/loop_kernel.ts';
import type { BlockId } from '../engine/model/work.ts';
import type { TensorBundle } from '../engine/programs/tensor_bundle.ts';
import type { ContinuationModel } from '../realtime-programs/continuation_model.ts';
import type { ContinuationSource } from '../realtime-programs/drive_model.ts';
import type { ChunkLatents, GivenChunk } from './nodes/chunk_items.ts';

/** What flows between the loops of a video continuation, by the type of its port: which of a component's outputs it is, and where its blocks are in the value. */
export function tensorBundles({ components: specs }: Pick<ContinuationSource, 'components'>, components: ContinuationModel['components']): Readonly<Record<string, TensorBundle>> {
  const tensors = (component: string): TensorBundle['tensors'] =>
    Object.fromEntries(Object.entries(specs[component]!.outputs).flatMap(([name, { dtype, shape, to }]) => (to === 'kv' || to === 'activations' ? [[name, { dtype, shape, memory: to }] as const] : [])));
  const latents = { x: Object.values(tensors(components.denoise))[0]! };
  const prompt: TensorBundle<PromptBlocks> = { tensors: tensors(components.encoder), blocksOf: (value) => value, withBlocks: (_, blocks) => blocks };
  const start: TensorBundle<BlockId> = { tensors: latents, blocksOf: (x) => ({ x }), withBlocks: (_, blocks) => blocks['x']! };
  const chunk: TensorBundle<ChunkLatents> = { tensors: latents, blocksOf: ({ latents: x }) => ({ x }), withBlocks: (value, blocks) => ({ ...value, latents: blocks['x']! }) };
  // The end of what was given is an item without latents.
  const given: TensorBundle<GivenChunk | null> = { tensors: latents, blocksOf: (value) => (value === null ? {} : { x: value.latents }), withBlocks: (value, blocks) => (value === null ? null : { ...value, latents: blocks['x']! }) };
  return { prompt, start_latents: start, latents: chunk, given_latents: given } as object as Readonly<Record<string, TensorBundle>>;
}
