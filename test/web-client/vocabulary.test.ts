import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { NOTHING_SELECTED, promptFrom, selectionFrom, suggestionsFrom, unknownWords } from '../../web-client/page/vocabulary.ts';

describe('suggestions', () => {
  it('offers only what the vocabulary can say', () => {
    const words = ['snowy', 'mountains', 'beach', 'night', 'rain', 'fog'];
    assert.deepEqual(suggestionsFrom(words), { place: ['beach', 'snowy mountains'], time: ['night'], weather: ['rain', 'fog'] });
    assert.equal(suggestionsFrom(['lorem', 'ipsum']), null);
  });

  it('reads a prompt or a plan, the longest phrase first, and keeps what it does not mention', () => {
    const before = selectionFrom('forest day clear sky', NOTHING_SELECTED);
    assert.deepEqual(before, { place: 'forest', time: 'day', weather: 'clear sky' });
    assert.deepEqual(selectionFrom('Dark night, please!', before), { place: 'forest', time: 'night', weather: 'clear sky' });
    assert.equal(selectionFrom('winter mountains in a blizzard', before).place, 'snowy mountains');
    assert.equal(selectionFrom('sunset over the seaside road', before).time, 'dusk');
  });

  it('writes a prompt from any selection', () => {
    assert.equal(promptFrom({ place: 'coast', time: 'dusk', weather: 'fog' }), 'coast at dusk with fog');
    assert.equal(promptFrom({ place: 'coast', time: null, weather: 'fog' }), 'coast with fog');
    assert.equal(promptFrom({ place: null, time: 'night', weather: null }), 'night');
    assert.equal(promptFrom({ place: null, time: null, weather: 'rain' }), 'rain');
  });

  it('names each unknown word once', () => {
    assert.deepEqual(unknownWords('Banana castle, banana NIGHT', ['night', 'snowy mountains']), ['banana', 'castle']);
    assert.deepEqual(unknownWords('snowy mountains', ['snowy mountains']), []);
  });
});
