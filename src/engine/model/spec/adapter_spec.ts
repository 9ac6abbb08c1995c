import { Type, type Static } from 'typebox';

/** An adapter as model.yaml declares it: low-rank updates of some of the model's matrices, applied when asked for. */
export const AdapterSpec = Type.Object(
  {
    /** For people. */
    title: Type.String({ minLength: 1, maxLength: 64 }),
    /** Safetensors, relative to the model directory; listed with its checksum in the manifest. */
    file: Type.String({ minLength: 1 }),
    kind: Type.Literal('lora'),
  },
  { additionalProperties: false },
);
export type AdapterSpec = Static<typeof AdapterSpec>;

/** What the manifest says of adapters that fit its weights. Further keys pass unread. */
export const AdapterCompatibility = Type.Object({
  /** SHA-256 of the checkpoint that an adapter must have been trained on. */
  base: Type.String({ pattern: '^[0-9a-f]{64}$' }),
  kinds: Type.Array(Type.String()),
  max_rank: Type.Integer({ minimum: 1 }),
  /** Matrices that may be updated, `[rows out, columns in]`, by their name in the checkpoint. */
  targets: Type.Record(Type.String(), Type.Tuple([Type.Integer({ minimum: 1 }), Type.Integer({ minimum: 1 })])),
});
export type AdapterCompatibility = Static<typeof AdapterCompatibility>;

/** Inputs of an adapted graph by the matrix, of each layer, that they update. */
export const ADAPTER_MATRICES = {
  attention_output: { down: 'attention_down', up: 'attention_up' },
  feedforward_out: { down: 'feedforward_down', up: 'feedforward_up' },
} as const;
export type AdapterMatrix = keyof typeof ADAPTER_MATRICES;

/** Where a target's update goes: `picture_experts.{layer}.{matrix}`. Null for any other name. */
export function adapterTarget(name: string): { readonly layer: number; readonly matrix: AdapterMatrix } | null {
  const [, layer, matrix] = /^picture_experts\.(\d+)\.(.+)$/.exec(name) ?? [];
  if (layer === undefined || matrix === undefined || !Object.hasOwn(ADAPTER_MATRICES, matrix)) return null;
  return { layer: Number(layer), matrix: matrix as AdapterMatrix };
}

export const ADAPTER_TENSORS = ['attention_down', 'attention_up', 'feedforward_down', 'feedforward_up'] as const;
export type AdapterTensorName = (typeof ADAPTER_TENSORS)[number];
export const ADAPTER_SCALE = 'adapter_scale';

/** Float32, as the adapted graphs take them: every layer, ranks padded with zeros. In memory that all threads share. */
export type AdapterTensors = Readonly<Record<AdapterTensorName, SharedArrayBuffer>>;

/** A loaded adapter. Plain data: crosses threads. */
export interface Adapter extends AdapterSpec {
  readonly id: string;
  /** SHA-256 of its file. */
  readonly version: string;
  readonly rank: number;
  readonly tensors: AdapterTensors;
}
