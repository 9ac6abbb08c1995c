import { Type, type Static } from 'typebox';

export const CAPABILITIES = [
  'text_to_video',
  'image_to_video',
  'video_to_video',
  'text_to_audio',
  'reasoning_text',
  'action_conditioning',
  'vae_decode',
  'streaming_video_continuation',
  'policy_rollout',
  'logprob_recompute',
] as const;
export type Capability = (typeof CAPABILITIES)[number];

const loopIds = Type.Array(Type.String(), { minItems: 1 });

/** What the model can do, each backed by the loops that do it: a capability without a loop can't be declared. */
export const CapabilityMatrix = Type.Partial(
  Type.Object(Object.fromEntries(CAPABILITIES.map((name) => [name, loopIds])) as Record<Capability, typeof loopIds>),
  { additionalProperties: false },
);
export type CapabilityMatrix = Static<typeof CapabilityMatrix>;
