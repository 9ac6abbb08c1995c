import { Type, type Static } from 'typebox';
import { OutputSignature, signatureText, TensorSignature } from './tensor_signature.ts';

export const COMPONENT_KINDS = ['text_encoder', 'language_model', 'diffusion_transformer', 'kv_writer', 'vae_decoder', 'audio_decoder', 'latent_bank', 'vae_encoder'] as const;

/** A named, typed, loadable part of a model: one graph. */
export const ComponentSpec = Type.Object(
  {
    kind: Type.Enum([...COMPONENT_KINDS]),
    /** Entry of the checkpoint manifest that holds its weights. */
    loadId: Type.String({ minLength: 1 }),
    precision: Type.Enum(['fp32', 'fp16', 'int8']),
    /** Device memory its weights live in; `sleep` and `wake` go by tag. */
    memory: Type.Literal('weights'),
    /** What its kernel binds. Checked against the manifest before load and against the graph at load. */
    inputs: Type.Record(Type.String(), TensorSignature),
    outputs: Type.Record(Type.String(), OutputSignature),
    /** Parallel axes that may exceed 1. */
    parallelAxes: Type.Array(Type.String()),
  },
  { additionalProperties: false },
);
export type ComponentSpec = Static<typeof ComponentSpec>;

/**
 * Units with equal keys may share a batch.
 *
 * @example
 * shapeKeyOf('vae_decode', component) // 'vae_decode/fp32/latents:float32[batch,32,128];frame:int64[batch,1]'
 */
export function shapeKeyOf(componentId: string, component: ComponentSpec): string {
  const inputs = Object.entries(component.inputs).map(([name, signature]) => `${name}:${signatureText(signature)}`);
  return `${componentId}/${component.precision}/${inputs.join(';')}`;
}
