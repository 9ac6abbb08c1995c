import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { commandOf, KEY_BINDINGS, legend } from '../../web-client/page/key_bindings.ts';

describe('key bindings', () => {
  it('gives each key one command', () => {
    const names = KEY_BINDINGS.flatMap(({ keys }) => keys.map(({ code, key }) => code ?? key));
    assert.equal(new Set(names).size, names.length);
    for (const { command, keys } of KEY_BINDINGS) for (const { code = '', key = '' } of keys) assert.equal(commandOf({ code, key }), command);
  });

  it('has every cap in the legend once', () => {
    assert.deepEqual(legend().flatMap(({ caps }) => caps).toSorted(), KEY_BINDINGS.flatMap(({ keys }) => keys.map(({ cap }) => cap)).toSorted());
    assert.deepEqual(legend()[0], { says: 'steer', caps: ['←', '→', 'A', 'D'] });
  });

  it('finds the slash by what is printed on the key, wherever it lies', () => {
    assert.equal(commandOf({ code: 'Digit7', key: '/' }), 'focusPrompt');
    assert.equal(commandOf({ code: 'KeyX', key: 'x' }), null);
  });
});
