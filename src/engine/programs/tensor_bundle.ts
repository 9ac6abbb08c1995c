import type { TensorSignature } from '../model/spec/tensor_signature.ts';
import { unitBytes } from '../model/spec/tensor_signature.ts';
import type { BlockId, MemoryTag } from '../model/work.ts';

export interface BundleTensor extends TensorSignature {
  readonly memory: MemoryTag;
}

/**
 * How a value on a tensor edge lies in blocks: their names and signatures, and the way from the value to its blocks and back. Where a value moves to another executor, this is what its
 * manifest names; the rest of the value is plain data and goes along as it is.
 */
export interface TensorBundle<Value = unknown> {
  readonly tensors: Readonly<Record<string, BundleTensor>>;
  blocksOf(value: Value): Readonly<Record<string, BlockId>>;
  /** The same value over other blocks. */
  withBlocks(value: Value, blocks: Readonly<Record<string, BlockId>>): Value;
}

/** Bytes that one value takes, by tag. */
export function bundleBytes({ tensors }: TensorBundle): Readonly<Partial<Record<MemoryTag, number>>> {
  const bytes: Partial<Record<MemoryTag, number>> = {};
  for (const tensor of Object.values(tensors)) bytes[tensor.memory] = (bytes[tensor.memory] ?? 0) + unitBytes(tensor);
  return bytes;
}
