import { Type, type Static } from 'typebox';

export const TENSOR_TYPES = ['float32', 'int64', 'int32', 'int16', 'uint8'] as const;

/** Type and shape of one named tensor of a graph, for example `{ dtype: float32, shape: [batch, 32, 128] }`. */
export const TensorSignature = Type.Object(
  {
    dtype: Type.Enum([...TENSOR_TYPES]),
    /** Axis sizes; `batch` stands for the axis along which units are joined and comes first where there is one. */
    shape: Type.Array(Type.Union([Type.Integer({ minimum: 1 }), Type.Literal('batch')])),
  },
  { additionalProperties: false },
);
export type TensorSignature = Static<typeof TensorSignature>;

export const BYTES_PER_ELEMENT = { float32: 4, int64: 8, int32: 4, int16: 2, uint8: 1 } as const satisfies Record<TensorSignature['dtype'], number>;

/** Where a graph's result goes: a block of that memory, a slot of the session's picture or sound pool, or back to the engine as a small value. */
export const OutputSignature = Type.Object(
  { dtype: TensorSignature.properties.dtype, shape: TensorSignature.properties.shape, to: Type.Enum(['kv', 'activations', 'video', 'audio', 'value']) },
  { additionalProperties: false },
);
export type OutputSignature = Static<typeof OutputSignature>;

/** Axes of one unit: the signature without its batch axis. */
export function unitShape(signature: Pick<TensorSignature, 'dtype' | 'shape'>): readonly number[] {
  return signature.shape.filter((axis) => axis !== 'batch');
}

export function unitElements(signature: Pick<TensorSignature, 'dtype' | 'shape'>): number {
  return unitShape(signature).reduce((product, axis) => product * axis, 1);
}

export function unitBytes(signature: Pick<TensorSignature, 'dtype' | 'shape'>): number {
  return unitElements(signature) * BYTES_PER_ELEMENT[signature.dtype];
}

/** `float32[batch,32,128]`: equal strings are equal signatures. */
export function signatureText(signature: Pick<TensorSignature, 'dtype' | 'shape'>): string {
  return `${signature.dtype}[${signature.shape.join(',')}]`;
}
