/** Sessions that are kept, on a virtual clock: real registry, real database, scripted engine and media. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { SegueError } from '../../src/protocol/errors.ts';
import { keptLives, RESUME_MS } from './KeptLife.ts';
import { CARD } from './scripted_links.ts';


describe('sessions that are kept', () => {
  const { begin, lives } = keptLives();

  it('a redirect is told as applied once its request is on disk; a disk that stands still holds it up for a second at most', async () => {
    const { rig } = begin();
    const { session, connectionId } = await rig.join();
    await rig.after(100);
    rig.media.arrive(session.id, connectionId, 'control', { type: 'redirect', id: 'r', prompt: 'snowy' });
    await rig.settle();
    assert.deepEqual(rig.types(connectionId).filter((type) => type === 'accepted' || type === 'applied'), ['accepted']);
    await rig.after(25);
    assert.deepEqual(rig.types(connectionId).filter((type) => type === 'accepted' || type === 'applied'), ['accepted', 'applied']);
    lives[0]!.stuck = true;
    rig.media.arrive(session.id, connectionId, 'control', { type: 'redirect', id: 'r2', prompt: 'snowy' });
    await rig.after(990);
    assert.equal(rig.types(connectionId).filter((type) => type === 'applied').length, 1);
    await rig.after(20);
    assert.equal(rig.types(connectionId).filter((type) => type === 'applied').length, 2);
  });

  it('committed is what is on disk', async () => {
    const life = begin();
    const { rig } = life;
    const { session } = await rig.join();
    await rig.after(100);
    rig.engine.emit({ type: 'session.opened', sessionId: session.id, format: CARD.format, kept: true });
    rig.engine.emit({ type: 'session.committed', sessionId: session.id, epoch: 0, media90k: 30_000, chunk: 2 });
    assert.equal(session.view.committed90k, 0);
    life.chunks(session.id, 0, 0);
    assert.equal(session.view.committed90k, 0);
    await rig.after(25);
    assert.equal(session.view.committed90k, 15_000);
  });

  it('an event is told once it is on disk, so that its number can never be another’s; a disk that stands still holds it up for a second', async () => {
    const life = begin();
    const { session } = await life.rig.join();
    await life.rig.after(50);
    const told: string[] = [];
    session.events.subscribe(({ type }) => told.push(type), () => told.push('end'));
    session.events.append('something', {});
    assert.deepEqual([told, session.events.since(0).events.some(({ type }) => type === 'something')], [[], false]);
    await life.rig.after(30);
    assert.deepEqual([told, session.events.since(0).events.some(({ type }) => type === 'something')], [['something'], true]);
    life.stuck = true;
    session.events.append('unwritten', {});
    await life.rig.after(990);
    assert.deepEqual(told, ['something']);
    await life.rig.after(20);
    assert.deepEqual(told, ['something', 'unwritten']);
    life.stuck = false;
    const closing = session.close('enough');
    await life.rig.after(2_000);
    await closing;
    assert.deepEqual(told.slice(-2), ['session.closed', 'end']);
  });

  it('comes back once, however many come: same id, memory, answers and events, above every epoch of before', async () => {
    const first = begin();
    const { session, connectionId } = await first.rig.join({ prompt: 'mountains', seed: 5, tenant: 'somebody' });
    await first.rig.after(100);
    first.rig.media.arrive(session.id, connectionId, 'control', { type: 'redirect', id: 'shown', prompt: 'snowy' });
    await first.rig.after(50);
    first.rig.engine.silent = true;
    first.rig.media.arrive(session.id, connectionId, 'control', { type: 'redirect', id: 'lost', prompt: 'snowy mountains' });
    first.rig.media.arrive(session.id, connectionId, 'control', { type: 'pause', id: 'p' });
    first.rig.media.arrive(session.id, connectionId, 'control', { type: 'resume', id: 'q' });
    await first.rig.after(150);
    first.chunks(session.id, 0, 4);
    const events = session.events.sequence;
    const { epoch } = session.view;
    first.kill();

    const { rig } = begin();
    await rig.registry.wake();
    assert.deepEqual([rig.registry.view(session.id).state, rig.registry.view(session.id).committed90k], ['orphaned', 75_000]);
    assert.throws(() => rig.registry.get(session.id), (error: SegueError) => error.code === 'conflict');
    const [back, same] = await Promise.all([rig.registry.reach(session.id), rig.registry.reach(session.id)]);
    assert.equal(back, same);
    assert.equal(rig.registry.live.length, 1);
    const opened = rig.engine.sent.find((message) => message.type === 'session.open');
    assert.ok(opened?.type === 'session.open');
    assert.deepEqual([opened.seed, opened.prompt, opened.tenant, opened.story?.chunks.length], [5, 'mountains', 'somebody', 5]);
    assert.ok(back.view.epoch > epoch && back.view.committed90k === 75_000);
    assert.deepEqual(back.memory.turns.map(({ requestId, prompt, outcome }) => [requestId, prompt, outcome]), [[null, 'mountains', 'open'], ['shown', 'snowy', 'applied'], ['lost', 'snowy mountains', 'applied']]);
    assert.ok(back.events.sequence > events);
    await rig.after(30);
    assert.deepEqual(back.events.since(0).events.map(({ sequence }) => sequence), Array.from({ length: back.events.sequence }, (_, index) => index + 1));

    // Applied at 15,000, and 75,000 of the story are there: not asked for again. The one that was not answered is, and is answered then.
    assert.deepEqual(rig.engine.requests.filter(({ request }) => request === 'redirect').map(({ requestId }) => requestId), ['lost']);
    const connection = await rig.connect(back);
    await rig.after(100);
    const answers = (id: string): unknown[] => rig.media.texts(connection).filter(({ re }) => re === id).map(({ type }) => type);
    for (const [id, type] of [['shown', 'redirect'], ['lost', 'redirect'], ['p', 'pause']] as const) rig.media.arrive(back.id, connection, 'control', { type, id, ...(type === 'redirect' ? { prompt: 'snowy' } : {}) });
    await rig.after(50);
    assert.deepEqual(answers('shown'), ['accepted', 'applied']);
    assert.deepEqual(answers('lost'), ['accepted', 'applied']);
    assert.deepEqual(answers('p').at(-1), 'superseded', 'answered before, by the resume that came after it');
    assert.equal(back.memory.turns.length, 3, 'nothing is done twice');
  });

  it('a redirect that was told as applied is asked for again where its pictures were not kept', async () => {
    const first = begin();
    const { session, connectionId } = await first.rig.join();
    await first.rig.after(100);
    first.chunks(session.id, 0, 0);
    first.rig.media.arrive(session.id, connectionId, 'control', { type: 'redirect', id: 'r', prompt: 'snowy' });
    await first.rig.after(50);
    first.kill();
    const { rig } = begin();
    await rig.registry.wake();
    const back = await rig.registry.reach(session.id);
    const connection = await rig.connect(back);
    await rig.after(50);
    assert.deepEqual(rig.engine.requests.filter(({ request }) => request === 'redirect').map(({ requestId }) => requestId), ['r']);
    assert.equal(rig.media.texts(connection).filter(({ type }) => type === 'applied').length, 0, 'and not told again');
  });

  for (const request of [{ type: 'cut', prompt: 'snowy' }, { type: 'blend', prompt: 'snowy', chunks: 5 }] as const) {
    it(`a ${request.type} whose effect was lost is asked for again as what it was, voids a redirect before it, and is answered once; a hold does not outlive the process`, async () => {
      const first = begin();
      const { session, connectionId } = await first.rig.join();
      await first.rig.after(100);
      first.rig.engine.silent = true;
      first.chunks(session.id, 0, 4);
      first.rig.media.arrive(session.id, connectionId, 'control', { type: 'redirect', id: 'r', prompt: 'mountains' });
      first.rig.media.arrive(session.id, connectionId, 'control', { id: 'c', ...request });
      first.rig.media.arrive(session.id, connectionId, 'control', { type: 'hold', id: 'h' });
      await first.rig.after(150);
      first.kill();
      const { rig } = begin();
      await rig.registry.wake();
      const back = await rig.registry.reach(session.id);
      await rig.after(50);
      assert.deepEqual(rig.engine.requests.map(({ requestId, request: kind }) => [requestId, kind]), [['c', request.type]]);
      const [asked] = rig.engine.requests;
      if (asked?.request === 'blend') assert.equal(asked.chunks, 5);
      const connection = await rig.connect(back);
      await rig.after(50);
      for (const body of [{ type: 'redirect', id: 'r', prompt: 'mountains' }, { id: 'c', ...request }, { type: 'hold', id: 'h' }]) rig.media.arrive(back.id, connection, 'control', body);
      await rig.after(50);
      const answers = (id: string): unknown[] => rig.media.texts(connection).filter(({ re }) => re === id).map(({ type }) => type);
      assert.deepEqual([answers('r').at(-1), answers('c'), answers('h').at(-1)], ['superseded', ['accepted', 'applied'], 'error']);
      assert.equal(rig.engine.requests.filter(({ request: kind }) => kind !== 'adopt').length, 1, 'nothing is asked twice');
      assert.deepEqual(back.memory.turns.map(({ requestId, outcome }) => [requestId, outcome]).slice(-2), [['r', 'superseded'], ['c', 'applied']]);
      assert.equal(back.view.state === 'paused', false);
    });
  }

  it('asks for capacity like anybody: without it, it waits, and is there later', async () => {
    const first = begin();
    const { session } = await first.rig.join();
    await first.rig.after(100);
    first.kill();
    const { rig } = begin({ capacity: 0 });
    await rig.registry.wake();
    await assert.rejects(rig.registry.reach(session.id), (error: SegueError) => error.code === 'at_capacity');
    await rig.after(3_000);
    assert.equal(rig.registry.view(session.id).state, 'orphaned');
    rig.engine.capacity = 1;
    assert.equal((await rig.registry.reach(session.id)).id, session.id);
  });

  it('nobody comes: after its time it is over, for good', async () => {
    const first = begin();
    const { session } = await first.rig.join();
    await first.rig.after(100);
    first.kill();
    const second = begin();
    await second.rig.registry.wake();
    await second.rig.after(RESUME_MS + 1_000);
    await assert.rejects(second.rig.registry.reach(session.id), (error: SegueError) => error.code === 'session_not_found');
    await second.rig.after(100);
    second.kill();
    const third = begin();
    await third.rig.registry.wake();
    assert.throws(() => third.rig.registry.view(session.id), (error: SegueError) => error.code === 'session_not_found');
    // Only on disk, and deleted there: told when that is so.
    let removed = false;
    const removing = third.rig.registry.remove(session.id, 'deleted').then((view) => ((removed = true), view));
    await third.rig.after(5);
    assert.equal(removed, false);
    await third.rig.after(50);
    assert.equal((await removing).state, 'closed');
    await assert.rejects(third.rig.registry.remove(session.id, 'deleted'), (error: SegueError) => error.code === 'session_not_found');
  });

  it('one that was closed does not come back; one that ended with the server does', async () => {
    const first = begin();
    const closed = await first.rig.join();
    const drained = await first.rig.join();
    const closing = closed.session.close('done');
    await first.rig.after(3_000);
    await closing;
    const all = first.rig.registry.closeAll('the server is shutting down');
    await first.rig.after(3_000);
    await all;
    first.kill();
    const { rig } = begin();
    await rig.registry.wake();
    await assert.rejects(rig.registry.reach(closed.session.id), (error: SegueError) => error.code === 'session_not_found');
    assert.equal((await rig.registry.reach(drained.session.id)).id, drained.session.id);
  });
});
