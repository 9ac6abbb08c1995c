import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { SegueError } from '../../../protocol/errors.ts';
import type { ModelSpec } from './model_spec.ts';

/** A model directory as it was checked: its spec, and a digest of the files that its prompt processors read, which the weights' checksums don't cover. */
export interface CheckedModel {
  readonly spec: ModelSpec;
  readonly language: string;
}

/** All of a spec that is compiled into programs, kernels and the control side's reading of prompts: only a restart changes it. */
const FIXED = ['modelId', 'family', 'format', 'framesPerChunk', 'actions', 'variantId', 'variant', 'components', 'loops', 'capabilities', 'processors', 'caches', 'parallelPlans', 'programs'] as const satisfies readonly (keyof ModelSpec)[];

export function languageDigest({ modelDir, processors }: Pick<ModelSpec, 'modelDir' | 'processors'>): string {
  const digest = createHash('sha256');
  for (const { vocabulary, rules } of Object.values(processors)) for (const file of [vocabulary, rules]) digest.update(readFileSync(join(modelDir, file)));
  return digest.digest('hex');
}

/** @throws {SegueError} `model_not_usable` where more than the weights is another, or stories can't go on behind other weights. */
export function checkReplaceable(serving: CheckedModel, next: CheckedModel): void {
  const changed: string[] = FIXED.filter((key) => !isDeepStrictEqual(serving.spec[key], next.spec[key]));
  const versions = ({ spec }: CheckedModel) => Object.fromEntries(Object.values(spec.adapters).map(({ id, version }) => [id, version]));
  if (!isDeepStrictEqual(versions(serving), versions(next))) changed.push('adapters');
  if (serving.language !== next.language) changed.push('vocabulary');
  if (changed.length > 0) throw new SegueError('model_not_usable', `only weights can be replaced while the server runs; restart it for another ${changed.join(', ')}`, { param: changed[0]! });
  const [id] = Object.entries(next.spec.loops).find(([, { denoise }]) => denoise !== undefined && denoise.kvOnReload !== 'keep') ?? [];
  if (id !== undefined) throw new SegueError('model_not_usable', `the keys and values that older weights wrote may not be kept (loops.${id}.denoise.kvOnReload): restart the server`, { param: `loops.${id}.denoise.kvOnReload` });
}
