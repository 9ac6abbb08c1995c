import { loadModelSpec } from '../model/spec/load_model_spec.ts';
import { OnnxWorker, type OnnxWorkerOptions } from './OnnxWorker.ts';
import type { LoadedModel } from './Worker.ts';

export interface Executors {
  readonly workers: readonly OnnxWorker[];
  /** Of the first worker; all of them loaded the same weights on the same machine. */
  readonly model: LoadedModel;
}

/**
 * One executor thread per device share that `deployment.yaml` declares. Loaded one after another, so that measuring one doesn't slow another.
 *
 * @throws {SpecError} the model can't be loaded; whatever was opened is closed again.
 */
export async function openExecutors(modelDir: string, options: Omit<OnnxWorkerOptions, 'id'>): Promise<Executors> {
  const { deployment } = loadModelSpec(modelDir, { verifyChecksums: false });
  const workers = Array.from({ length: deployment.devices }, (_, index) => new OnnxWorker({ ...options, id: `executor-${index}` }));
  try {
    const models: LoadedModel[] = [];
    for (const worker of workers) models.push(await worker.loadModel(modelDir));
    return { workers, model: models[0]! };
  } catch (error) {
    await Promise.all(workers.map((worker) => worker.close()));
    throw error;
  }
}
