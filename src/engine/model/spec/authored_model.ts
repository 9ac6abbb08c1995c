import type { TSchema } from 'typebox';
import { AuthoringFile } from './authoring_file.ts';
import { ManifestFile, ReportFile, toCheckpointManifest } from './checkpoint_manifest.ts';
import type { AuthoredModel } from './cross_check.ts';
import { DeploymentSpec } from './deployment_spec.ts';
import { LoopsFile } from './loop_spec.ts';
import { ModelFile } from './model_spec.ts';
import { ParallelFile } from './parallelism_contract.ts';
import { ProgramsFile } from './program_declaration.ts';

/** The files that people write, by what each is about, with its schema. `segue schemas` writes these for editors. */
export const AUTHORING_SCHEMAS = {
  'model.yaml': ModelFile,
  'loops.yaml': LoopsFile,
  'parallel.yaml': ParallelFile,
  'programs.yaml': ProgramsFile,
  'deployment.yaml': DeploymentSpec,
} as const satisfies Readonly<Record<string, TSchema>>;

/** Reads all files of a model directory, each against its schema. @throws {SpecError} at the first that isn't of it. */
export function readAuthoredModel(dir: string): AuthoredModel {
  const read = <Name extends keyof typeof AUTHORING_SCHEMAS>(name: Name) => AuthoringFile.read(dir, name, AUTHORING_SCHEMAS[name]);
  const model = read('model.yaml');
  const loops = read('loops.yaml');
  const parallel = read('parallel.yaml');
  const programs = read('programs.yaml');
  const deployment = read('deployment.yaml');
  const variantId = deployment.value.variant;
  const variant = model.value.variants[variantId];
  if (variant === undefined) throw deployment.fault(['variant'], 'unknown variant', Object.keys(model.value.variants), variantId);
  const manifest = AuthoringFile.read(dir, variant.manifest, ManifestFile);
  const report = AuthoringFile.read(dir, variant.report, ReportFile);
  const checkpoint = toCheckpointManifest(manifest.value, Object.values(model.value.adapters ?? {}).map(({ file }) => file));
  return { model, loops, parallel, programs, deployment, manifest, report, checkpoint, variantId };
}
