import assert from 'node:assert/strict';
import { test } from 'node:test';
import { validateProgram, type ProgramSpec } from '../../../src/engine/programs/ProgramSpec.ts';

const OFFER = { loopKinds: ['video_continuation', 'audio'], components: ['denoise', 'synth'] };

const spec = (changes: Partial<ProgramSpec> = {}): ProgramSpec => ({
  programId: 'p',
  kind: 'realtime',
  nodes: {
    video: { kind: 'model_loop', loopKind: 'video_continuation', components: ['denoise'] },
    sound: { kind: 'model_loop', loopKind: 'audio', components: ['synth'] },
    out: { kind: 'stream', stream: 'video' },
  },
  edges: [
    { kind: 'tensor', from: 'video', to: 'video', acrossChunks: true },
    { kind: 'tensor', from: 'video', to: 'sound' },
    { kind: 'stream', from: 'video', to: 'out' },
  ],
  ...changes,
});

test('a program over what the model has', () => {
  assert.doesNotThrow(() => validateProgram(spec(), OFFER));
});

test('faults name the program, the place and what there is', () => {
  assert.throws(() => validateProgram(spec(), { ...OFFER, loopKinds: ['audio'] }), /program p: node video: needs a loop of kind video_continuation, the model has audio/);
  assert.throws(() => validateProgram(spec(), { ...OFFER, components: ['denoise'] }), /node sound: needs component synth, the model has denoise/);
  assert.throws(() => validateProgram(spec({ nodes: { c: { kind: 'component', component: 'x' } }, edges: [] }), OFFER), /node c: needs component x/);
  assert.throws(() => validateProgram(spec({ edges: [{ kind: 'tensor', from: 'video', to: 'nowhere' }] }), OFFER), /edge video → nowhere: no node nowhere/);
});

test('a cycle within a chunk is a fault', () => {
  const edges = [
    { kind: 'tensor', from: 'video', to: 'sound' },
    { kind: 'control', from: 'sound', to: 'video' },
  ] as const;
  assert.throws(() => validateProgram(spec({ edges }), OFFER), /cycle video → sound → video/);
});
