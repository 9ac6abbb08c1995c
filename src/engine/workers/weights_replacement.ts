import { checkReplaceable, type CheckedModel } from '../model/spec/replaceable_weights.ts';
import { checkModel } from './check_model.ts';
import type { PreparedWeights, Worker } from './Worker.ts';

export interface WeightsReplacementOptions {
  readonly modelDir: string;
  /** As it was loaded first. */
  readonly serving: CheckedModel;
  /** In the order of the devices. */
  readonly workers: readonly Pick<Required<Worker>, 'prepare'>[];
}

/**
 * What a reload does off the path of live sessions: checks the directory in a thread of its own, compares it with what serves, and loads it beside that, on one
 * device after the other because each takes a core while it compiles. Null where the same weights lie there.
 * @returns a function that rejects with SpecError or `model_not_usable`; nothing of it is left then.
 */
export function weightsReplacement({ modelDir, serving: first, workers }: WeightsReplacementOptions): () => Promise<readonly PreparedWeights[] | null> {
  let serving = first;
  return async () => {
    const next = await checkModel(modelDir);
    if (next.spec.checkpoint.weightsVersion === serving.spec.checkpoint.weightsVersion) return null;
    checkReplaceable(serving, next);
    const prepared: PreparedWeights[] = [];
    try {
      for (const worker of workers) prepared.push(await worker.prepare(next.spec));
    } catch (error) {
      await Promise.all(prepared.map((one) => one.discard()));
      throw error;
    }
    return prepared.map((one) => ({
      ...one,
      take: () => {
        one.take();
        serving = next;
      },
    }));
  };
}
