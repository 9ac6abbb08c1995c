import { Type, type Static } from 'typebox';
import { WORK_UNIT_KINDS } from '../work.ts';

export const LOOP_KINDS = ['encoder_chunk', 'ar_decode', 'video_continuation', 'vae_tile_decode', 'audio', 'start_bank', 'logprob_recompute', 'vae_tile_encode'] as const;
export type LoopKind = (typeof LOOP_KINDS)[number];

/**
 * Guidance as part of the loop, not a launch flag. `embedded` is the single-branch policy whose guidance rides inside the forward
 * pass: its combine is the identity. A policy says in which space it combines, because predictions of different
 * spaces can't be mixed.
 */
export const CFGPolicy = Type.Object(
  {
    kind: Type.Enum(['embedded', 'two_forward', 'batched']),
    branches: Type.Array(Type.String(), { minItems: 1, uniqueItems: true }),
    combine: Type.Enum(['identity', 'guided']),
    space: Type.Enum(['x0', 'noise', 'velocity', 'logits']),
  },
  { additionalProperties: false },
);
export type CFGPolicy = Static<typeof CFGPolicy>;

const StepPolicy = Type.Object(
  {
    units: Type.Array(Type.Enum([...WORK_UNIT_KINDS]), { minItems: 1 }),
    /** Most units of one kind joined into a batch. */
    maxBatch: Type.Integer({ minimum: 1, maximum: 31 }),
    /** Largest absolute difference between a unit run in a batch and alone; bit-equal in batch-invariant mode. */
    batchTolerance: Type.Number({ minimum: 0 }),
  },
  { additionalProperties: false },
);

const PreemptionPolicy = Type.Object(
  { boundary: Type.Enum(['unit']), /** Lowest noise level at which a partly denoised latent may still be steered. */ steerUntil: Type.Optional(Type.Number({ minimum: 0, maximum: 1 })) },
  { additionalProperties: false },
);

const CachePolicy = Type.Object(
  { reads: Type.Array(Type.String()), publishes: Type.Array(Type.String()) },
  { additionalProperties: false },
);

/** Numbers of the denoising schedule; each changes what is generated, so each is part of the spec. */
export const DenoisePolicy = Type.Object(
  {
    steps: Type.Integer({ minimum: 1, maximum: 16 }),
    /** Fewer, that a chunk may be made in where there is no time for `steps`; absent: none. Declared where adherence was measured to hold. */
    reducedSteps: Type.Optional(Type.Integer({ minimum: 1, maximum: 15 })),
    windowChunks: Type.Integer({ minimum: 1, maximum: 64 }),
    /** Noise level that context is written at, and that the model therefore sees the previous chunk at. */
    contextNoise: Type.Number({ exclusiveMinimum: 0, maximum: 1 }),
    framesPerChunk: Type.Integer({ minimum: 1 }),
    /** What a new prompt does to the window: `keep` (default; trained with old chunks attending their own prompt) or `recompute` it under the new one. */
    kvOnRedirect: Type.Optional(Type.Enum(['keep', 'recompute'])),
    /** What other weights do to the window of a story that goes on: `keep` it as the older ones wrote it. Absent: stories can't go on behind other weights, and only a restart replaces them. */
    kvOnReload: Type.Optional(Type.Enum(['keep'])),
    /** Rotary frequencies along time: `scale · base^(−i / count)`, i = 0 … count − 1. */
    timeRotary: Type.Object({ count: Type.Integer({ minimum: 1 }), base: Type.Number({ exclusiveMinimum: 1 }), scale: Type.Number({ exclusiveMinimum: 0 }) }, { additionalProperties: false }),
  },
  { additionalProperties: false },
);
export type DenoisePolicy = Static<typeof DenoisePolicy>;

const InitialValues = Type.Union([Type.Array(Type.Number()), Type.Object({ fill: Type.Number() }, { additionalProperties: false })]);
export type InitialValues = Static<typeof InitialValues>;

export function expandInitial(values: InitialValues, elements: number): readonly number[] {
  return Array.isArray(values) ? values : Array<number>(elements).fill((values as { fill: number }).fill);
}

/** A named behaviour of the model, with stable state and boundaries that the scheduler may use. */
export const LoopSpec = Type.Object(
  {
    kind: Type.Enum([...LOOP_KINDS]),
    components: Type.Array(Type.String(), { minItems: 1 }),
    /** The same components, in the same order, as graphs that also take an adapter: units with an adapter run these. */
    adapted: Type.Optional(Type.Array(Type.String(), { minItems: 1 })),
    stateSchema: Type.String(),
    step: StepPolicy,
    preemption: PreemptionPolicy,
    cache: CachePolicy,
    cfg: Type.Union([CFGPolicy, Type.Null()]),
    graphCapture: Type.Enum(['none', 'static_shape']),
    parallelPlans: Type.Array(Type.String(), { minItems: 1 }),
    denoise: Type.Optional(DenoisePolicy),
    /** State that a loop starts from, by input name: as many numbers as the input has elements, or one for all of them. */
    initial: Type.Optional(Type.Record(Type.String(), InitialValues)),
  },
  { additionalProperties: false },
);
export type LoopSpec = Static<typeof LoopSpec>;

export const LoopsFile = Type.Object({ loops: Type.Record(Type.String(), LoopSpec) }, { additionalProperties: false });
