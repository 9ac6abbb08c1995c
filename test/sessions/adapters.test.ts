import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { SegueError } from '../../src/protocol/errors.ts';
import { SessionRig } from './session_rig.ts';

const NOIR = { id: 'noir', scale: 1 };
const notUsable = (message: RegExp) => (error: unknown): boolean => error instanceof SegueError && error.code === 'adapter_not_usable' && message.test(error.message);

describe('an adapter of a session', () => {
  it('is asked for when it is created, and told to the engine and to whoever reads or joins the session', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join({ prompt: 'snowy', adapter: { id: 'noir' } });
    const opened = rig.engine.sent.find((message) => message.type === 'session.open');
    assert.deepEqual(opened?.adapter, NOIR);
    assert.deepEqual(session.view.adapter, NOIR);
    rig.media.arrive(session.id, connectionId, 'control', { type: 'hello', id: 'h', protocol: 1 });
    await rig.settle();
    const ready = rig.media.texts(connectionId).find(({ type }) => type === 'ready');
    assert.deepEqual(ready?.['adapters'], [{ id: 'noir', title: 'Noir' }, { id: 'glow', title: 'Glow' }]);
    assert.deepEqual(rig.media.texts(connectionId, 'state').findLast(({ type }) => type === 'session.updated')?.['adapter'], NOIR);
  });

  it('is switched by a redirect without words, which keeps those in force; `applied` names it', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join({ prompt: 'snowy' });
    rig.media.arrive(session.id, connectionId, 'control', { type: 'redirect', id: 'r1', adapter: { id: 'glow', scale: 0.5 }, seamless: true });
    await rig.settle();
    const { request, prompt, adapter } = rig.engine.requests[0] as unknown as { request: string; prompt: null; adapter: unknown };
    assert.deepEqual([request, prompt, adapter], ['redirect', null, { id: 'glow', scale: 0.5 }]);
    assert.equal(session.words.epoch, 0, 'it fences nothing');
    assert.deepEqual(rig.types(connectionId), ['accepted', 'applied']);
    assert.deepEqual(rig.media.texts(connectionId).at(-1)?.['adapter'], { id: 'glow', scale: 0.5 });
    assert.deepEqual([session.view.prompt, session.view.adapter], ['snowy', { id: 'glow', scale: 0.5 }]);
    rig.media.arrive(session.id, connectionId, 'control', { type: 'redirect', id: 'r2', prompt: 'mountains' });
    await rig.settle();
    assert.ok(!('adapter' in rig.engine.requests[1]!), 'what is not named is not told');
    assert.deepEqual([session.view.prompt, session.view.adapter], ['mountains', { id: 'glow', scale: 0.5 }]);
    rig.media.arrive(session.id, connectionId, 'control', { type: 'redirect', id: 'r3', adapter: null, seamless: true });
    await rig.settle();
    assert.deepEqual([session.view.prompt, session.view.adapter], ['mountains', null]);
    assert.deepEqual(session.memory.turns.map((turn) => [turn.prompt, turn.adapter?.id ?? null]), [['snowy', null], ['snowy', 'glow'], ['mountains', 'glow'], ['mountains', null]]);
  });

  it('takes along the words of a redirect that it replaces before anything of it was shown', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join({ prompt: 'snowy' });
    rig.engine.silent = true;
    rig.media.arrive(session.id, connectionId, 'control', { type: 'redirect', id: 'words', prompt: 'mountains', seamless: true });
    rig.media.arrive(session.id, connectionId, 'control', { type: 'redirect', id: 'style', adapter: { id: 'noir' }, seamless: true });
    await rig.settle();
    assert.deepEqual(rig.types(connectionId), ['accepted', 'superseded', 'accepted']);
    assert.deepEqual([session.view.prompt, session.view.adapter], ['mountains', NOIR]);
    rig.media.arrive(session.id, connectionId, 'control', { type: 'interrupt', id: 'i' });
    await rig.settle();
    assert.deepEqual([session.view.prompt, session.view.adapter], ['snowy', null], 'an interrupt takes both back');
    await session.close('the test is over');
  });

  it('that the model lacks, or a scale out of range, is one error that lists the ids: on creation, by REST, on a channel', async () => {
    const rig = new SessionRig();
    await assert.rejects(rig.create({ adapter: { id: 'sepia' } }), notUsable(/no adapter sepia; this model has noir, glow/));
    await assert.rejects(rig.create({ adapter: { id: 'noir', scale: -0.1 } }), notUsable(/0 to 1\.5, got -0\.1; this model has noir, glow/));
    assert.equal(rig.engine.sent.length, 0);
    const { session, connectionId } = await rig.join();
    await assert.rejects(session.request({ type: 'redirect', id: 'r1', adapter: { id: 'sepia' } }, 'accepted'), notUsable(/noir, glow/));
    assert.equal(session.words.epoch, 0, 'by REST nothing is fenced for it');
    rig.media.arrive(session.id, connectionId, 'control', { type: 'redirect', id: 'r2', prompt: 'snowy', adapter: { id: 'noir', scale: 2 } });
    await rig.settle();
    assert.deepEqual(rig.types(connectionId), ['error']);
    assert.equal((rig.media.texts(connectionId)[0]?.['error'] as { code: string }).code, 'adapter_not_usable');
    assert.deepEqual(rig.engine.requests.map(({ request }) => request), ['adopt'], 'the epoch that was raised for it is gone on under');
    assert.equal(session.view.adapter, null);
  });

  it('or words: a redirect for nothing is refused, and fences nothing', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join();
    rig.media.arrive(session.id, connectionId, 'control', { type: 'redirect', id: 'r1' }, { fence: false });
    await rig.settle();
    const error = rig.media.texts(connectionId)[0]?.['error'] as { code: string; param: string };
    assert.deepEqual([error.code, error.param], ['bad_request', 'prompt']);
    assert.deepEqual(rig.engine.requests, []);
  });
});
