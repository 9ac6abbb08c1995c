/** `drive`'s own kernels over a device without tensors: what is planned is real, what is computed is scripted, so that timing can be exact. */
import { createKernels, type Kernels } from '../../../src/engine/model/kernels/create_kernels.ts';
import { shapeKeyOf } from '../../../src/engine/model/spec/component_spec.ts';
import { loadModelSpec } from '../../../src/engine/model/spec/load_model_spec.ts';
import type { Adapter } from '../../../src/engine/model/spec/adapter_spec.ts';
import type { ModelSpec } from '../../../src/engine/model/spec/model_spec.ts';
import type { PlannedUnit } from '../../../src/engine/model/work.ts';
import type { LoadedModel } from '../../../src/engine/workers/Worker.ts';
import { SegueError } from '../../../src/protocol/errors.ts';
import type { PromptLanguage } from '../../../src/realtime-programs/continuation_model.ts';
import { continuationModel } from '../../../src/realtime-programs/drive_model.ts';
import { VideoContinuation } from '../../../src/realtime-programs/VideoContinuation.ts';

const SPEC = loadModelSpec(new URL('../../../models/drive', import.meta.url).pathname, { verifyChecksums: false });

/** Nothing is computed, so they hold nothing. */
export const ADAPTERS: Readonly<Record<string, Adapter>> = Object.fromEntries(
  ['noir', 'glow'].map((id) => {
    const empty = new SharedArrayBuffer(0);
    return [id, { id, title: id.toUpperCase(), file: `adapters/${id}.safetensors`, kind: 'lora', version: `sha-of-${id}`, rank: 8, tensors: { attention_down: empty, attention_up: empty, feedforward_down: empty, feedforward_up: empty } }];
  }),
);

/** Milliseconds of one unit alone, near what a core takes. */
export const UNIT_MS: Readonly<Record<string, number>> = { director_prefill: 1.2, director_step: 0.7, text_encoder: 1, start_bank: 0.2, denoise_step: 5, clean_write: 5, vae_decode: 6.5, audio_synth: 0.6, director_logprob: 1.3, vae_encode: 9, video_encode: 9, denoise_step_adapted: 5.5, clean_write_adapted: 5.5 };

export interface ScriptedModel {
  readonly spec: Pick<ModelSpec, 'modelId' | 'format' | 'framesPerChunk' | 'components' | 'loops' | 'capabilities' | 'adapters' | 'actions'>;
  readonly kernels: Kernels;
  readonly program: VideoContinuation;
  readonly loaded: LoadedModel;
}

/**
 * @param steps denoise steps of a chunk. With more than two, a chunk in flight can be steered.
 * @param reduces whether it may be served in one step.
 * @param speed how many times faster than {@link UNIT_MS} the device is.
 */
export function scriptedModel(steps = 2, speed = 1, reduces = steps > 1): ScriptedModel {
  const video = SPEC.loops['video_continuation']!;
  const { reducedSteps: _, ...declared } = video.denoise!;
  const denoise = { ...declared, steps, ...(reduces ? { reducedSteps: 1 } : {}), windowChunks: 7 };
  const loops = { ...SPEC.loops, video_continuation: { ...video, denoise } };
  const spec = { modelId: SPEC.modelId, format: SPEC.format, framesPerChunk: SPEC.framesPerChunk, components: SPEC.components, loops, capabilities: SPEC.capabilities, adapters: ADAPTERS, actions: SPEC.actions };
  const kernels = createKernels(spec);
  const cost = Object.entries(UNIT_MS).flatMap(([component, ms]) => [1, 2, 4].map((batch) => ({ component, shapeKey: shapeKeyOf(component, SPEC.components[component]!), batch, p50Ms: batchMs(ms / speed, batch), p95Ms: batchMs(ms / speed, batch) })));
  return { spec, kernels, program: new VideoContinuation(continuationModel(spec, kernels, LANGUAGE)), loaded: { modelId: spec.modelId, weightsVersion: 'scripted', fingerprint: 'virtual', cost } };
}

/** Joining gains a fifth at four, as measured. */
export function batchMs(ms: number, batch: number): number {
  return ms * (batch - 0.06 * batch * (batch - 1));
}

// A language of numbers: "scene 3" plans place 3 and tells two words about it.
const SEP = 7;
const END = 9;
const SAID = [11, 12];
const PLAN_BASE = 20;

export const LANGUAGE: PromptLanguage = {
  vocabulary: ['scene'],
  endIds: [END],
  maxTokens: 8,
  choose: (seed) => ({ place: seed % 5 }),
  parse: (prompt) => {
    const places = [...prompt.matchAll(/\d/g)].map(([digit]) => Number(digit) % 10);
    if (places.length === 0) throw new SegueError('prompt_not_understood', 'no scene is named', { param: 'prompt' });
    return { edits: places.map(String), changes: { place: places.at(-1)! }, warnings: [] };
  },
  directorIds: (plan, edit) => [1, PLAN_BASE + plan['place']!, SEP, PLAN_BASE + Number(edit)],
  read: (tokens) => {
    const middle = tokens.indexOf(SEP);
    return middle < 0 ? { plan: null, narration: '' } : { plan: { place: tokens[middle - 1]! - PLAN_BASE }, narration: tokens.slice(middle + 1).filter((id) => id !== END).join(' ') };
  },
  say: (tokens) => tokens.filter((id) => id !== END).join(' '),
  describe: (plan) => `scene ${plan['place']}`,
  named: (plan) => ({ place: String(plan['place']) }),
  fromNamed: (plan) => Object.fromEntries(Object.entries(plan).map(([name, value]) => [name, Number(value)])),
  encode: (plan) => Array.from({ length: 12 }, (_, index) => (index === 0 ? 1 : PLAN_BASE + plan['place']!)),
  bankIndex: (plan) => plan['place']!,
  planOfEntry: (index) => ({ place: index }),
};

/** A picture of the model's size, and what the scripted model sees in every picture. */
export const IMAGE = new SharedArrayBuffer(SPEC.format.width * SPEC.format.height * 3);
export const SHOWN_PLACE = 4;

/** What the graphs would say: the director answers its question, one token after the other. */
export function scriptedValues({ kernel, plan }: PlannedUnit): Readonly<Record<string, Float32Array>> {
  if (kernel === 'vae_tile_encode') return { entry: Float32Array.of(SHOWN_PLACE) };
  if (kernel === 'logprob_recompute') return { logprobs: new Float32Array(39).fill(-1) };
  if (kernel !== 'ar_decode') return {};
  const { prompt, tokens } = plan.state as { prompt: readonly number[]; tokens: readonly number[] };
  const answer = [prompt.at(-1)!, SEP, ...SAID, END];
  const logits = new Float32Array(32);
  logits[answer[tokens.length]!] = 1;
  return { logits };
}
