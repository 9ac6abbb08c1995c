import assert from 'node:assert/strict';
import { test } from 'node:test';
import { loadModelSpec } from '../../../src/engine/model/spec/load_model_spec.ts';
import { InlineGraph } from '../../../src/engine/programs/InlineGraph.ts';
import type { InlineSpec } from '../../../src/engine/programs/inline_spec.ts';
import { CONTINUE_FROM_VIDEO, driveInline, LOGPROB_RECOMPUTE, PICTURE_THEN_GENERATE, REASON_THEN_GENERATE, TRANSFORM_VIDEO } from '../../../src/inline-programs/drive_inline.ts';
import { LANGUAGE, scriptedModel } from '../../interruption/virtual/scripted_model.ts';

const { spec: model, kernels } = scriptedModel();
const DRIVE = driveInline(model, kernels, LANGUAGE);
const { nodes, edges } = REASON_THEN_GENERATE;

const fault = (change: Partial<InlineSpec>, drive = DRIVE): string => {
  try {
    drive.program({ ...REASON_THEN_GENERATE, ...change });
  } catch (error) {
    assert.ok(error instanceof TypeError, String(error));
    return error.message;
  }
  return '';
};
const replaced = (from: string, to: string, edge: Partial<(typeof edges)[number]>) => edges.map((other) => (other.from === from && other.to === to ? { ...other, ...edge } : other));

test('the forcing case is a program of the shipped model, and its spec names every loop and stream', () => {
  const { spec } = DRIVE.program(REASON_THEN_GENERATE);
  assert.equal(spec.kind, 'inline');
  assert.deepEqual(Object.entries(spec.nodes).flatMap(([name, node]) => (node.kind === 'model_loop' ? [`${name}: ${node.loopKind} on ${node.components.join(', ')}`] : [])), [
    'director: ar_decode on director_prefill, director_step',
    'encoder: encoder_chunk on text_encoder',
    'start: start_bank on start_bank',
    'video: video_continuation on denoise_step, clean_write',
    'sound: audio on audio_synth',
    'picture: vae_tile_decode on vae_decode',
  ]);
  assert.deepEqual([...new Set(spec.edges.map(({ kind }) => kind))].sort(), ['control', 'stream', 'tensor']);
});

test('what programs.yaml declares is what the programs are', () => {
  const { programs } = loadModelSpec(new URL('../../../models/drive', import.meta.url).pathname, { verifyChecksums: false });
  for (const program of [REASON_THEN_GENERATE, PICTURE_THEN_GENERATE, CONTINUE_FROM_VIDEO, TRANSFORM_VIDEO, LOGPROB_RECOMPUTE]) {
    const { kind, requires, loops } = programs[program.programId]!;
    assert.equal(kind, 'inline');
    assert.deepEqual(requires, program.requires);
    assert.deepEqual(loops, Object.fromEntries(Object.entries(program.nodes).flatMap(([name, node]) => (node.kind === 'model_loop' ? [[name, node.loopKind]] : []))));
  }
});

test('what can not run is refused before any of it runs, and the fault says where and what was wanted', () => {
  assert.match(fault({ nodes: { ...nodes, video: { kind: 'model_loop', loopKind: 'diffusion_denoise' } } }), /^program reason_then_generate: node video: unknown loop diffusion_denoise, there are .*video_continuation/);
  assert.match(fault({ requires: ['text_to_image'] }), /requires: the model lacks text_to_image, it has text_to_video/);
  assert.match(fault({ edges: edges.filter(({ to }) => to !== 'video.start') }), /node video: input start \(tensor of start_latents\) takes one edge, has none/);
  assert.match(fault({ edges: [...edges, { kind: 'tensor', from: 'video.latents', to: 'video.start' }] }), /edge video\.latents → video\.start: tensor of latents can't go where tensor of start_latents is taken/);
  assert.match(fault({ edges: [...edges, { kind: 'tensor', from: 'encoder.prompt', to: 'video.prompt' }] }), /node video: input prompt .* takes one edge, has encoder\.prompt, encoder\.prompt/);
  assert.match(fault({ edges: replaced('director.scene', 'encoder.scene', { from: 'director.words', kind: 'stream' }) }), /edge director\.words → encoder\.scene: stream of words can't go where control of scene is taken/);
  assert.match(fault({ edges: replaced('encoder.prompt', 'video.prompt', { kind: 'control' }) }), /edge encoder\.prompt → video\.prompt: declared as control, its ports are tensor of prompt/);
  assert.match(fault({ edges: replaced('encoder.prompt', 'video.prompt', { from: 'poet.prompt' }) }), /no node poet, there are input, director/);
  assert.match(fault({ edges: replaced('encoder.prompt', 'video.prompt', { to: 'video.style' }) }), /video has no input style, it has prompt, start, chunks, actions/);
  assert.match(fault({ nodes: { ...nodes, again: { kind: 'stream', stream: 'text' } }, edges: [...edges, { kind: 'stream', from: 'director.words', to: 'again.words' }] }), /node director: stream words can go one way, goes to textOut\.words, again\.words/);
  assert.match(fault({ nodes: { ...nodes, input: { kind: 'stream', stream: 'text' } } }), /node input: the name stands for the inputs/);
  assert.match(fault({ nodes: { ...nodes, audioOut: { kind: 'stream', stream: 'audio' } } }), /node audioOut: unknown stream audio, there are text, media, logprobs/);
  const { audio: _, ...silent } = kernels;
  assert.throws(() => driveInline(model, silent, LANGUAGE), /no loop of kind audio/);
});

test('two nodes that wait for each other are refused', () => {
  const ring: InlineSpec = {
    programId: 'ring',
    requires: [],
    inputs: {},
    nodes: { a: { kind: 'model_loop', loopKind: 'ring' }, b: { kind: 'model_loop', loopKind: 'ring' }, out: { kind: 'stream', stream: 'text' } },
    edges: [
      { kind: 'tensor', from: 'a.out', to: 'b.in' },
      { kind: 'tensor', from: 'b.out', to: 'a.in' },
      { kind: 'stream', from: 'a.said', to: 'out.words' },
    ],
  };
  const { library, offer, model: { bytesOf } } = DRIVE;
  const port = { kind: 'tensor', type: 'x' } as const;
  const node = { ...library.loops['ar_decode']!, loopKind: 'ring', components: [], inputs: { in: port }, outputs: { out: port, said: { kind: 'stream', type: 'words' } } } as unknown as NonNullable<(typeof library.loops)[string]>;
  const wide = { ...offer, loopKinds: [...offer.loopKinds, 'ring'] };
  assert.throws(() => new InlineGraph(ring, { ...library, loops: { ring: node } }, wide, bytesOf), /program ring: cycle a → b → a/);
});
