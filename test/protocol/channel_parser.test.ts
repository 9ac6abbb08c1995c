import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { MAX_CHANNEL_TEXT, parseChannelMessage } from '../../src/protocol/channel_parser.ts';
import { ERRORS, SegueError } from '../../src/protocol/errors.ts';

function fault(label: 'control' | 'input', text: string): [string, string | undefined, string | null] {
  const parsed = parseChannelMessage(label, text);
  assert.ok('error' in parsed, `was taken: ${text.slice(0, 80)}`);
  return [parsed.error.code, parsed.error.details.param, parsed.re];
}

describe('messages of a channel', () => {
  it('are read when they are of the protocol', () => {
    for (const [label, message] of [
      ['control', { type: 'hello', id: 'h', protocol: 7 }],
      ['control', { type: 'interrupt', id: 'i', heldVideoRtp: 0xffffffff }],
      ['control', { type: 'redirect', id: 'r', prompt: 'x'.repeat(1000), seamless: true }],
      ['input', { type: 'action', sequence: 0, steer: -1, speed: 3, leftPresses: 0, rightPresses: 0 }],
      ['input', { type: 'interrupt', id: 'i' }],
      ['control', { type: 'cut', id: 'c', prompt: 'night', heldAudioRtp: 1 }],
      ['input', { type: 'cut', id: 'c', prompt: 'night', heldVideoRtp: 1 }],
      ['control', { type: 'blend', id: 'b', prompt: 'night' }],
      ['control', { type: 'blend', id: 'b', prompt: 'night', chunks: 120 }],
      ['control', { type: 'rewind', id: 'w', media90k: 0 }],
      ['input', { type: 'rewind', id: 'w', media90k: 90_000, exact: true, heldVideoRtp: 1 }],
      ['control', { type: 'fork', id: 'f' }],
      ['control', { type: 'fork', id: 'f', media90k: 90_000, ticket: 't' }],
      ['control', { type: 'hold', id: 'h' }],
      ['control', { type: 'release', id: 'r' }],
    ] as const) {
      assert.deepEqual(parseChannelMessage(label, JSON.stringify(message)), { message });
    }
  });

  it('are refused with what is wrong, where, and for which request', () => {
    assert.deepEqual(fault('control', '{'), ['bad_json', undefined, null]);
    assert.deepEqual(fault('control', '[]'), ['bad_request', undefined, null]);
    assert.deepEqual(fault('control', '{"type":"dance","id":"d"}'), ['bad_request', 'type', 'd']);
    assert.deepEqual(fault('control', '{"type":"redirect","id":"r"}'), ['bad_request', 'prompt', 'r']);
    assert.deepEqual(fault('control', '{"type":"redirect","id":"r","prompt":""}'), ['bad_request', 'prompt', 'r']);
    assert.deepEqual(fault('control', '{"type":"redirect","id":"r","prompt":"x","extra":1}'), ['bad_request', 'extra', 'r']);
    assert.deepEqual(fault('control', '{"type":"interrupt","id":"a b"}'), ['bad_request', 'id', null]);
    assert.deepEqual(fault('control', '{"type":"action","sequence":1}'), ['bad_request', 'type', null], 'an action is no control message');
    assert.deepEqual(fault('input', '{"type":"pause","id":"p"}'), ['bad_request', 'type', 'p']);
    for (const type of ['hold', 'release', 'blend']) assert.deepEqual(fault('input', `{"type":"${type}","id":"x","prompt":"y"}`), ['bad_request', 'type', 'x'], 'only what fences is repeated there');
    for (const chunks of [1, 121, 2.5]) assert.deepEqual(fault('control', `{"type":"blend","id":"b","prompt":"x","chunks":${chunks}}`), ['bad_request', 'chunks', 'b']);
    assert.deepEqual(fault('input', `{"x":"${'x'.repeat(MAX_CHANNEL_TEXT)}"}`), ['payload_too_large', undefined, null]);
    assert.deepEqual(fault('control', '{"type":"toString","id":"x"}'), ['bad_request', 'type', 'x']);
  });

  it('never throw, whatever they are', () => {
    fc.assert(
      fc.property(fc.constantFrom('control' as const, 'input' as const), fc.oneof(fc.string(), fc.json(), fc.anything().map((value) => JSON.stringify({ type: 'redirect', id: 'r', prompt: value }) ?? '')), (label, text) => {
        const parsed = parseChannelMessage(label, text);
        assert.ok('message' in parsed || parsed.error instanceof SegueError);
      }),
    );
  });
});

describe('error table', () => {
  it('has a client or server status for every code, and a body that says whether to try again', () => {
    for (const [code, { status, retryable }] of Object.entries(ERRORS)) {
      assert.ok(status >= 400 && status < 600, code);
      const body = new SegueError(code as keyof typeof ERRORS, 'why', { position: 2, ticket: 't', retryAfterMs: 5, cause: new Error('hidden') }).toBody();
      assert.deepEqual(body, { code, message: 'why', retryable, position: 2, ticket: 't', retryAfterMs: 5 });
    }
  });
});
