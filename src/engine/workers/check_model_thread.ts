/** Entry of the thread that checks a model directory. Started by `checkModel`; answers once and ends. */
import { parentPort, workerData } from 'node:worker_threads';
import { loadModelSpec } from '../model/spec/load_model_spec.ts';
import { languageDigest } from '../model/spec/replaceable_weights.ts';
import { SpecError } from '../model/spec/spec_error.ts';
import type { ModelCheck } from './check_model.ts';

const { modelDir } = workerData as { readonly modelDir: string };

function check(): ModelCheck {
  try {
    const spec = loadModelSpec(modelDir);
    return { model: { spec, language: languageDigest(spec) } };
  } catch (error) {
    return error instanceof SpecError ? { faults: error.faults } : { message: error instanceof Error ? error.message : String(error) };
  }
}

parentPort!.postMessage(check());
