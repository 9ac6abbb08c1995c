import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { RelayPeer } from '../../src/media/RelayPeer.ts';
import type { MediaToControl } from '../../src/streams/messages.ts';

function relay(backlog = 4) {
  const posted: MediaToControl[] = [];
  const states: string[] = [];
  let keyframes = 0;
  const peer = new RelayPeer({
    sessionId: 's',
    connectionId: 'c',
    backlog,
    toControl: (message) => posted.push(message),
    events: { state: (state) => states.push(state), message: () => {}, sound: () => {}, picture: () => {}, keyframeNeeded: () => keyframes++, estimated: () => {}, lost: () => {} },
  });
  const picture = (n: number, keyframe = false) => peer.sendPicture({ data: Uint8Array.of(n), keyframe, rtp: n, epoch: 0 });
  return { peer, posted, states, picture, keyframes: () => keyframes };
}

describe('relayed connection', () => {
  it('begins with a keyframe and carries pictures, sound and text in order', () => {
    const { peer, posted, picture, states } = relay();
    assert.equal(picture(0, true).packets, 0, 'not open yet');
    peer.open();
    peer.open();
    assert.deepEqual(states, ['connected']);
    assert.equal(picture(1).packets, 0, 'a delta frame could not be decoded');
    assert.equal(picture(2, true).packets, 1);
    picture(3);
    peer.sendSound({ data: Uint8Array.of(9), rtp: 960, epoch: 0 });
    peer.sendText('state', '{}');
    assert.deepEqual(posted.map((message) => (message.type === 'relay.media' ? `${message.kind} ${message.rtp} ${message.key}` : message.type)), ['video 2 true', 'video 3 false', 'audio 960 true', 'relay.text']);
  });

  it('drops pictures until a keyframe while the control thread takes nothing, and sound at twice the backlog', () => {
    const { peer, picture, keyframes } = relay(4);
    peer.open();
    picture(0, true);
    peer.taken(1);
    for (let n = 1; n <= 4; n++) assert.equal(picture(n).packets, 1);
    assert.equal(picture(5).packets, 0);
    for (let n = 0; n < 4; n++) assert.equal(peer.sendSound({ data: Uint8Array.of(1), rtp: n, epoch: 0 }).packets, 1);
    assert.equal(peer.sendSound({ data: Uint8Array.of(1), rtp: 9, epoch: 0 }).packets, 0);
    assert.equal(peer.dropped, 2);
    assert.equal(keyframes(), 0);
    peer.taken(8);
    assert.equal(keyframes(), 1, 'asks for the keyframe it needs');
    assert.equal(picture(6).packets, 0);
    assert.equal(picture(7, true).packets, 1);
    assert.equal(picture(8).packets, 1);
  });

  it('closes once and sends nothing afterwards', async () => {
    const { peer, posted, picture, states } = relay();
    peer.open();
    await Promise.all([peer.close(), peer.close()]);
    picture(1, true);
    assert.equal(peer.sendText('control', '{}'), false);
    assert.deepEqual(states, ['connected', 'closed']);
    assert.equal(posted.length, 0);
  });
});
