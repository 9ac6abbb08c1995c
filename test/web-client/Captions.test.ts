import assert from 'node:assert/strict';
import { beforeEach, describe, it } from 'node:test';
import { Captions } from '../../web-client/page/Captions.ts';

describe('Captions', () => {
  const line = () => ({ textContent: '' });
  let plan: ReturnType<typeof line>;
  let narration: ReturnType<typeof line>;
  let told: ReturnType<typeof line>;
  let captions: Captions;

  beforeEach(() => {
    [plan, narration, told] = [line(), line(), line()];
    captions = new Captions(plan, narration, told);
  });

  const say = (type: 'text.delta' | 'text.complete', text: string, re = 'r1') => captions.show({ type, stream: 'narration', text, re });

  it('grows word by word, and tells screen readers the whole sentence only', () => {
    say('text.delta', 'we');
    say('text.delta', ' roll');
    assert.deepEqual([narration.textContent, told.textContent], ['We roll', '']);
    assert.equal(say('text.complete', 'we roll on , dusk'), 'we roll on , dusk');
    assert.deepEqual([narration.textContent, told.textContent], ['We roll on, dusk', 'We roll on, dusk']);
  });

  it('keeps what was said where its end brings no text of its own', () => {
    say('text.delta', 'we roll on');
    assert.equal(say('text.complete', ''), 'we roll on');
    assert.deepEqual([narration.textContent, told.textContent], ['We roll on', 'We roll on']);
  });

  it('says nothing twice to whoever comes back in the middle of a sentence', () => {
    say('text.delta', 'we roll');
    captions.show({ type: 'text.delta', stream: 'narration', text: 'we roll on', re: 'r1', soFar: true });
    say('text.delta', ' , dusk');
    assert.equal(narration.textContent, 'We roll on, dusk');
  });

  it('does not glue a new request’s words to those of one that was cut off', () => {
    say('text.delta', 'we roll into the');
    say('text.delta', 'fog', 'r2');
    assert.equal(narration.textContent, 'Fog');
  });

  it('begins anew after a complete text', () => {
    say('text.complete', 'we roll on');
    say('text.delta', 'rain');
    assert.equal(narration.textContent, 'Rain');
  });

  it('drops the old story with the new plan, but not a story that came before its own plan', () => {
    say('text.complete', 'we roll on');
    captions.show({ type: 'text.complete', stream: 'plan', text: 'desert', re: 'r2' });
    assert.deepEqual([plan.textContent, narration.textContent], ['Desert', '']);
    say('text.delta', 'sand', 'r3');
    captions.show({ type: 'text.complete', stream: 'plan', text: 'dunes', re: 'r3' });
    assert.equal(narration.textContent, 'Sand');
  });
});
