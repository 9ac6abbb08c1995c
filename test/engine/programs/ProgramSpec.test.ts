import assert from 'node:assert/strict';
import { test } from 'node:test';
import { validateProgram, type ProgramSpec } from '../../../src/engine/programs/ProgramSpec.ts';

const OFFER = { loopKinds: ['video_continuation', 'audio'], components: ['denoise', 'synth'] };

const LOOP = { unit: 'denoise_step', interrupt: 'remade', redirect: 'steered', says: 'The chunk in flight is made anew.' } as const;

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
  interruption: { video: LOOP, sound: LOOP },
  ...changes,
});

test('a program over what the model has', () => {
  assert.doesNotThrow(() => validateProgram(spec(), OFFER));
});

test('faults name the program, the place and what there is', () => {
  assert.throws(() => validateProgram(spec(), { ...OFFER, loopKinds: ['audio'] }), /program p: node video: needs a loop of kind video_continuation, the model has audio/);
  assert.throws(() => validateProgram(spec(), { ...OFFER, components: ['denoise'] }), /node sound: needs component synth, the model has denoise/);
  assert.throws(() => validateProgram(spec({ nodes: { c: { kind: 'component', component: 'x' } }, edges: [], interruption: {} }), OFFER), /node c: needs component x/);
  assert.throws(() => validateProgram(spec({ edges: [{ kind: 'tensor', from: 'video', to: 'nowhere' }] }), OFFER), /edge video → nowhere: no node nowhere/);
});

test('a live program says what interruption means in each of its loops, and of nothing else', () => {
  assert.throws(() => validateProgram(spec({ interruption: { video: LOOP } }), OFFER), /node sound: a live program declares/);
  assert.throws(() => validateProgram(spec({ interruption: { video: LOOP, sound: LOOP, out: LOOP } }), OFFER), /interruption out: is no node that steps a loop/);
  assert.doesNotThrow(() => validateProgram(spec({ kind: 'inline', interruption: {} }), OFFER));
});

test('a cycle within a chunk is a fault', () => {
  const edges = [
    { kind: 'tensor', from: 'video', to: 'sound' },
    { kind: 'control', from: 'sound', to: 'video' },
  ] as const;
  assert.throws(() => validateProgram(spec({ edges }), OFFER), /cycle video → sound → video/);
});
