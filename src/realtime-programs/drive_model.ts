import type { Kernels } from '../engine/model/kernels/create_kernels.ts';
import type { PromptProcessor } from '../engine/model/processors/PromptProcessor.ts';
import type { ModelSpec } from '../engine/model/spec/model_spec.ts';
import { unitBytes } from '../engine/model/spec/tensor_signature.ts';
import type { ContinuationModel, PromptLanguage } from './continuation_model.ts';

/** The part of a ModelSpec that a video continuation is made from. */
export type ContinuationSource = Pick<ModelSpec, 'modelId' | 'format' | 'framesPerChunk' | 'components' | 'loops'> & Partial<Pick<ModelSpec, 'adapters'>>;

/**
 * A model with the loops of a video continuation, as its program takes it.
 * @throws {TypeError} for a loop that is missing, or a policy that the program doesn't run.
 */
export function continuationModel(spec: ContinuationSource, kernels: Kernels, language: PromptLanguage): ContinuationModel {
  const need = <Kind extends keyof Kernels>(kind: Kind): NonNullable<Kernels[Kind]> => {
    const kernel = kernels[kind];
    if (kernel === undefined) throw new TypeError(`model ${spec.modelId} has no loop of kind ${kind}, which a video continuation needs`);
    return kernel;
  };
  const componentsOf = (kind: keyof Kernels): readonly string[] => Object.values(spec.loops).find((loop) => loop.kind === kind)?.components ?? [];
  const video = Object.values(spec.loops).find(({ kind }) => kind === 'video_continuation');
  const kvOnRedirect = video?.denoise?.kvOnRedirect ?? 'keep';
  if (kvOnRedirect !== 'keep') throw new TypeError(`model ${spec.modelId}: loops.video_continuation.denoise.kvOnRedirect is ${kvOnRedirect}, this program runs keep`);
  const loops = { director: need('ar_decode'), encoder: need('encoder_chunk'), start: need('start_bank'), video: need('video_continuation'), picture: need('vae_tile_decode'), sound: need('audio') };
  const [directorPrefill, directorStep] = componentsOf('ar_decode') as [string, string];
  const [denoise, write] = componentsOf('video_continuation') as [string, string];
  const [adaptedDenoise, adaptedWrite] = video?.adapted ?? [];
  return {
    format: spec.format,
    framesPerChunk: spec.framesPerChunk,
    steps: video!.denoise!.steps,
    reducedSteps: video!.denoise!.reducedSteps ?? null,
    windowChunks: video!.denoise!.windowChunks,
    steerUntil: video!.preemption.steerUntil ?? 1,
    loops,
    components: {
      directorPrefill,
      directorStep,
      encoder: componentsOf('encoder_chunk')[0]!,
      start: componentsOf('start_bank')[0]!,
      denoise,
      write,
      picture: componentsOf('vae_tile_decode')[0]!,
      sound: componentsOf('audio')[0]!,
      ...(adaptedDenoise === undefined || adaptedWrite === undefined ? {} : { adapted: { denoise: adaptedDenoise, write: adaptedWrite } }),
    },
    language,
    adapters: Object.values(spec.adapters ?? {}).map(({ id, title, version }) => ({ id, title, version })),
    image: kernels.vae_tile_encode === undefined ? null : { loop: kernels.vae_tile_encode, component: componentsOf('vae_tile_encode')[0]!, videoComponent: componentsOf('vae_tile_encode')[1]! },
    bytesOf: (component) => {
      const bytes = { kv: 0, activations: 0 };
      for (const output of Object.values(spec.components[component]!.outputs)) if (output.to === 'kv' || output.to === 'activations') bytes[output.to] += unitBytes(output);
      return bytes;
    },
  };
}

/** Most words of a plan with its narration: the director's context is 40, and half of it is the question. */
const MAX_DIRECTOR_TOKENS = 24;

/** `drive`'s prompt processor as the program's language. */
export function driveLanguage(processor: PromptProcessor): PromptLanguage {
  return {
    vocabulary: processor.words,
    endIds: processor.endIds,
    maxTokens: MAX_DIRECTOR_TOKENS,
    choose: (seed) => processor.attributesFromSeed(seed),
    parse: (prompt) => processor.parse(prompt),
    directorIds: (plan, edit) => processor.directorInput(plan, edit),
    read: (tokens) => {
      // What was said so far, as if it ended here: the plan is complete as soon as the separator after it is there.
      const spoken = processor.readDirector([...tokens, ...processor.endIds]);
      return { plan: spoken?.attributes ?? null, narration: spoken?.narration ?? '' };
    },
    say: (tokens) => processor.speech(tokens),
    describe: (plan) => processor.promptText(plan),
    named: (plan) => processor.named(plan),
    fromNamed: (plan) => processor.fromNamed(plan),
    encode: (plan) => processor.promptIds(plan),
    bankIndex: (plan) => processor.bankIndex(plan),
    planOfEntry: (index) => processor.attributesOfEntry(index),
  };
}
