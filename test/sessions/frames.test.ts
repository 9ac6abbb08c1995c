/** Frames that were presented: real registry and database, scripted engine and media. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, it } from 'node:test';
import { SegueError } from '../../src/protocol/errors.ts';
import { latents } from '../storage/storage_rig.ts';
import { keptLives, type KeptLife } from './KeptLife.ts';
import { FRAME_90K, madeChunk } from './made_chunk.ts';
import { SessionRig } from './session_rig.ts';

const code = (expected: string) => (error: unknown) => error instanceof SegueError && error.code === expected;
const hash = (seed: number): string => createHash('sha256').update(new Uint8Array(latents(seed, 4).buffer)).digest('hex');

describe('presented frames', () => {
  const { begin } = keptLives();
  const present = ({ rig }: KeptLife, id: string, presented90k: number): void => {
    const session = rig.registry.get(id);
    rig.media.emit({ type: 'media.position', sessionId: id, epoch: session.words.epoch, sent90k: presented90k, presented90k });
  };

  it('have a receipt of what made them; of a chunk that was made around one, each its own', async () => {
    const life = begin();
    const { session } = await life.rig.join({ seed: 7 });
    life.chunks(session.id, 0, 4, (chunk) => madeChunk(chunk, chunk === 3 ? { pinnedFrames: 1, plan: { place: 2 }, started: ['r2'], adapter: { id: 'noir', scale: 0.5, version: 'v1' } } : {}));
    present(life, session.id, 10 * FRAME_90K);
    const { frames } = life.rig.registry;
    const receipt = async (media90k: number) => frames.receipt(await frames.find(session.id, media90k));
    const seen = await receipt(6 * FRAME_90K + 100);
    assert.deepEqual(
      [seen.media90k, seen.end90k, seen.chunk, seen.frameInChunk, seen.epoch, seen.conditioningVersion, seen.plan.words, seen.latents.sha256, seen.adapter],
      [6 * FRAME_90K, 7 * FRAME_90K, 3, 0, 0, 1, '0', hash(103), null],
    );
    const made = await receipt(7 * FRAME_90K);
    assert.deepEqual(made, {
      session: session.id,
      branch: 0,
      media90k: 7 * FRAME_90K,
      end90k: 8 * FRAME_90K,
      epoch: 1,
      chunk: 3,
      frameInChunk: 1,
      origin: 'generated',
      model: 'drive',
      weightsVersion: 'w1',
      fingerprint: 'machine a',
      adapter: { id: 'noir', scale: 0.5 },
      adapterVersions: { noir: 'v1@0.5' },
      seed: 7,
      lineage: 0,
      conditioningVersion: 2,
      action: { sequence: 43, steer: -1, speed: 2 },
      plan: { words: '2', attributes: { place: 'place 2' } },
      mix: [],
      requests: { started: ['r2'], active: ['r1'], completed: [] },
      latents: { sha256: hash(3), shape: [2, 2] },
    });
  });

  it('are told apart from those that were not presented, are not kept, or are of no session', async () => {
    const life = begin();
    const { session } = await life.rig.join();
    life.chunks(session.id, 2, 4, madeChunk);
    present(life, session.id, 9 * FRAME_90K);
    const { frames } = life.rig.registry;
    assert.equal((await frames.find(session.id, 9 * FRAME_90K - 1)).frame.frameInChunk, 0);
    await assert.rejects(frames.find(session.id, 9 * FRAME_90K), code('not_presented'));
    await assert.rejects(frames.find(session.id, 2 * FRAME_90K), (error) => code('not_kept')(error) && /from 30000 to/.test((error as Error).message));
    await assert.rejects(frames.find('ses_none', 0), code('session_not_found'));
  });

  it('are known from memory where no whole chunk is on disk, also where nothing is kept', async () => {
    const rig = new SessionRig();
    const { session } = await rig.join();
    rig.media.emit({ type: 'media.position', sessionId: session.id, epoch: 0, sent90k: FRAME_90K, presented90k: FRAME_90K });
    await assert.rejects(rig.registry.frames.find(session.id, 0), code('not_kept'));
    rig.engine.seen = madeChunk(0, { frames: 1 });
    const found = await rig.registry.frames.find(session.id, 0);
    assert.deepEqual([found.frame.frameInChunk, found.sha256], [0, hash(0)]);
    assert.equal((await rig.registry.frames.picture(found))[0], 64);
  });

  it('of a session that has ended are there, also for the next server; gone when it is deleted', async () => {
    const life = begin();
    const { session } = await life.rig.join();
    life.chunks(session.id, 0, 3, madeChunk);
    present(life, session.id, 8 * FRAME_90K);
    await Promise.all([session.close('over'), life.rig.after(200)]);
    const found = await life.rig.registry.frames.find(session.id, 7 * FRAME_90K);
    assert.equal((await life.rig.registry.frames.picture(found))[0], 128);
    await life.rig.after(100);
    life.kill();
    const next = begin();
    await next.rig.registry.wake();
    assert.equal((await next.rig.registry.frames.find(session.id, 0)).session.seed, session.view.seed);
    await assert.rejects(next.rig.registry.frames.find(session.id, 8 * FRAME_90K), code('not_kept'));
    const removing = next.rig.registry.remove(session.id, 'deleted');
    await next.rig.after(100);
    await removing;
    await assert.rejects(next.rig.registry.frames.find(session.id, 0), code('session_not_found'));
  });

  it('of a chunk in which the session ended are there as far as they were presented, which the engine is told', async () => {
    const life = begin();
    const { session } = await life.rig.join();
    life.chunks(session.id, 0, 1, madeChunk);
    present(life, session.id, 5 * FRAME_90K);
    await Promise.all([session.close('over'), life.rig.after(200)]);
    const closed = life.rig.engine.sent.find((message) => message.type === 'session.close');
    assert.ok(closed?.type === 'session.close' && closed.presented?.media90k === 5 * FRAME_90K && closed.presented.epoch === 0);
    life.storage.receive('engine', { type: 'write', number: 100, write: { type: 'part', sessionId: session.id, branch: 0, chunk: madeChunk(2, { frames: 1 }) } });
    const found = await life.rig.registry.frames.find(session.id, 4 * FRAME_90K);
    assert.deepEqual([life.rig.registry.frames.receipt(found).chunk, found.sha256], [2, hash(2)]);
    await assert.rejects(life.rig.registry.frames.find(session.id, 5 * FRAME_90K), code('not_kept'));
  });

  it('were made with weights and adapters that the session tells of in stretches: the last goes on while it is live', async () => {
    const life = begin();
    const { session } = await life.rig.join();
    const noir = { id: 'noir', scale: 1, version: 'n1' };
    life.chunks(session.id, 0, 7, (chunk) => madeChunk(chunk, chunk < 2 ? {} : chunk < 5 ? { adapter: noir } : { weightsVersion: 'w2' }));
    const chunk90k = 2 * FRAME_90K;
    const spans = (end: number | null) => [
      { from90k: 0, to90k: 2 * chunk90k, weightsVersion: 'w1', adapterVersions: {} },
      { from90k: 2 * chunk90k, to90k: 5 * chunk90k, weightsVersion: 'w1', adapterVersions: { noir: 'n1@1' } },
      { from90k: 5 * chunk90k, to90k: end, weightsVersion: 'w2', adapterVersions: {} },
    ];
    assert.deepEqual((await life.rig.registry.viewWhole(session.id)).weightVersions, spans(null));
    await Promise.all([session.close('over'), life.rig.after(200)]);
    assert.deepEqual((await life.rig.registry.viewWhole(session.id)).weightVersions, spans(8 * chunk90k));
    await life.rig.after(100);
    life.kill();
    const next = begin();
    const view = await next.rig.registry.viewWhole(session.id);
    assert.deepEqual([view.state, view.reason, view.weightVersions], ['closed', 'over', spans(8 * chunk90k)]);
    await assert.rejects(next.rig.registry.viewWhole('ses_none'), code('session_not_found'));
  });

  it('that the engine never answers for end with an error', async () => {
    const rig = new SessionRig();
    const { session } = await rig.join();
    rig.media.emit({ type: 'media.position', sessionId: session.id, epoch: 0, sent90k: FRAME_90K, presented90k: FRAME_90K });
    rig.engine.seen = madeChunk(0, { frames: 1 });
    const found = await rig.registry.frames.find(session.id, 0);
    rig.engine.silent = true;
    const rejected = assert.rejects(rig.registry.frames.picture(found), code('timed_out'));
    await rig.after(20_000);
    await rejected;
  });
});
