/** A kept story played again as a session: the real model; picture and sound have the bits that they had. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { KeptReplay } from '../../src/realtime-programs/KeptReplay.ts';
import { VideoContinuation } from '../../src/realtime-programs/VideoContinuation.ts';
import { KeptSessionRig } from './KeptSessionRig.ts';

const FRAME_90K = 7_500;
const CHUNK_90K = 2 * FRAME_90K;

describe('a replay', { timeout: 180_000 }, () => {
  const rig = new KeptSessionRig();
  const pictures = new Map<number, Uint8Array>();
  const sounds = new Map<number, Uint8Array>();
  let end90k = 0;
  const range = (chunk: number) => ({ sessionId: 's', chunk, from90k: chunk * CHUNK_90K, to90k: end90k });
  const differences = (): number[] => {
    const wrong: number[] = [];
    for (const [at90k, picture] of rig.pictures) if (!Buffer.from(picture).equals(pictures.get(at90k)!)) wrong.push(at90k);
    for (const [at90k, sound] of rig.sounds) if (!Buffer.from(sound).equals(sounds.get(at90k)!)) wrong.push(at90k);
    return wrong;
  };

  before(async () => {
    await rig.start();
    rig.open('s', { prompt: 'a city at noon' });
    await rig.until(() => rig.chunks.length >= 4, 'four chunks');
    await rig.until(() => rig.frames.at(-1)!.frameInChunk === 1, 'a whole chunk');
    rig.request('s', 'night', { request: 'redirect', prompt: 'make it night', seamless: false });
    await rig.until(() => rig.messages.some((message) => message.type === 'request.applied' && message.requestId === 'night'), 'the redirect');
    const first = rig.chunks.length;
    await rig.until(() => rig.chunks.length >= first + 4, 'four more');
    rig.request('s', 'cut', { request: 'cut', prompt: 'a desert at dawn' });
    await rig.until(() => rig.messages.some((message) => message.type === 'request.applied' && message.requestId === 'cut'), 'the cut');
    const second = rig.chunks.length;
    await rig.until(() => rig.chunks.length >= second + 6, 'six more');
    await rig.end('s');
    rig.stored = [...rig.chunks];
    end90k = rig.stored.at(-1)!.end90k;
    for (const [at, bytes] of rig.pictures) pictures.set(at, bytes);
    for (const [at, bytes] of rig.sounds) sounds.set(at, bytes);
  });
  after(() => rig.close());

  it('has every frame of the story, bit for bit, through a redirect inside a chunk and a cut; then it stands', async (t) => {
    rig.replay('again', range(0));
    await rig.until(() => rig.pictures.size === end90k / FRAME_90K && rig.sounds.size === rig.pictures.size, 'all frames');
    assert.deepEqual(differences(), []);
    t.diagnostic(`${rig.pictures.size} frames`);
    const { length } = rig.frames;
    await new Promise((resolve) => setTimeout(resolve, 300));
    assert.equal(rig.frames.length, length);
    await rig.end('again');
  });

  it('begins in the middle with the sound that was there', async () => {
    rig.replay('later', range(5));
    await rig.until(() => rig.pictures.size >= 6, 'six frames');
    assert.equal(Math.min(...rig.pictures.keys()), 5 * CHUNK_90K);
    assert.deepEqual(differences(), []);
    await rig.end('later');
  });

  it('goes on from another moment, earlier or later, paused or not; beyond the end it shows the end', async () => {
    rig.replay('sought', range(0));
    await rig.until(() => rig.frames.length >= 3, 'three frames');
    rig.request('sought', 'pause', { request: 'pause' });
    const applied = (id: string) => rig.messages.find((message) => message.type === 'request.applied' && message.requestId === id) as { media90k: number; how: string } | undefined;
    for (const [id, to90k, at90k] of [['on', 8 * CHUNK_90K + 9_000, 8 * CHUNK_90K], ['back', CHUNK_90K, CHUNK_90K], ['end', end90k + 90_000, end90k - CHUNK_90K]] as const) {
      rig.request('sought', id, { request: 'rewind', to90k, exact: false });
      await rig.until(() => applied(id) !== undefined, id);
      assert.deepEqual([applied(id)!.how, applied(id)!.media90k, rig.frames.at(-1)!.epoch], ['rewind', at90k, rig.words.epoch]);
    }
    assert.deepEqual(differences(), []);
    await rig.end('sought');
  });

  it('plays up to what is not kept, and from behind it on with the bits that it had', async () => {
    const all = rig.stored;
    rig.stored = all.filter(({ chunk }) => chunk < 3 || chunk >= 12);
    rig.replay('gap', { ...range(0), gaps: [{ from90k: 3 * CHUNK_90K, to90k: 12 * CHUNK_90K }] });
    await rig.until(() => rig.pictures.size === 6, 'all before it');
    await new Promise((resolve) => setTimeout(resolve, 300));
    assert.equal(rig.frames.at(-1)!.end90k, 3 * CHUNK_90K, 'it stands there');
    rig.request('gap', 'over', { request: 'rewind', to90k: 12 * CHUNK_90K, exact: false });
    await rig.until(() => rig.pictures.has(13 * CHUNK_90K), 'behind it');
    assert.equal(rig.frames.find(({ epoch }) => epoch === rig.words.epoch)!.start90k, 12 * CHUNK_90K);
    for (const [at90k, picture] of rig.pictures) assert.ok(Buffer.from(picture).equals(pictures.get(at90k)!), `the picture at ${at90k}`);
    await rig.end('gap');
    rig.stored = all;
  });

  it('makes nothing of words', async () => {
    rig.replay('asked', range(0));
    await rig.until(() => rig.frames.length >= 1, 'a frame');
    rig.request('asked', 'words', { request: 'redirect', prompt: 'night', seamless: false });
    await rig.until(() => rig.messages.some((message) => message.type === 'request.failed' && message.requestId === 'words' && message.error.code === 'conflict'), 'refused');
    await rig.until(() => rig.frames.at(-1)!.epoch === rig.words.epoch, 'goes on');
    await rig.end('asked');
  });

  it('is admitted at a fraction of what making the story takes', () => {
    const [made, played] = [new VideoContinuation(rig.model).demand, new KeptReplay(rig.model).demand];
    assert.ok(played.chunkComponents.every((component) => made.chunkComponents.includes(component)) && played.chunkComponents.length < made.chunkComponents.length);
    assert.deepEqual(played.redirectComponents, []);
    assert.equal(played.memory.kv, 0);
  });
});
