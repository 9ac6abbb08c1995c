import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import type { SegueError } from '../../src/protocol/errors.ts';
import { MAX_OPEN, MAX_REMEMBERED } from '../../src/sessions/RequestLedger.ts';
import { SessionRig } from './session_rig.ts';

const interrupt = (id: string) => ({ type: 'interrupt', id });
const redirect = (id: string, prompt = 'snowy mountains') => ({ type: 'redirect', id, prompt });

describe('life of a request', () => {
  it('is accepted with epoch and held position, handed to the engine, and applied', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join();
    rig.media.arrive(session.id, connectionId, 'control', redirect('r1'));
    await rig.settle();
    const [accepted, applied] = rig.media.texts(connectionId);
    assert.deepEqual(accepted, { type: 'accepted', re: 'r1', epoch: 1, conditioningVersion: 1, held90k: 7_500 });
    assert.equal(applied?.['type'], 'applied');
    assert.equal(applied?.['how'], 'restart');
    const request = rig.engine.requests.at(-1);
    assert.ok(request?.request === 'redirect');
    assert.deepEqual([request.epoch, request.conditioningVersion, request.presented90k, request.prompt, request.seamless], [1, 1, 7_500, 'snowy mountains', false]);
    assert.equal(session.view.prompt, 'snowy mountains');
    assert.equal(session.memory.turns.at(-1)?.outcome, 'applied');
  });

  it('a commit that was told before a fence still counts after it: committed never goes back', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join();
    rig.media.arrive(session.id, connectionId, 'control', interrupt('i1'));
    await rig.settle();
    const committed = (epoch: number, media90k: number) => rig.engine.emit({ type: 'session.committed', sessionId: session.id, epoch, media90k, chunk: 0 });
    committed(0, 15_000);
    assert.equal(session.view.committed90k, 15_000);
    committed(1, 7_500);
    assert.equal(session.view.committed90k, 15_000);
  });

  it('four copies of one interrupt fence once and are answered once', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join();
    for (const channel of ['input', 'control', 'input', 'input'] as const) rig.media.arrive(session.id, connectionId, channel, interrupt('i1'));
    await rig.settle();
    assert.deepEqual(rig.types(connectionId), ['accepted', 'applied']);
    assert.equal(rig.engine.requests.length, 1);
    assert.equal(session.words.epoch, 1);
  });

  it('the same id again gets the same answers, also on the connection that replaces the first', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join();
    rig.media.arrive(session.id, connectionId, 'control', interrupt('i1'));
    await rig.settle();
    const first = rig.media.texts(connectionId);
    rig.media.arrive(session.id, connectionId, 'control', interrupt('i1'));
    await rig.settle();
    assert.deepEqual(rig.media.texts(connectionId), [...first, ...first]);
    const second = await rig.connect(session);
    rig.media.arrive(session.id, second, 'control', interrupt('i1'));
    await rig.settle();
    assert.deepEqual(rig.media.texts(second), first);
    assert.equal(rig.engine.requests.filter(({ request }) => request === 'interrupt').length, 1);
  });

  it('an answer that comes after a rejoin goes to the new connection', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join();
    rig.engine.silent = true;
    rig.media.arrive(session.id, connectionId, 'control', redirect('r1'));
    const second = await rig.connect(session);
    rig.media.arrive(session.id, second, 'control', redirect('r1'));
    await rig.settle();
    rig.engine.apply(rig.engine.requests.find(({ requestId }) => requestId === 'r1')!);
    assert.deepEqual(rig.types(second), ['accepted', 'applied']);
    assert.ok(!rig.types(connectionId).includes('applied'));
  });

  it('an epoch that was raised for a duplicate by another way is adopted', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join();
    rig.media.arrive(session.id, connectionId, 'control', interrupt('i1'));
    rig.media.arrive(session.id, null, 'control', interrupt('i1'), { fence: true });
    await rig.settle();
    assert.deepEqual(rig.engine.requests.map(({ request, epoch }) => [request, epoch]), [['interrupt', 1], ['adopt', 2]]);
  });

  it('an epoch that was raised for an invalid request is adopted, and the request is refused', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join();
    rig.media.arrive(session.id, connectionId, 'control', { type: 'redirect', id: 'r1' }, { fence: true });
    await rig.settle();
    assert.equal(rig.engine.requests.at(-1)?.request, 'adopt');
    const [answer] = rig.media.texts(connectionId) as { error?: { code: string; param: string } }[];
    assert.deepEqual([answer?.error?.code, answer?.error?.param], ['bad_request', 'prompt']);
  });

  it('the newest of a kind wins, and an interrupt voids the redirect before it', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join();
    rig.engine.silent = true;
    rig.media.arrive(session.id, connectionId, 'control', redirect('r1'));
    rig.media.arrive(session.id, connectionId, 'control', redirect('r2'));
    rig.media.arrive(session.id, connectionId, 'control', interrupt('i1'));
    await rig.settle();
    const superseded = rig.media.texts(connectionId).filter(({ type }) => type === 'superseded');
    assert.deepEqual(superseded, [
      { type: 'superseded', re: 'r1', by: 'r2' },
      { type: 'superseded', re: 'r2', by: 'i1' },
    ]);
    assert.deepEqual(session.memory.turns.map(({ outcome }) => outcome), ['open', 'superseded', 'superseded']);
  });

  it('a request that the engine never answers is ended by the watchdog, and the next one works', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join();
    rig.engine.silent = true;
    rig.media.arrive(session.id, connectionId, 'control', redirect('r1'));
    await rig.after(4_999);
    assert.deepEqual(rig.types(connectionId), ['accepted']);
    await rig.after(1);
    const last = rig.media.texts(connectionId).at(-1) as { error: { code: string } };
    assert.equal(last.error.code, 'timed_out');
    rig.engine.apply(rig.engine.requests.at(-1)!); // too late: it has had its answer
    assert.deepEqual(rig.types(connectionId), ['accepted', 'error']);
    rig.engine.silent = false;
    rig.media.arrive(session.id, connectionId, 'control', redirect('r2'));
    await rig.settle();
    assert.deepEqual(rig.types(connectionId).slice(-2), ['accepted', 'applied']);
  });

  it('remembers the last 1,024 ids and no more', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join();
    for (let at = 0; at <= MAX_REMEMBERED; at++) {
      rig.media.arrive(session.id, connectionId, 'control', interrupt(`i${at}`));
      if (at % 32 === 0) await rig.settle();
    }
    await rig.settle();
    const before = rig.engine.requests.length;
    rig.media.arrive(session.id, connectionId, 'control', interrupt(`i${MAX_REMEMBERED}`));
    await rig.settle();
    assert.equal(rig.engine.requests.length, before);
    // The media thread remembers a forgotten id longer than this thread does: it must not be taken for a new request without a fence.
    rig.media.arrive(session.id, connectionId, 'control', interrupt('i0'));
    await rig.settle();
    const last = rig.media.texts(connectionId).at(-1) as { error: { code: string } };
    assert.equal(last.error.code, 'conflict');
  });

  it('however fast redirects come, only the newest is open, and none is refused', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join();
    rig.engine.silent = true;
    for (let at = 0; at < 3 * MAX_OPEN; at++) rig.media.arrive(session.id, connectionId, 'control', redirect(`r${at}`));
    await rig.settle();
    assert.equal(rig.media.texts(connectionId).filter(({ type }) => type === 'error').length, 0);
    assert.equal(rig.media.texts(connectionId).filter(({ type }) => type === 'superseded').length, 3 * MAX_OPEN - 1);
  });

  it('a watcher may not drive: forbidden, nothing reaches the engine', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join();
    const watcher = await rig.connect(session, ['watch']);
    rig.media.arrive(session.id, connectionId, 'control', interrupt('i1'));
    rig.media.arrive(session.id, watcher, 'control', interrupt('i1'), { fence: false });
    rig.media.arrive(session.id, watcher, 'control', redirect('r1'), { fence: false });
    await rig.settle();
    assert.deepEqual(rig.media.texts(watcher).map((message) => (message['error'] as { code: string }).code), ['forbidden', 'forbidden']);
    assert.equal(rig.engine.requests.length, 1);
  });

  it('by REST passes the media thread, and the caller gets the answer', async () => {
    const rig = new SessionRig();
    const { session } = await rig.join();
    const accepted = await session.request({ type: 'interrupt', id: 'i1' }, 'accepted');
    assert.deepEqual([accepted.type, session.words.epoch], ['accepted', 1]);
    const applied = await session.request({ type: 'redirect', id: 'r1', prompt: 'city' }, 'settled');
    assert.equal(applied.type, 'applied');
    assert.deepEqual(await session.request({ type: 'redirect', id: 'r1', prompt: 'city' }, 'settled'), applied);
    assert.equal(rig.media.sent.filter(({ type }) => type === 'channel.inject').length, 2);
  });

  it('by REST times out when the media thread says nothing', async () => {
    const rig = new SessionRig();
    const { session } = await rig.join();
    rig.media.deaf = true;
    const answer = assert.rejects(session.request({ type: 'interrupt', id: 'i1' }, 'accepted'), (error: SegueError) => error.code === 'timed_out');
    await rig.after(6_000);
    await answer;
  });

  it('by REST is refused while there is no connection', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join();
    rig.media.emit({ type: 'connection.state', sessionId: session.id, connectionId, state: 'closed' });
    await assert.rejects(session.request({ type: 'interrupt', id: 'i1' }, 'accepted'), (error: SegueError) => error.code === 'conflict');
  });

  it('whatever order and copies come: one answer chain per id, never two last answers', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.record({ id: fc.integer({ min: 0, max: 9 }), kind: fc.constantFrom('interrupt', 'redirect', 'cut', 'blend', 'hold', 'release', 'pause', 'resume'), channel: fc.constantFrom('control', 'input'), silent: fc.boolean(), wait: fc.integer({ min: 0, max: 3_000 }) }), { maxLength: 40 }), async (steps) => {
        const rig = new SessionRig();
        const { session, connectionId } = await rig.join();
        for (const { id, kind, channel, silent, wait } of steps) {
          rig.engine.silent = silent;
          const repeated = kind === 'interrupt' || kind === 'redirect' || kind === 'cut';
          const message = { type: kind, id: `${kind}${id}`, ...(kind === 'redirect' || kind === 'cut' || kind === 'blend' ? { prompt: 'snowy mountains at night' } : {}) };
          rig.media.arrive(session.id, connectionId, repeated ? channel : 'control', message);
          await rig.after(wait);
        }
        await rig.after(6_000);
        const events = session.events.since(0).events.filter(({ type }) => type.startsWith('request.'));
        const byId = Map.groupBy(events, ({ data }) => data['re'] as string);
        for (const [id, answers] of byId) {
          const types = answers.map(({ type }) => type);
          assert.equal(types[0], 'request.accepted', id);
          assert.equal(types.length, 2, `${id}: ${types.join()}`);
        }
        // Every raised epoch reached the engine exactly once.
        const epochs = rig.engine.requests.filter(({ request }) => ['interrupt', 'redirect', 'cut', 'adopt'].includes(request)).map(({ epoch }) => epoch);
        assert.deepEqual(epochs, Array.from({ length: session.words.epoch }, (_, at) => at + 1));
        await session.close('done');
        assert.equal(rig.clock.pending, 0);
      }),
      { numRuns: 60 },
    );
  });
});
