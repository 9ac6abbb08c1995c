import { Type, type Static } from 'typebox';
import type { MediaFormat } from '../../../streams/media_time.ts';
import { AdapterSpec, type Adapter } from './adapter_spec.ts';
import { CapabilityMatrix } from './capability_matrix.ts';
import type { CheckpointManifest } from './checkpoint_manifest.ts';
import { ComponentSpec } from './component_spec.ts';
import type { DeploymentSpec } from './deployment_spec.ts';
import type { LoopSpec } from './loop_spec.ts';
import type { ParallelPlanPattern } from './parallelism_contract.ts';
import { ProcessorSpec } from './processor_spec.ts';
import type { ProgramDeclaration } from './program_declaration.ts';

/** A trained set of weights of a family: which manifest it comes from and how precise it is. */
export const ModelVariantSpec = Type.Object({ precision: Type.Enum(['fp32', 'fp16', 'int8']), manifest: Type.String(), report: Type.String() }, { additionalProperties: false });
export type ModelVariantSpec = Static<typeof ModelVariantSpec>;

/** Which loops may fill a cache and which may read it. */
export const CacheContract = Type.Object(
  { version: Type.String(), producers: Type.Array(Type.String(), { minItems: 1 }), consumers: Type.Array(Type.String(), { minItems: 1 }), memory: Type.Enum(['kv', 'activations']) },
  { additionalProperties: false },
);
export type CacheContract = Static<typeof CacheContract>;

/** What can be held while a model generates, by name: the values in the order of the embedding that they index. */
export const ActionVocabulary = Type.Record(
  Type.String(),
  Type.Object({ values: Type.Array(Type.Integer(), { minItems: 1, uniqueItems: true }), /** What is held where nobody holds anything. */ neutral: Type.Integer() }, { additionalProperties: false }),
);
export type ActionVocabulary = Static<typeof ActionVocabulary>;

export const ModelFile = Type.Object(
  {
    modelId: Type.String({ minLength: 1 }),
    family: Type.String({ minLength: 1 }),
    format: Type.Object(
      {
        width: Type.Integer({ minimum: 16 }),
        height: Type.Integer({ minimum: 16 }),
        framesPerSecond: Type.Integer({ minimum: 1 }),
        audioSampleRate: Type.Integer({ minimum: 8000 }),
      },
      { additionalProperties: false },
    ),
    framesPerChunk: Type.Integer({ minimum: 1 }),
    actions: Type.Optional(ActionVocabulary),
    variants: Type.Record(Type.String(), ModelVariantSpec),
    components: Type.Record(Type.String(), ComponentSpec),
    capabilities: CapabilityMatrix,
    processors: Type.Record(Type.String(), ProcessorSpec),
    caches: Type.Record(Type.String(), CacheContract),
    adapters: Type.Optional(Type.Record(Type.String(), AdapterSpec)),
  },
  { additionalProperties: false },
);
export type ModelFile = Static<typeof ModelFile>;

/**
 * Everything there is to know of a model before it runs: read from its directory, cross-checked, frozen.
 * Plain data, so it can be handed to another thread.
 */
export interface ModelSpec {
  /** Absolute path of the directory that it came from. */
  readonly modelDir: string;
  readonly modelId: string;
  readonly family: string;
  readonly format: MediaFormat;
  readonly framesPerChunk: number;
  readonly actions: ActionVocabulary;
  readonly variantId: string;
  readonly variant: ModelVariantSpec;
  readonly components: Readonly<Record<string, ComponentSpec>>;
  readonly loops: Readonly<Record<string, LoopSpec>>;
  readonly capabilities: CapabilityMatrix;
  readonly checkpoint: CheckpointManifest;
  readonly processors: Readonly<Record<string, ProcessorSpec>>;
  readonly caches: Readonly<Record<string, CacheContract>>;
  /** Loaded and checked, by id. */
  readonly adapters: Readonly<Record<string, Adapter>>;
  readonly parallelPlans: Readonly<Record<string, ParallelPlanPattern>>;
  readonly programs: Readonly<Record<string, ProgramDeclaration>>;
  readonly deployment: DeploymentSpec;
}
