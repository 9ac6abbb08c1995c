import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { readMediaChunk, readText, writeText } from '../../web-client/sdk/stream_framing.ts';

describe('framing of the WebSocket', () => {
  it('reads the header of a media frame, big endian', () => {
    const bytes = Uint8Array.from([1, 1, 0, 0, 0, 0, 0, 7, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 0, 42, 43]);
    assert.deepEqual(readMediaChunk(bytes.buffer), { kind: 'audio', key: true, epoch: 7, rtp: 0xfffffffe, payload: Uint8Array.from([42, 43]) });
  });

  it('refuses what is no media frame', () => {
    assert.throws(() => readMediaChunk(new ArrayBuffer(16)), TypeError);
    assert.throws(() => readMediaChunk(Uint8Array.from([9, ...new Array<number>(16).fill(0)]).buffer), TypeError);
  });

  it('frames messages with their channel, and refuses anything else', () => {
    assert.equal(writeText('control', { type: 'pause', id: 'a' }), '{"channel":"control","message":{"type":"pause","id":"a"}}');
    assert.equal(readText('{"channel":"state","message":{"type":"frame"}}').channel, 'state');
    for (const text of ['', '[]', '{"channel":"input","message":{}}', '{"channel":"state"}']) assert.throws(() => readText(text));
  });
});
