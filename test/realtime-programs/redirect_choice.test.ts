import assert from 'node:assert/strict';
import { test } from 'node:test';
import { changeOptions, type ChoiceQuestion, type ChunkProgress } from '../../src/realtime-programs/redirect_choice.ts';

const COMPONENTS = { directorPrefill: 'prefill', directorStep: 'step', encoder: 'encoder', start: 'start', denoise: 'denoise', write: 'write', picture: 'picture', sound: 'sound' };
const MS: Readonly<Record<string, number>> = { denoise: 10, write: 4, picture: 6, sound: 1 };
const chunk = (changes: Partial<ChunkProgress> = {}): ChunkProgress => ({ stepsDone: 1, stepsLeft: 3, noise: 0.75, seeded: false, ready: false, framesLeft: 2, ...changes });
const options = (changes: Partial<ChoiceQuestion>) => changeOptions({ fenced: true, chunk: null, steps: 4, steerUntil: 0.5, writePending: false, ...changes }, COMPONENTS, (component) => MS[component]!);

test('after a fence a chunk that is noisy enough is steered: it is nearer than a new one', () => {
  assert.deepEqual(options({ chunk: chunk() }), [
    { how: 'steer', predictedMs: 37 },
    { how: 'restart', predictedMs: 47 },
  ]);
});

test('a chunk at or below the model\'s level can not be steered any more', () => {
  assert.deepEqual(options({ chunk: chunk({ stepsDone: 2, stepsLeft: 2, noise: 0.5 }) }).map(({ how }) => how), ['restart']);
  assert.deepEqual(options({ chunk: chunk({ ready: true, stepsDone: 4, stepsLeft: 0, noise: 0 }) }).map(({ how }) => how), ['restart']);
});

test('a chunk that has not begun has nothing to steer', () => {
  assert.deepEqual(options({ chunk: null, writePending: true }), [{ how: 'restart', predictedMs: 51 }]);
});

test('without a fence old frames flow on: steer, or continue with the next chunk, but never restart', () => {
  assert.deepEqual(options({ fenced: false, chunk: chunk() }), [
    { how: 'steer', predictedMs: 37 },
    { how: 'continue', predictedMs: 30 + 14 + 4 + 47 },
  ]);
  assert.deepEqual(options({ fenced: false, chunk: null, writePending: true }), [{ how: 'continue', predictedMs: 51 }]);
});

test('start frames can neither be steered nor made anew: they are shown on', () => {
  assert.deepEqual(options({ chunk: chunk({ seeded: true, ready: true, stepsDone: 4, stepsLeft: 0, noise: 0, framesLeft: 1 }) }), [{ how: 'continue', predictedMs: 7 + 4 + 47 }]);
});
