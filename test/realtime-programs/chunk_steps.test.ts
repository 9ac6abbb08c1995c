import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stepsOfNextChunk } from '../../src/realtime-programs/chunk_steps.ts';

const MODEL = { steps: 4, reducedSteps: 2, previews: true };
const STORY = { reduced: false, incoming: null };
const WISH = { requestId: 'r', over: null };
const INCOMING = { waiting: null, like: null, encode: null, prompt: null, adapter: null, strength: 0.75 };

test('a chunk has all steps, but for the first that shows a redirect, and where there is no time', () => {
  assert.equal(stepsOfNextChunk(MODEL, STORY, null), 4);
  assert.equal(stepsOfNextChunk(MODEL, STORY, WISH), 2);
  assert.equal(stepsOfNextChunk(MODEL, { ...STORY, reduced: true }, null), 2);
});

test('what nobody waits for has all steps: the first scene, a change by degrees, and where previews are off', () => {
  assert.equal(stepsOfNextChunk(MODEL, STORY, { ...WISH, requestId: null }), 4);
  assert.equal(stepsOfNextChunk(MODEL, STORY, { ...WISH, over: 6 }), 4);
  assert.equal(stepsOfNextChunk({ ...MODEL, previews: false }, STORY, WISH), 4);
});

test('a model that declares no fewer steps, and a video that comes in, have all of them always', () => {
  assert.equal(stepsOfNextChunk({ ...MODEL, reducedSteps: null }, { ...STORY, reduced: true }, WISH), 4);
  assert.equal(stepsOfNextChunk(MODEL, { reduced: true, incoming: INCOMING }, WISH), 4);
});
