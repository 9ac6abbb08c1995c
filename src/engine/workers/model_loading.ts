import { join } from 'node:path';
import { graphPath } from '../model/spec/load_model_spec.ts';
import type { ModelSpec } from '../model/spec/model_spec.ts';
import { SpecError } from '../model/spec/spec_error.ts';
import type { ExecutorOptions, FromExecutor } from './executor_messages.ts';
import type { LoadMessage } from './ExecutorThread.ts';
import { machineFingerprint } from './machine_fingerprint.ts';
import type { LoadedModel } from './Worker.ts';

/** What the deployment says, unless it is overridden. `spare`: whether there is to be a second thread. */
export function executorOptions({ deployment }: ModelSpec, override: Partial<ExecutorOptions>): ExecutorOptions {
  const { provider, intraOpThreads, calibrationRuns, spare } = deployment.executor;
  return {
    provider,
    intraOpThreads,
    batchInvariant: override.batchInvariant ?? deployment.batchInvariant,
    calibrationRuns: override.calibrationRuns ?? calibrationRuns,
    spare: override.spare ?? spare,
    testMode: override.testMode ?? false,
  };
}

export function loadMessage(spec: ModelSpec): LoadMessage {
  const { components, loops, format } = spec;
  const files = Object.keys(components).map((componentId) => ({ componentId, path: graphPath(spec, componentId) }));
  const adapters = Object.fromEntries(Object.values(spec.adapters).map(({ id, tensors }) => [id, tensors]));
  const inGraphs = Object.values(spec.checkpoint.components).flatMap(({ file, shared }) => [file, ...(shared === null ? [] : [shared])]);
  const checked = [...new Set(inGraphs)].map((name) => ({ path: join(spec.modelDir, name), sha256: spec.checkpoint.files[name]!.sha256 }));
  return { type: 'load', modelId: spec.modelId, source: { components, loops, format }, files, checked, adapters };
}

/** What the engine plans with. */
export function loadedModel(spec: ModelSpec, { provider, intraOpThreads, batchInvariant }: ExecutorOptions, { cost, runtime }: Extract<FromExecutor, { type: 'loaded' }>): LoadedModel {
  return { modelId: spec.modelId, weightsVersion: spec.checkpoint.weightsVersion, fingerprint: machineFingerprint({ runtime, provider, intraOpThreads, batchInvariant }), cost };
}

/** The graph itself contradicts the spec: found only when the runtime opens it. */
export function loadFault(spec: ModelSpec, componentId: string | null, message: string): Error {
  if (componentId === null) return new Error(`model ${spec.modelId} failed to load: ${message}`);
  const file = spec.checkpoint.components[spec.components[componentId]!.loadId]!.file;
  return new SpecError({ file, line: null, key: `components.${componentId}`, problem: 'graph cannot be loaded', expected: 'the graph that model.yaml describes', actual: message });
}
