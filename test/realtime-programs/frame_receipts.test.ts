/** What is kept of a frame makes it again: the real model, with fences that fall inside chunks. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { keptFrame } from '../../src/realtime-programs/kept_frame.ts';
import type { EngineToControl } from '../../src/streams/messages.ts';
import type { KeptChunk } from '../../src/streams/storage_messages.ts';
import { KeptSessionRig } from './KeptSessionRig.ts';

const FRAME_90K = 7_500;

type Decoded = Extract<EngineToControl, { type: 'frame.decoded' }>;

describe('a frame that was presented', { timeout: 120_000 }, () => {
  const rig = new KeptSessionRig();
  let asked = 0;
  const ask = async <Type extends 'frame.decoded' | 'frame.found'>(type: Type, send: (request: number) => void): Promise<Extract<EngineToControl, { type: Type }>> => {
    const request = ++asked;
    send(request);
    const found = () => rig.messages.find((message) => message.type === type && message.request === request);
    await rig.until(() => found() !== undefined, type);
    return found() as Extract<EngineToControl, { type: Type }>;
  };
  const decode = (chunk: KeptChunk, frame: number): Promise<Decoded> => ask('frame.decoded', (request) => rig.core.receive({ type: 'frame.decode', request, program: 'drive', chunk, frame }));
  const inMemory = (media90k: number) => ask('frame.found', (request) => rig.core.receive({ type: 'frame.find', request, sessionId: 's', media90k }));

  before(async () => {
    await rig.start();
    rig.open('s', { prompt: 'a city at noon' });
    await rig.until(() => rig.chunks.length >= 3, 'three chunks');
  });
  after(() => rig.close());

  it('that is in no whole chunk yet is known from memory, and decodes to what was shown', async () => {
    // The second frame of a chunk is out and nobody has seen it: the fence falls inside the chunk.
    await rig.until(() => rig.frames.at(-1)!.frameInChunk === 1, 'a whole chunk');
    rig.request('s', 'stop', { request: 'interrupt' });
    await rig.until(() => rig.messages.some((message) => message.type === 'request.applied' && message.requestId === 'stop'), 'held');
    const held90k = rig.messages.findLast((message) => message.type === 'session.committed')!;
    const last90k = (held90k as { media90k: number }).media90k - FRAME_90K;
    const { chunk } = await inMemory(last90k);
    assert.ok(chunk !== null, 'the frame that is held');
    const frame = (last90k - chunk.start90k) / FRAME_90K;
    const { rgb, error } = await decode(chunk, frame);
    assert.equal(error, undefined);
    assert.ok(Buffer.from(rgb!).equals(rig.pictures.get(last90k)!), 'the picture that is held');
    assert.equal((await inMemory(last90k + FRAME_90K)).chunk, null, 'what was fenced is not there');
  });

  it('whose record is still on its way to the disk is known from memory, as it will be there', async () => {
    const record = rig.chunks.find(({ chunk }) => chunk === 1)!;
    for (const index of [0, 1]) {
      const at90k = record.start90k + index * FRAME_90K;
      const { chunk } = await inMemory(at90k);
      assert.ok(chunk !== null, `the frame at ${at90k}`);
      const [told, kept] = [keptFrame(chunk, index), keptFrame(record, index)];
      assert.deepEqual([told.epoch, told.lineage, told.plan, told.under], [kept.epoch, kept.lineage, kept.plan, kept.under]);
      assert.ok(Buffer.from(told.latents.data).equals(Buffer.from(kept.latents.data)), `latents at ${at90k}`);
    }
  });

  it('has its record and comes out bit for bit, also where its chunk was made again around it', async (t) => {
    rig.request('s', 'night', { request: 'redirect', prompt: 'make it night', seamless: false });
    await rig.until(() => rig.messages.some((message) => message.type === 'request.applied' && message.requestId === 'night'), 'the redirect');
    const shown = rig.chunks.length;
    await rig.until(() => rig.chunks.length >= shown + 3, 'three more');
    const epochAt = (at90k: number) => rig.frames.findLast(({ start90k }) => start90k === at90k)?.epoch;
    let pinned = 0;
    // On a busy machine it would leave no slack to decode in.
    await rig.end('s');
    const chunks = [...rig.chunks];
    for (const chunk of chunks) {
      for (const index of [0, 1]) {
        const at90k = chunk.start90k + index * FRAME_90K;
        const frame = keptFrame(chunk, index);
        const { rgb, error } = await decode(chunk, index);
        assert.equal(error, undefined);
        assert.ok(Buffer.from(rgb!).equals(rig.pictures.get(at90k)!), `the picture at ${at90k}`);
        assert.equal(frame.epoch, epochAt(at90k), `the epoch at ${at90k}`);
        assert.equal(frame.origin?.weightsVersion, rig.loaded.weightsVersion);
        if (frame.latents.name === 'pin') pinned++;
      }
    }
    const night = chunks.map((chunk) => keptFrame(chunk, 1)).filter(({ active }) => active.includes('night'));
    assert.ok(night.length >= 3 && night.every(({ epoch, under }) => epoch === 2 && under !== null));
    const first = chunks.flatMap((chunk) => [keptFrame(chunk, 0), keptFrame(chunk, 1)]).filter(({ started }) => started.includes('night'));
    assert.equal(first.length, 1, 'one frame is its first');
    t.diagnostic(`${chunks.length} chunks, ${pinned} frames that a chunk was made around`);
  });

  it('of before a chunk was made again keeps what it was made under', () => {
    const chunk = rig.chunks.find((candidate) => keptFrame(candidate, 0).latents.name === 'pin');
    assert.ok(chunk !== undefined, 'a chunk that was made around a frame');
    const [seen, made] = [keptFrame(chunk, 0), keptFrame(chunk, 1)];
    assert.notDeepEqual(seen.plan, made.plan);
    assert.ok(seen.epoch < made.epoch);
    const hash = (data: ArrayBuffer | SharedArrayBuffer) => createHash('sha256').update(new Uint8Array(data)).digest('hex');
    assert.notEqual(hash(seen.latents.data), hash(made.latents.data));
  });

  it('is decoded when the session has ended; beyond the bound it is refused', async () => {
    const chunk = rig.chunks.at(-1)!;
    const answers = await Promise.all(Array.from({ length: 40 }, () => decode(chunk, 1)));
    const refused = answers.filter(({ error }) => error?.code === 'at_capacity');
    assert.equal(refused.length, 40 - 33, 'one runs, 32 wait');
    assert.ok(answers.every(({ rgb, error }) => (rgb === undefined) !== (error === undefined)));
  });

  it('and in which its session ended, is decoded from what was written of it then', async () => {
    for (const [id, frames] of [['first', 1], ['later', 8]] as const) {
      rig.pictures.clear();
      rig.open(id, { prompt: 'a city at noon' });
      await rig.until(() => rig.frames.length > frames, 'inside a chunk');
      const presented90k = frames * FRAME_90K - (frames === 1 ? 0 : FRAME_90K);
      rig.request(id, 'stop', { request: 'interrupt' });
      await rig.until(() => rig.messages.some((message) => message.type === 'request.applied' && message.requestId === 'stop' && message.sessionId === id), 'held');
      await rig.end(id, Math.max(presented90k, FRAME_90K));
      const last90k = rig.messages.flatMap((message) => (message.type === 'session.committed' && message.sessionId === id ? [message.media90k] : [])).at(-1)! - FRAME_90K;
      const part = rig.written.flatMap((write) => (write.type === 'part' ? [write.chunk] : [])).at(-1);
      const chunk = [...rig.chunks, ...(part === undefined ? [] : [part])].find(({ start90k, end90k }) => last90k >= start90k && last90k < end90k);
      assert.ok(chunk !== undefined, `${id}: frame ${last90k / FRAME_90K}`);
      const { rgb, error } = await decode(chunk, (last90k - chunk.start90k) / FRAME_90K);
      assert.equal(error, undefined);
      assert.ok(Buffer.from(rgb!).equals(rig.pictures.get(last90k)!), `${id}: the picture of the last frame`);
      if (id === 'first') assert.ok(part !== undefined && rig.chunks.length === 0, 'nothing of it ever was whole');
    }
  });

  it('says what is wrong with a frame that a chunk has not', async () => {
    const { error } = await decode(rig.chunks.at(-1)!, 5);
    assert.equal(error?.code, 'bad_request');
  });
});
