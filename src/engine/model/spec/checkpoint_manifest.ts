import { createHash } from 'node:crypto';
import { Type, type Static } from 'typebox';
import { AdapterCompatibility } from './adapter_spec.ts';
import { TENSOR_TYPES, type TensorSignature } from './tensor_signature.ts';

const Sha256 = Type.String({ pattern: '^[0-9a-f]{64}$' });

/** A tensor as the conversion writes it; `B` is the batch axis. */
const ConvertedTensor = Type.Object({
  name: Type.String(),
  dtype: Type.Enum([...TENSOR_TYPES]),
  shape: Type.Array(Type.Union([Type.Integer({ minimum: 1 }), Type.Literal('B')])),
});

/**
 * `manifest.json`, written by the conversion command and never by hand: files with their checksums, and per graph its file and the
 * tensors that it takes and gives. Further keys (sources, key mappings, policies) belong to the conversion and pass unread.
 */
export const ManifestFile = Type.Object({
  model: Type.String(),
  conversion_version: Type.String(),
  upstream: Type.Object({ source: Type.String(), revision: Type.Record(Type.String(), Sha256) }),
  files: Type.Record(Type.String(), Type.Object({ sha256: Sha256, bytes: Type.Integer({ minimum: 0 }) })),
  components: Type.Record(
    Type.String(),
    Type.Object({
      file: Type.String(),
      /** Weights that this graph shares with others. */
      shared: Type.Optional(Type.String()),
      inputs: Type.Array(ConvertedTensor),
      outputs: Type.Array(ConvertedTensor),
    }),
  ),
  /** Needed where model.yaml has adapters. */
  adapter_compatibility: Type.Optional(AdapterCompatibility),
});
export type ManifestFile = Static<typeof ManifestFile>;

/** `report.json`: what the conversion measured. A model whose parity failed isn't loaded. */
export const ReportFile = Type.Object({
  parity: Type.Array(Type.Object({ check: Type.String(), max_difference: Type.Number(), tolerance: Type.Number(), passed: Type.Boolean() })),
});
export type ReportFile = Static<typeof ReportFile>;

export interface CheckpointComponent {
  readonly file: string;
  readonly shared: string | null;
  readonly inputs: Readonly<Record<string, TensorSignature>>;
  readonly outputs: Readonly<Record<string, TensorSignature>>;
}

export interface CheckpointManifest {
  readonly model: string;
  /** Names these weights and no others: a digest over the checksums of all files but the adapters, which have versions of their own. */
  readonly weightsVersion: string;
  readonly conversionVersion: string;
  readonly files: ManifestFile['files'];
  readonly components: Readonly<Record<string, CheckpointComponent>>;
}

/** @param adapters files that hold adapters. */
export function toCheckpointManifest({ model, conversion_version: conversionVersion, files, components }: ManifestFile, adapters: readonly string[] = []): CheckpointManifest {
  const digest = createHash('sha256');
  for (const name of Object.keys(files).filter((file) => !adapters.includes(file)).sort()) digest.update(`${name} ${files[name]!.sha256}\n`);
  return {
    model,
    weightsVersion: `${model}-${conversionVersion}-${digest.digest('hex').slice(0, 12)}`,
    conversionVersion,
    files,
    components: Object.fromEntries(
      Object.entries(components).map(([name, { file, shared, inputs, outputs }]) => [name, { file, shared: shared ?? null, inputs: byName(inputs), outputs: byName(outputs) }]),
    ),
  };
}

function byName(tensors: readonly Static<typeof ConvertedTensor>[]): Record<string, TensorSignature> {
  return Object.fromEntries(tensors.map(({ name, dtype, shape }) => [name, { dtype, shape: shape.map((axis) => (axis === 'B' ? 'batch' : axis)) }]));
}
