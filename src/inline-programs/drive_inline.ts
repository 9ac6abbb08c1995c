import type { Kernels } from '../engine/model/kernels/create_kernels.ts';
import type { LogprobRecomputeKernel, LogprobRecomputeState } from '../engine/model/kernels/logprob_recompute.ts';
import type { EncoderChunkState } from '../engine/model/kernels/encoder_chunk.ts';
import type { VaeTileEncodeState } from '../engine/model/kernels/vae_tile_encode.ts';
import type { StartBankState } from '../engine/model/kernels/start_bank.ts';
import type { ModelSpec } from '../engine/model/spec/model_spec.ts';
import { disaggregate, type DisaggregatedProgram } from '../engine/programs/disaggregate.ts';
import { InlineGraph } from '../engine/programs/InlineGraph.ts';
import { item } from '../engine/programs/inline_ports.ts';
import type { InlineEdge, InlineLibrary, InlineOffer, InlineSpec } from '../engine/programs/inline_spec.ts';
import { SegueError } from '../protocol/errors.ts';
import type { ContinuationModel, PromptLanguage, ScenePlan } from '../realtime-programs/continuation_model.ts';
import { continuationModel, type ContinuationSource } from '../realtime-programs/drive_model.ts';
import { bindingContext } from '../engine/model/binding_context.ts';
import { ActionConditionNode } from './nodes/ActionConditionNode.ts';
import { DirectorNode } from './nodes/DirectorNode.ts';
import { FrameNode } from './nodes/FrameNode.ts';
import { FramesNode } from './nodes/FramesNode.ts';
import { OnceNode } from './nodes/OnceNode.ts';
import { VideoNode } from './nodes/VideoNode.ts';
import { logprobSink, mediaSink, textSink } from './sinks.ts';
import { tensorBundles } from './tensor_bundles.ts';

/** Text → reasoning text → scene → action-steered video → sound and pixels, over one instance. */
export const REASON_THEN_GENERATE: InlineSpec = {
  programId: 'reason_then_generate',
  requires: ['reasoning_text', 'text_to_video', 'text_to_audio', 'action_conditioning', 'vae_decode'],
  inputs: { prompt: { kind: 'text', type: 'prompt' }, chunks: { kind: 'control', type: 'count' }, actions: { kind: 'control', type: 'actions' } },
  nodes: {
    director: { kind: 'model_loop', loopKind: 'ar_decode' },
    encoder: { kind: 'model_loop', loopKind: 'encoder_chunk' },
    start: { kind: 'model_loop', loopKind: 'start_bank' },
    action: { kind: 'condition', condition: 'action_condition' },
    video: { kind: 'model_loop', loopKind: 'video_continuation' },
    sound: { kind: 'model_loop', loopKind: 'audio' },
    picture: { kind: 'model_loop', loopKind: 'vae_tile_decode' },
    textOut: { kind: 'stream', stream: 'text' },
    mediaOut: { kind: 'stream', stream: 'media' },
  },
  edges: [
    { kind: 'text', from: 'input.prompt', to: 'director.prompt' },
    { kind: 'stream', from: 'director.words', to: 'textOut.words' },
    { kind: 'control', from: 'director.scene', to: 'encoder.scene' },
    { kind: 'control', from: 'director.scene', to: 'start.scene' },
    { kind: 'tensor', from: 'encoder.prompt', to: 'video.prompt' },
    { kind: 'tensor', from: 'start.latents', to: 'video.start' },
    { kind: 'control', from: 'input.chunks', to: 'video.chunks' },
    { kind: 'control', from: 'input.actions', to: 'action.actions' },
    { kind: 'tensor', from: 'action.conditioning', to: 'video.actions' },
    { kind: 'tensor', from: 'video.latents', to: 'picture.latents' },
    { kind: 'tensor', from: 'video.latents', to: 'sound.latents' },
    { kind: 'stream', from: 'picture.pictures', to: 'mediaOut.pictures' },
    { kind: 'stream', from: 'sound.samples', to: 'mediaOut.samples' },
  ],
};

const ROLES: Readonly<Record<string, string>> = { director: 'encode', encoder: 'encode', start: 'encode', video: 'denoise', sound: 'decode', picture: 'decode' };

/** The same in three pools of executors: what understands and encodes, what denoises, what decodes. */
export const REASON_THEN_GENERATE_DISAGGREGATED: InlineSpec = {
  ...REASON_THEN_GENERATE,
  programId: 'reason_then_generate_disaggregated',
  nodes: Object.fromEntries(Object.entries(REASON_THEN_GENERATE.nodes).map(([name, node]) => [name, ROLES[name] === undefined ? node : { ...node, placement: { role: ROLES[name] } }])),
};

/**
 * The same from a picture: what it shows is read, the words change that, and the story goes on from the picture itself.
 * Input `image`: RGB of the model's size, row by row.
 */
export const PICTURE_THEN_GENERATE: InlineSpec = {
  programId: 'picture_then_generate',
  requires: [...REASON_THEN_GENERATE.requires, 'image_to_video'],
  inputs: { ...REASON_THEN_GENERATE.inputs, image: { kind: 'tensor', type: 'picture' } },
  nodes: { ...REASON_THEN_GENERATE.nodes, start: { kind: 'model_loop', loopKind: 'vae_tile_encode' } },
  edges: [
    { kind: 'tensor', from: 'input.image', to: 'start.picture' },
    { kind: 'control', from: 'start.shown', to: 'director.shown' },
    ...REASON_THEN_GENERATE.edges.filter(({ to }: InlineEdge) => to !== 'start.scene'),
  ],
};

/** Input `frames` of the programs that are given a video: one item a chunk, RGB of each of its frames, of the model's size, row by row. */
export type VideoFrames = Iterable<readonly SharedArrayBuffer[]> | AsyncIterable<readonly SharedArrayBuffer[]>;

const GIVEN_VIDEO = {
  requires: [...PICTURE_THEN_GENERATE.requires, 'video_to_video'],
  inputs: {
    prompt: { kind: 'text', type: 'prompt' },
    /** What the words change: a picture out of the video. */
    look: { kind: 'tensor', type: 'picture' },
    frames: { kind: 'stream', type: 'frames' },
    actions: { kind: 'control', type: 'actions' },
  },
  edges: [
    { kind: 'tensor', from: 'input.look', to: 'look.picture' },
    { kind: 'control', from: 'look.shown', to: 'director.shown' },
    ...REASON_THEN_GENERATE.edges.filter(({ from, to }: InlineEdge) => from !== 'input.chunks' && !to.startsWith('start.') && to !== 'video.start'),
  ],
} as const satisfies Partial<InlineSpec>;
const { start: _start, ...WITHOUT_START } = REASON_THEN_GENERATE.nodes;
const FRAMES = { kind: 'model_loop', loopKind: 'vae_tile_encode', role: 'frames' } as const;
const LOOK = { kind: 'model_loop', loopKind: 'vae_tile_encode' } as const;

/** Goes on from a clip: its chunks are written as what came before, under the same words and actions, and `chunks` more are made. Only those come out. */
export const CONTINUE_FROM_VIDEO: InlineSpec = {
  programId: 'continue_from_video',
  requires: GIVEN_VIDEO.requires,
  inputs: { ...GIVEN_VIDEO.inputs, chunks: { kind: 'control', type: 'count' } },
  nodes: { ...WITHOUT_START, look: LOOK, clip: FRAMES, video: { kind: 'model_loop', loopKind: 'video_continuation', role: 'clip' } },
  edges: [
    ...GIVEN_VIDEO.edges,
    { kind: 'stream', from: 'input.frames', to: 'clip.frames' },
    { kind: 'tensor', from: 'clip.latents', to: 'video.clip' },
    { kind: 'control', from: 'input.chunks', to: 'video.chunks' },
  ],
};

/**
 * A video as the words say, chunk by chunk as it comes: each chunk is recoloured like the scene, noised to `strength`, and denoised after what was made of the
 * chunks before. What is where stays; the less so the more `strength` there is. 0.5 is the model's second step alone; at 1 only the words are left.
 */
export const TRANSFORM_VIDEO: InlineSpec = {
  programId: 'transform_video',
  requires: GIVEN_VIDEO.requires,
  inputs: { ...GIVEN_VIDEO.inputs, strength: { kind: 'control', type: 'strength' } },
  nodes: { ...WITHOUT_START, look: LOOK, like: { kind: 'model_loop', loopKind: 'start_bank' }, incoming: FRAMES, video: { kind: 'model_loop', loopKind: 'video_continuation', role: 'incoming' } },
  edges: [
    ...GIVEN_VIDEO.edges,
    { kind: 'control', from: 'director.scene', to: 'like.scene' },
    { kind: 'tensor', from: 'like.latents', to: 'incoming.like' },
    { kind: 'control', from: 'input.strength', to: 'incoming.strength' },
    { kind: 'stream', from: 'input.frames', to: 'incoming.frames' },
    { kind: 'tensor', from: 'incoming.latents', to: 'video.incoming' },
  ],
};

/** Log-probabilities of sampled tokens under the served weights: what a learner asks of the policy that serves. */
export const LOGPROB_RECOMPUTE: InlineSpec = {
  programId: 'logprob_recompute',
  requires: ['logprob_recompute'],
  inputs: { sampled: { kind: 'text', type: 'sampled_tokens' } },
  nodes: { logprob: { kind: 'model_loop', loopKind: 'logprob_recompute' }, out: { kind: 'stream', stream: 'logprobs' } },
  edges: [
    { kind: 'text', from: 'input.sampled', to: 'logprob.sampled' },
    { kind: 'stream', from: 'logprob.logprobs', to: 'out.logprobs' },
  ],
};

/** Input `sampled` of {@link LOGPROB_RECOMPUTE}. */
export interface SampledTokens {
  /** What was continued. */
  readonly prompt: readonly number[];
  readonly tokens: readonly number[];
}

export type InlineSource = ContinuationSource & Pick<ModelSpec, 'capabilities' | 'actions'>;

/** A model's loops as nodes of inline programs, and what it offers to them. */
export interface DriveInline {
  readonly model: ContinuationModel;
  readonly library: InlineLibrary;
  readonly offer: InlineOffer;
  /** @throws {TypeError} naming what the program wants and the model lacks. */
  program(spec: InlineSpec): InlineGraph;
  /** The same over pools of executors. @throws {TypeError} besides for a loop without a role, or an edge that can't be cut. */
  disaggregated(spec: InlineSpec): DisaggregatedProgram;
}

export function driveInline(source: InlineSource, kernels: Kernels, language: PromptLanguage): DriveInline {
  const model = continuationModel(source, kernels, language);
  const { loops, components } = model;
  const nodes = [
    new DirectorNode(model),
    new OnceNode({
      loopKind: loops.encoder.kind,
      component: components.encoder,
      input: ['scene', { kind: 'control', type: 'scene' }],
      outputs: { prompt: { kind: 'tensor', type: 'prompt' } },
      alive: 2,
      bind: (scene, seed) => loops.encoder.initState({ ids: language.encode(scene as ScenePlan) }, bindingContext(seed)),
      results: (loop) => [{ port: 'prompt', item: item((loop as EncoderChunkState).encoded, { blocks: loop.blocks }) }],
    }),
    new OnceNode({
      loopKind: loops.start.kind,
      component: components.start,
      input: ['scene', { kind: 'control', type: 'scene' }],
      outputs: { latents: { kind: 'tensor', type: 'start_latents' } },
      alive: 2,
      bind: (scene, seed) => loops.start.initState({ index: language.bankIndex(scene as ScenePlan) }, bindingContext(seed)),
      results: (loop) => [{ port: 'latents', item: item((loop as StartBankState).latents, { blocks: loop.blocks }) }],
    }),
    new VideoNode(model, 'start'),
    FrameNode.picture(model),
    FrameNode.sound(model),
    ...pictureNode(model),
    ...logprobNode(source, kernels.logprob_recompute),
  ];
  const library: InlineLibrary = {
    loops: { ...Object.fromEntries(nodes.map((node) => [node.loopKind, node])), ...videoNodes(model) } as InlineLibrary['loops'],
    conditions: { action_condition: new ActionConditionNode(source.actions) } as InlineLibrary['conditions'] & {},
    sinks: { text: textSink, media: mediaSink(model.format), logprobs: logprobSink } as InlineLibrary['sinks'],
    tensors: tensorBundles(source, model.components),
  };
  const offer: InlineOffer = {
    loopKinds: Object.keys(kernels),
    components: Object.keys(source.components),
    capabilities: Object.keys(source.capabilities),
    loops: Object.fromEntries(Object.entries(source.loops).map(([id, { kind, cache }]) => [kind, { id, cache }])),
  };
  return { model, library, offer, program: (spec) => new InlineGraph(spec, library, offer, model.bytesOf), disaggregated: (spec) => disaggregate(spec, library, offer, model.bytesOf) };
}

function pictureNode({ image, language }: ContinuationModel): OnceNode[] {
  if (image === null) return [];
  return [
    new OnceNode({
      loopKind: image.loop.kind,
      component: image.component,
      input: ['picture', { kind: 'tensor', type: 'picture' }],
      outputs: { latents: { kind: 'tensor', type: 'start_latents' }, shown: { kind: 'control', type: 'scene' } },
      alive: 2,
      bind: (picture, seed) => bound('image', () => image.loop.initState({ image: picture as SharedArrayBuffer }, bindingContext(seed))),
      results: (loop) => {
        const { latents, plan } = loop as VaeTileEncodeState;
        return [{ port: 'latents', item: item(latents, { blocks: loop.blocks }) }, { port: 'shown', item: item(language.planOfEntry(plan.entry!)) }];
      },
    }),
  ];
}

/** Nodes of programs that are given a video, by loop and role. */
function videoNodes(model: ContinuationModel): Readonly<Record<string, unknown>> {
  const { image, loops } = model;
  if (image === null) return {};
  return {
    [`${image.loop.kind}/frames`]: new FramesNode(image),
    [`${loops.video.kind}/clip`]: new VideoNode(model, 'clip'),
    [`${loops.video.kind}/incoming`]: new VideoNode(model, 'incoming'),
  };
}

/** What an input's loop can't be begun with is the caller's mistake. */
function bound<State>(param: string, begin: () => State): State {
  try {
    return begin();
  } catch (error) {
    throw new SegueError('bad_request', error instanceof Error ? error.message : String(error), { param, cause: error });
  }
}

function logprobNode({ loops }: InlineSource, kernel: LogprobRecomputeKernel | undefined): OnceNode[] {
  const component = Object.values(loops).find(({ kind }) => kind === 'logprob_recompute')?.components[0];
  if (kernel === undefined || component === undefined) return [];
  return [
    new OnceNode({
      loopKind: kernel.kind,
      component,
      input: ['sampled', { kind: 'text', type: 'sampled_tokens' }],
      outputs: { logprobs: { kind: 'stream', type: 'logprobs' } },
      alive: 0,
      bind: (sampled, seed) => bound('sampled', () => kernel.initState(sampled as SampledTokens, bindingContext(seed))),
      results: (loop) => [{ port: 'logprobs', item: item((loop as LogprobRecomputeState).plan.logprobs) }],
    }),
  ];
}
