import { Worker as Thread } from 'node:worker_threads';
import { SpecError, type SpecFault } from '../model/spec/spec_error.ts';
import type { CheckedModel } from '../model/spec/replaceable_weights.ts';

/** What the thread answers. */
export type ModelCheck = { readonly model: CheckedModel } | { readonly faults: readonly SpecFault[] } | { readonly message: string };

/** Reads and checks a whole model directory in a thread of its own: checksums of 30 MB would hold up whoever asks. @throws {SpecError} */
export function checkModel(modelDir: string): Promise<CheckedModel> {
  return new Promise((resolve, reject) => {
    const thread = new Thread(new URL('./check_model_thread.ts', import.meta.url), { workerData: { modelDir }, name: 'model check' });
    thread.once('message', (answer: ModelCheck) => {
      if ('model' in answer) resolve(answer.model);
      else reject('faults' in answer ? new SpecError(answer.faults[0]!, { faults: answer.faults }) : new Error(answer.message));
    });
    thread.once('error', reject);
    // After its answer this changes nothing.
    thread.once('exit', (code) => reject(new Error(`the model check ended with code ${code}`)));
  });
}
