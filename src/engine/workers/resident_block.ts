import { Tensor } from 'onnxruntime-node';
import type { TensorSignature } from '../model/spec/tensor_signature.ts';
import type { SharedBlock } from './BlockStore.ts';

/** A block with the tensor through which one thread's runtime reads it, without a copy. */
export interface ResidentBlock extends SharedBlock {
  readonly tensor: Tensor;
}

/** Binds a block to this thread's runtime. */
export function residentBlock(block: SharedBlock): ResidentBlock {
  return { ...block, tensor: tensorOver(block.dtype, block.buffer, block.dims) };
}

/** What crosses to other threads. */
export function sharedBlock({ id, sessionId, memory, published, dtype, dims, buffer }: ResidentBlock): SharedBlock {
  return { id, sessionId, memory, published, dtype, dims, buffer };
}

/** A tensor over all of a buffer. */
export function tensorOver(dtype: TensorSignature['dtype'], buffer: ArrayBuffer | SharedArrayBuffer, dims: readonly number[]): Tensor {
  switch (dtype) {
    case 'float32':
      return new Tensor('float32', new Float32Array(buffer), dims);
    case 'int64':
      return new Tensor('int64', new BigInt64Array(buffer), dims);
    case 'int32':
      return new Tensor('int32', new Int32Array(buffer), dims);
    case 'int16':
      return new Tensor('int16', new Int16Array(buffer), dims);
    case 'uint8':
      return new Tensor('uint8', new Uint8Array(buffer), dims);
  }
}
