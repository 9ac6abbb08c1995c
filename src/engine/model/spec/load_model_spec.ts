import { createHash } from 'node:crypto';
import { existsSync, readFileSync, statSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { loadAdapter } from '../adapters/load_adapter.ts';
import type { Adapter } from './adapter_spec.ts';
import { AuthoringFile, deepFreeze } from './authoring_file.ts';
import { ManifestFile, ReportFile, toCheckpointManifest } from './checkpoint_manifest.ts';
import { crossCheck, type AuthoredModel } from './cross_check.ts';
import { DeploymentSpec } from './deployment_spec.ts';
import { LoopsFile } from './loop_spec.ts';
import { ModelFile, type ModelSpec } from './model_spec.ts';
import { ParallelFile } from './parallelism_contract.ts';
import { ProgramsFile } from './program_declaration.ts';

export interface LoadOptions {
  /** Compares every file's checksum. On by default; a caller that has just done so may skip reading 30 MB again. */
  readonly verifyChecksums?: boolean;
}

/**
 * Reads a model directory and checks all of it before anything is loaded: each file against its schema, the files against each other,
 * the components against the manifest, the weights against their checksums, the adapters against what they are for.
 *
 * @throws {SpecError} naming file, line, key and both operands of the first fault.
 */
export function loadModelSpec(modelDir: string, { verifyChecksums = true }: LoadOptions = {}): ModelSpec {
  const dir = resolve(modelDir);
  const model = AuthoringFile.read(dir, 'model.yaml', ModelFile);
  const loops = AuthoringFile.read(dir, 'loops.yaml', LoopsFile);
  const parallel = AuthoringFile.read(dir, 'parallel.yaml', ParallelFile);
  const programs = AuthoringFile.read(dir, 'programs.yaml', ProgramsFile);
  const deployment = AuthoringFile.read(dir, 'deployment.yaml', DeploymentSpec);
  const variantId = deployment.value.variant;
  const variant = model.value.variants[variantId];
  if (variant === undefined) throw deployment.fault(['variant'], 'unknown variant', Object.keys(model.value.variants), variantId);
  const manifest = AuthoringFile.read(dir, variant.manifest, ManifestFile);
  const report = AuthoringFile.read(dir, variant.report, ReportFile);
  const checkpoint = toCheckpointManifest(manifest.value, Object.values(model.value.adapters ?? {}).map(({ file }) => file));
  const authored: AuthoredModel = { model, loops, parallel, programs, deployment, manifest, report, checkpoint, variantId };
  crossCheck(authored);
  checkFiles(dir, authored, verifyChecksums);
  const { modelId, family, format, framesPerChunk, components, capabilities, processors, caches, actions = {} } = model.value;
  return deepFreeze({
    modelDir: dir,
    modelId,
    family,
    format,
    framesPerChunk,
    actions,
    variantId,
    variant,
    components,
    loops: loops.value.loops,
    capabilities,
    checkpoint,
    processors,
    caches,
    adapters: loadAdapters(dir, authored),
    parallelPlans: parallel.value.plans,
    programs: programs.value.programs,
    deployment: deployment.value,
  });
}

/** Absolute path of a component's graph. */
export function graphPath(spec: ModelSpec, componentId: string): string {
  return join(spec.modelDir, spec.checkpoint.components[spec.components[componentId]!.loadId]!.file);
}

/** Their files have been checked by size and checksum. */
function loadAdapters(dir: string, { model, loops, checkpoint, manifest }: AuthoredModel): Record<string, Adapter> {
  const adapted = Object.values(loops.value.loops).find((loop) => loop.adapted !== undefined)?.adapted?.[0];
  const entries = Object.entries(model.value.adapters ?? {}).map(([id, spec]) => {
    const source = { id, spec, sha256: checkpoint.files[spec.file]!.sha256, compatibility: manifest.value.adapter_compatibility!, inputs: model.value.components[adapted!]!.inputs };
    return [id, loadAdapter(source, readFileSync(join(dir, spec.file)))] as const;
  });
  return Object.fromEntries(entries);
}

function checkFiles(dir: string, { model, manifest }: AuthoredModel, verifyChecksums: boolean): void {
  for (const [name, { sha256, bytes }] of Object.entries(manifest.value.files)) {
    const path = ['files', name];
    let size: number;
    try {
      size = statSync(join(dir, name)).size;
    } catch (error) {
      throw manifest.fault(path, 'file is missing', name, (error as NodeJS.ErrnoException).code);
    }
    if (size !== bytes) throw manifest.fault([...path, 'bytes'], `size of ${name}`, bytes, size);
    if (!verifyChecksums) continue;
    const actual = createHash('sha256').update(readFileSync(join(dir, name))).digest('hex');
    if (actual !== sha256) throw manifest.fault([...path, 'sha256'], `checksum of ${name}`, sha256, actual);
  }
  for (const [id, processor] of Object.entries(model.value.processors)) {
    for (const key of ['vocabulary', 'rules'] as const) {
      if (!existsSync(join(dir, processor[key]))) throw model.fault(['processors', id, key], 'file is missing', processor[key], 'nothing');
    }
  }
}
