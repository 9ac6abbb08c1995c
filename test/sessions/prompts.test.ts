import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { SegueError } from '../../src/protocol/errors.ts';
import { SessionRig } from './session_rig.ts';

const notUnderstood = (error: unknown): boolean => error instanceof SegueError && error.code === 'prompt_not_understood';
const redirect = (id: string, prompt: string) => ({ type: 'redirect', id, prompt });

describe('a prompt of only unknown words', () => {
  it('opens no session: nothing is asked of the engine', async () => {
    const rig = new SessionRig();
    await assert.rejects(rig.create({ prompt: 'qwertz' }), notUnderstood);
    assert.deepEqual([rig.engine.sent.length, rig.registry.live.length], [0, 0]);
  });

  it('by REST is refused before it fences, and is never accepted', async () => {
    const rig = new SessionRig();
    const { session } = await rig.join();
    await assert.rejects(session.request({ type: 'redirect', id: 'r1', prompt: 'qwertz' }, 'accepted'), notUnderstood);
    assert.equal(session.words.epoch, 0);
    assert.deepEqual(rig.engine.requests, []);
    assert.equal(session.view.prompt, null);
  });

  it('on a channel is answered by that error alone, whichever copy comes first; the raised epoch is adopted once', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join();
    for (const channel of ['input', 'control', 'input'] as const) rig.media.arrive(session.id, connectionId, channel, redirect('r1', 'qwertz'));
    await rig.settle();
    assert.deepEqual(rig.types(connectionId), ['error']);
    assert.equal((rig.media.texts(connectionId)[0]?.['error'] as { code: string }).code, 'prompt_not_understood');
    assert.deepEqual(rig.engine.requests.map(({ request, epoch }) => [request, epoch]), [['adopt', 1]]);
    assert.deepEqual(session.memory.turns.map(({ prompt }) => prompt), [null]);
  });

  it('does not end the redirect before it, nor a pause', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join();
    rig.media.arrive(session.id, connectionId, 'control', { type: 'pause', id: 'p1' });
    await rig.settle();
    rig.media.arrive(session.id, connectionId, 'control', redirect('r1', 'qwertz'));
    assert.equal(session.state, 'paused');
    rig.engine.silent = true;
    rig.media.arrive(session.id, connectionId, 'control', redirect('r2', 'city'));
    rig.media.arrive(session.id, connectionId, 'control', redirect('r3', 'qwertz'));
    await rig.settle();
    rig.engine.apply(rig.engine.requests.find(({ requestId }) => requestId === 'r2')!);
    assert.ok(rig.media.texts(connectionId).some(({ type, re }) => type === 'applied' && re === 'r2'));
  });
});

describe('a prompt with some unknown words', () => {
  it('is accepted with warnings by code, at once', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join({ prompt: 'city with unicorns' });
    assert.deepEqual(session.promptWarnings.map(({ code, words }) => [code, words]), [['unknown_words', ['unicorns']]]);
    rig.media.arrive(session.id, connectionId, 'control', redirect('r1', 'desert and unicorns'));
    await rig.settle();
    const [accepted] = rig.media.texts(connectionId) as { warnings?: { code: string; words: string[] }[] }[];
    assert.deepEqual(accepted?.warnings?.map(({ code, words }) => [code, words]), [['unknown_words', ['unicorns']]]);
    const byRest = await session.request({ type: 'redirect', id: 'r2', prompt: 'city' }, 'accepted');
    assert.ok(byRest.type === 'accepted' && byRest.warnings === undefined);
  });
});
