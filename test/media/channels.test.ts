import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ChannelGate } from '../../src/media/ChannelGate.ts';
import { DEFAULT_MEDIA_OPTIONS } from '../../src/media/options.ts';
import { SessionRig } from './session_rig.ts';

const action = (sequence: number, steer: number): Record<string, unknown> => ({ type: 'action', sequence, steer, speed: 1, leftPresses: 0, rightPresses: 0 });

describe('channels', () => {
  it('answers what is not a JSON object with bad_json, on the channel it came by, and goes on', () => {
    const rig = new SessionRig();
    const peer = rig.connect();
    for (const text of ['{', '', 'null', '[]', '"text"', '12']) rig.session.receive('c', 'control', text);
    rig.session.receive('c', 'control', Uint8Array.of(1, 2, 3));
    assert.deepEqual(peer.texts.map(({ channel, message }) => [channel, message['type'], (message['error'] as { code: string }).code]), Array(7).fill(['control', 'error', 'bad_json']));
    assert.equal(rig.forwarded().length, 0);
    rig.send({ type: 'hello', id: 'h', protocol: 1 });
    assert.equal(rig.forwarded().length, 1);
  });

  it('refuses a message over 64 KiB, by bytes', () => {
    const rig = new SessionRig();
    const peer = rig.connect();
    rig.send({ type: 'redirect', id: 'r', prompt: 'ü'.repeat(33_000) });
    assert.equal((peer.texts[0]!.message['error'] as { code: string }).code, 'payload_too_large');
    assert.equal(rig.words.epoch, 0);
  });

  it('forwards what it doesn’t know on control: the control thread answers', () => {
    const rig = new SessionRig();
    rig.connect();
    rig.send({ type: 'teleport', id: 't' });
    rig.send({ type: 'redirect', id: 'r', prompt: 7 });
    assert.equal(rig.forwarded().length, 2);
  });

  it('answers a flood of control with rate_limited, each by its id; the rest passes later', async () => {
    const rig = new SessionRig();
    const peer = rig.connect();
    for (let n = 0; n < 200; n++) rig.send({ type: 'ping', id: `n${n}` });
    assert.equal(rig.forwarded().length, 80);
    assert.deepEqual(peer.texts.map(({ message }) => message['re']), Array.from({ length: 120 }, (_, n) => `n${n + 80}`));
    assert.equal((peer.texts[0]!.message['error'] as { code: string }).code, 'rate_limited');
    await rig.clock.advanceTo(1000);
    rig.send({ type: 'ping', id: 'later' });
    assert.equal(rig.forwarded().length, 81);
  });

  it('answers a flood of input once a second and leaves other connections alone', async () => {
    const rig = new SessionRig();
    const peer = rig.connect();
    const other = rig.connect('d');
    for (let n = 0; n < 500; n++) rig.send(action(n, 0), 'input');
    for (let n = 0; n < 500; n++) rig.session.receive('c', 'input', 'junk');
    assert.equal(peer.texts.filter(({ channel }) => channel === 'input').length, 1);
    assert.equal(rig.words.action.sequence, 239, 'the burst passed');
    rig.send({ type: 'ping', id: 'p' }, 'control', 'd');
    assert.equal(rig.forwarded().length, 1);
    assert.equal(other.texts.length, 0);
  });

  it('forgets a connection', () => {
    const gate = new ChannelGate({ ...DEFAULT_MEDIA_OPTIONS.limits, controlRate: 1 });
    const kinds = (): string[] => [1, 2, 3].map(() => gate.admit('c', 'control', '{"type":"ping","id":"x"}', 0).kind);
    assert.deepEqual(kinds(), ['forward', 'forward', 'refuse']);
    gate.forget('c');
    assert.deepEqual(kinds(), ['forward', 'forward', 'refuse']);
  });
});

describe('held input', () => {
  it('takes the newest, whatever the order of arrival', () => {
    const rig = new SessionRig();
    rig.connect();
    rig.send(action(5, 1), 'input');
    rig.send(action(4, -1), 'input');
    assert.deepEqual([rig.words.action.sequence, rig.words.action.steer], [5, 1]);
    rig.send(action(6, -1), 'input');
    assert.deepEqual([rig.words.action.sequence, rig.words.action.steer], [6, -1]);
  });

  it('returns to neutral after a quarter of a second of silence, and not while the same state is repeated', async () => {
    const rig = new SessionRig();
    rig.connect();
    for (let at = 0; at <= 500; at += 50) {
      await rig.clock.advanceTo(at);
      rig.send(action(1, 1), 'input');
    }
    await rig.clock.advanceTo(740);
    assert.equal(rig.words.action.steer, 1);
    await rig.clock.advanceTo(760);
    assert.deepEqual([rig.words.action.steer, rig.words.action.speed], [0, 1]);
  });

  it('lets a rejoined client count from its start again', () => {
    const rig = new SessionRig();
    rig.connect();
    rig.send(action(900, 1), 'input');
    rig.connect('d');
    rig.send(action(1, -1), 'input', 'd');
    assert.deepEqual([rig.words.action.sequence, rig.words.action.steer], [1, -1]);
  });

  it('ignores a watcher and what is out of range', () => {
    const rig = new SessionRig();
    rig.connect();
    rig.connect('w', false);
    rig.send(action(3, 1), 'input', 'w');
    rig.send(action(4, 2), 'input');
    rig.send({ ...action(5, 1), extra: 1 }, 'input');
    assert.equal(rig.words.action.sequence, 0);
  });
});
