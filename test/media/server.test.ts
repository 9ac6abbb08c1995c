/** Sessions and connections of one media thread, with the real codecs and relayed connections; no browser, no sockets. */
import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { monotonicClock } from '../../src/observe/clock.ts';
import { createLogger } from '../../src/observe/log.ts';
import { MediaServer } from '../../src/media/MediaServer.ts';
import { loadNative } from '../../src/media/native.ts';
import { readStamp } from '../../src/media/stamp.ts';
import type { VideoChunk } from '../../src/streams/media_events.ts';
import type { MediaToControl, MediaToEngine } from '../../src/streams/messages.ts';
import { SessionWords } from '../../src/streams/session_words.ts';
import { SharedPool } from '../../src/streams/shared_pool.ts';
import { FORMAT, LOOPBACK } from './media_thread_rig.ts';

const FRAME = 7500;
const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const servers: MediaServer[] = [];

function server() {
  const toControl: MediaToControl[] = [];
  const toEngine: MediaToEngine[] = [];
  const media: MediaServer = new MediaServer({
    clock: monotonicClock,
    codecs: loadNative(),
    options: LOOPBACK,
    sinks: { toControl: (message) => {
        toControl.push(message);
        if (message.type === 'relay.media') media.fromControl({ type: 'relay.taken', sessionId: message.sessionId, connectionId: message.connectionId, count: 1 });
      }, toEngine: (message) => toEngine.push(message) },
    log: createLogger({ level: 'silent' }),
  });
  servers.push(media);
  return { media, toControl, toEngine };
}

function open(media: MediaServer, sessionId: string, stamp = false) {
  const words = new SessionWords();
  const video = SharedPool.create(FORMAT.width * FORMAT.height * 3, 8);
  const audio = SharedPool.create(4000, 8);
  media.fromControl({ type: 'session.open', sessionId, channels: { words: words.buffer, video: video.descriptor, audio: audio.descriptor }, format: FORMAT, stamp });
  const frame = (index: number): void => {
    const slot = video.acquire()!;
    video.bytes(slot).fill(90);
    media.fromEngine({
      type: 'media.chunk', revision: 0, kind: 'video', codec: 'rgb24', slot, sessionId, streamId: 'picture', sequence: index, epoch: words.epoch, conditioningVersion: 0, actionSequence: 0, weightsVersion: 'w', adapterVersions: {},
      start90k: index * FRAME, end90k: (index + 1) * FRAME, stage: 'final', chunk: index >> 1, frameInChunk: index & 1, step: 0, events: { started: [], active: [], completed: [] }, origin: 'generated',
    } satisfies VideoChunk);
  };
  return { words, video, audio, frame };
}

describe('media server', () => {
  after(() => Promise.all(servers.map((media) => media.drain())));

  it('tells what each session has sent, and adds nothing to it while nothing is sent', async () => {
    const { media, toControl } = server();
    const { frame } = open(media, 'u');
    media.fromControl({ type: 'connection.relay', sessionId: 'u', connectionId: 'c' });
    for (let index = 0; index < 4; index++) frame(index);
    await sleep(400);
    media.fromControl({ type: 'session.close', sessionId: 'u', reason: 'enough' });
    const sent = toControl.reduce((sum, message) => sum + (message.type === 'relay.media' ? message.bytes.byteLength : 0), 0);
    const told = toControl.flatMap((message) => (message.type === 'media.usage' ? [message] : []));
    assert.ok(sent > 0);
    assert.deepEqual(told.at(-1), { type: 'media.usage', sessionId: 'u', sentBytes: sent });
    await sleep(1_100);
    assert.equal(toControl.filter(({ type }) => type === 'media.usage').length, told.length);
  });

  it('relays encoded media and texts, and obeys what comes back by WebSocket', async () => {
    const { media, toControl } = server();
    const { words, frame } = open(media, 's', true);
    media.fromControl({ type: 'connection.relay', sessionId: 's', connectionId: 'c' });
    for (let index = 0; index < 4; index++) frame(index);
    await sleep(450);
    const pictures = toControl.filter((message) => message.type === 'relay.media' && message.kind === 'video') as Extract<MediaToControl, { type: 'relay.media' }>[];
    assert.ok(pictures[0]!.key && pictures.length >= 4);
    const decoder = new (loadNative().VpxDecoder)();
    for (const [index, picture] of pictures.slice(0, 4).entries()) {
      assert.deepEqual(readStamp((await decoder.decode(picture.bytes, 'rgb24')).data, FORMAT.width, 3), { epoch: 0, frame: index });
    }
    assert.ok(toControl.filter((message) => message.type === 'relay.media' && message.kind === 'audio').length >= 15);
    assert.ok(toControl.some((message) => message.type === 'relay.text' && message.channel === 'state' && message.text.includes('"type":"frame"')));
    media.fromControl({ type: 'channel.inject', sessionId: 's', connectionId: 'c', channel: 'control', text: JSON.stringify({ type: 'interrupt', id: 'i', heldVideoRtp: pictures[1]!.rtp }) });
    assert.equal(words.epoch, 1);
    const fenced = toControl.find((message) => message.type === 'channel.message');
    assert.deepEqual(fenced?.type === 'channel.message' && fenced.held, { media90k: 2 * FRAME, source: 'client' });
    media.fromControl({ type: 'connection.keyframe', sessionId: 's', connectionId: 'c' });
    await sleep(400);
    assert.ok((toControl.findLast((message) => message.type === 'relay.media' && message.kind === 'video') as { key: boolean }).key, 'a held picture comes as the keyframe that was asked for');
    assert.equal(media.stats.stalePackets, 0);
  });

  it('refuses connections to unknown sessions, past the limit, and while it drains', async () => {
    const { media, toControl } = server();
    open(media, 's');
    media.fromControl({ type: 'connection.relay', sessionId: 'nobody', connectionId: 'x' });
    for (let n = 0; n <= LOOPBACK.limits.maxConnectionsPerSession; n++) media.fromControl({ type: 'connection.relay', sessionId: 's', connectionId: `c${n}` });
    const draining = media.drain();
    media.fromControl({ type: 'connection.relay', sessionId: 's', connectionId: 'late' });
    await draining;
    const codes = toControl.flatMap((message) => (message.type === 'connection.failed' ? [`${message.connectionId} ${message.error.code}`] : []));
    assert.deepEqual(codes, ['x session_not_found', 'c8 conflict', 'late draining']);
    assert.equal(toControl.filter((message) => message.type === 'media.drained').length, 1);
    assert.equal(toControl.filter((message) => message.type === 'connection.state' && message.state === 'closed').length, 8);
  });

  it('answers garbage for an offer with bad_sdp and keeps early candidates of others harmless', async () => {
    const { media, toControl } = server();
    open(media, 's');
    for (let n = 0; n < 1000; n++) media.fromControl({ type: 'connection.candidate', sessionId: 's', connectionId: `never${n}`, candidate: { candidate: 'candidate:1 1 udp 1 127.0.0.1 9 typ host', sdpMid: '0', sdpMLineIndex: 0 } });
    for (const [n, sdp] of ['', 'v=0', 'hello', '\0\0\0', 'v=0\r\nm=', `v=0\r\no=- 1 1 IN IP4 0.0.0.0\r\ns=-\r\nt=0 0\r\nm=video 9 UDP/TLS/RTP/SAVPF 96\r\n${'a=x\r\n'.repeat(5000)}`].entries()) {
      media.fromControl({ type: 'connection.offer', sessionId: 's', connectionId: `bad${n}`, sdp });
    }
    for (let waited = 0; waited < 5000 && toControl.filter((message) => message.type === 'connection.failed').length < 6; waited += 50) await sleep(50);
    const failures = toControl.flatMap((message) => (message.type === 'connection.failed' ? [message] : []));
    assert.deepEqual(failures.map(({ connectionId }) => connectionId).sort(), ['bad0', 'bad1', 'bad2', 'bad3', 'bad4', 'bad5']);
    assert.ok(failures.every(({ error }) => error.code === 'bad_sdp'), JSON.stringify(failures));
    assert.equal(media.stats.connections, 0);
  });

  it('takes slots back from sessions that are closed or were never open', async () => {
    const { media } = server();
    const { frame, video, words } = open(media, 's');
    frame(0);
    media.fromControl({ type: 'session.close', sessionId: 's', reason: 'test' });
    frame(1);
    words.raiseEpoch();
    frame(2);
    await sleep(20);
    assert.equal(video.used, 0);
    media.fromControl({ type: 'channel.inject', sessionId: 's', connectionId: null, channel: 'control', text: '{"type":"interrupt","id":"i"}' });
    assert.equal(words.epoch, 1, 'a closed session isn’t brought back by a late message');
  });
});
