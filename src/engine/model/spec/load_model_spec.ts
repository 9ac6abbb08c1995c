import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { loadAdapter } from '../adapters/load_adapter.ts';
import type { Adapter } from './adapter_spec.ts';
import { deepFreeze } from './authoring_file.ts';
import { readAuthoredModel } from './authored_model.ts';
import { checkFiles } from './check_files.ts';
import { crossCheck, type AuthoredModel } from './cross_check.ts';
import type { ModelSpec } from './model_spec.ts';

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
  const authored = readAuthoredModel(dir);
  crossCheck(authored);
  checkFiles(dir, authored, verifyChecksums);
  const { model, loops, parallel, programs, deployment, checkpoint, variantId } = authored;
  const { modelId, family, format, framesPerChunk, variants, components, capabilities, processors, caches, actions = {} } = model.value;
  return deepFreeze({
    modelDir: dir,
    modelId,
    family,
    format,
    framesPerChunk,
    actions,
    variantId,
    variant: variants[variantId]!,
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

/** Their files have been checked by size and checksum. @throws {SpecError} for one that isn't what the manifest lets it be. */
export function loadAdapters(dir: string, { model, loops, checkpoint, manifest }: AuthoredModel): Record<string, Adapter> {
  const adapted = Object.values(loops.value.loops).find((loop) => loop.adapted !== undefined)?.adapted?.[0];
  const entries = Object.entries(model.value.adapters ?? {}).map(([id, spec]) => {
    const source = { id, spec, sha256: checkpoint.files[spec.file]!.sha256, compatibility: manifest.value.adapter_compatibility!, inputs: model.value.components[adapted!]!.inputs };
    return [id, loadAdapter(source, readFileSync(join(dir, spec.file)))] as const;
  });
  return Object.fromEntries(entries);
}
