import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { SegueError } from '../../src/protocol/errors.ts';
import type { Session } from '../../src/sessions/Session.ts';
import { OFFER, SessionRig } from './session_rig.ts';

const code = (expected: string) => (error: unknown) => error instanceof SegueError && error.code === expected;

const has = (session: Session, connectionId: string): boolean => session.connections.some(({ id }) => id === connectionId);

describe('life of a session', () => {
  it('opens, connects, and answers hello with what it serves', async () => {
    const rig = new SessionRig();
    const session = await rig.create({ prompt: 'desert', seed: 7 });
    assert.equal(session.state, 'connecting');
    const connectionId = await rig.connect(session);
    assert.equal(session.state, 'active');
    rig.media.arrive(session.id, connectionId, 'control', { type: 'hello', id: 'h1', protocol: 1 });
    const [ready] = rig.media.texts(connectionId);
    assert.deepEqual([ready?.['type'], ready?.['re'], ready?.['session'], ready?.['framesPerChunk']], ['ready', 'h1', session.id, 2]);
    assert.equal(session.view.prompt, 'desert');
  });

  it('an unknown protocol is told which one is spoken', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join();
    rig.media.arrive(session.id, connectionId, 'control', { type: 'hello', id: 'h1', protocol: 9 });
    const [answer] = rig.media.texts(connectionId) as { error: { code: string; message: string } }[];
    assert.equal(answer?.error.code, 'unsupported_protocol');
    assert.match(answer.error.message, /supported: 1/);
  });

  it('fails with timed_out when the engine does not answer, and leaves no timer', async () => {
    const rig = new SessionRig();
    rig.engine.deaf = true;
    const opening = assert.rejects(rig.create(), code('timed_out'));
    await rig.after(5_000);
    await opening;
    await rig.after(2_000);
    assert.deepEqual(rig.registry.live, []);
    assert.equal(rig.clock.pending, 0);
  });

  it('is kept for 60 s without a connection, generates nothing meanwhile, and goes on when someone rejoins', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join();
    rig.media.emit({ type: 'connection.state', sessionId: session.id, connectionId, state: 'disconnected' });
    assert.equal(session.state, 'orphaned');
    assert.equal(rig.engine.requests.at(-1)?.request, 'pause');
    await rig.after(59_000);
    const { id } = await session.connect(OFFER, ['drive'], connectionId);
    rig.media.emit({ type: 'connection.state', sessionId: session.id, connectionId: id, state: 'connected' });
    assert.equal(session.state, 'active');
    assert.equal(rig.engine.requests.at(-1)?.request, 'resume');
    await rig.after(10_000);
    assert.equal(session.state, 'active');
  });

  it('closes when nobody comes back, and says so', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join();
    rig.media.emit({ type: 'connection.state', sessionId: session.id, connectionId, state: 'closed' });
    await rig.after(60_000);
    assert.equal(session.state, 'closed');
    assert.match(session.view.reason ?? '', /no connection for 60 s/);
    assert.throws(() => rig.registry.get(session.id), code('session_closed'));
    assert.equal(rig.registry.view(session.id).state, 'closed');
    assert.equal(rig.engine.open.size, 0);
    assert.equal(rig.clock.pending, 0);
  });

  it('closes when nobody ever connects', async () => {
    const rig = new SessionRig();
    const session = await rig.create({ limits: { orphanMs: 5_000 } });
    await rig.after(5_000);
    assert.equal(session.state, 'closed');
    assert.match(session.view.reason ?? '', /nobody connected/);
  });

  it('a paused session that is rejoined is paused again', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join();
    rig.media.arrive(session.id, connectionId, 'control', { type: 'pause', id: 'p1' });
    await rig.settle();
    assert.equal(session.state, 'paused');
    rig.media.emit({ type: 'connection.state', sessionId: session.id, connectionId, state: 'closed' });
    assert.equal(session.state, 'orphaned');
    await rig.connect(session);
    assert.equal(session.state, 'paused');
    assert.deepEqual(rig.engine.requests.map(({ request }) => request), ['pause']);
  });

  it('an interrupted session that is rejoined stays interrupted', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join();
    rig.media.arrive(session.id, connectionId, 'control', { type: 'interrupt', id: 'i1' });
    await rig.settle();
    rig.media.emit({ type: 'connection.state', sessionId: session.id, connectionId, state: 'closed' });
    const second = await rig.connect(session);
    assert.deepEqual(rig.engine.requests.map(({ request }) => request), ['interrupt']);
    rig.media.arrive(session.id, second, 'control', { type: 'redirect', id: 'r1', prompt: 'night' });
    rig.media.emit({ type: 'connection.state', sessionId: session.id, connectionId: second, state: 'closed' });
    assert.deepEqual(rig.engine.requests.map(({ request }) => request), ['interrupt', 'redirect', 'pause']);
  });

  it('a hold and its end leave what was in force as it was: paused, interrupted, or neither', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join();
    const ask = async (type: string): Promise<void> => {
      rig.media.arrive(session.id, connectionId, 'control', { type, id: `${type}${rig.engine.requests.length}` });
      await rig.settle();
    };
    for (const type of ['hold', 'release']) {
      await ask(type);
      assert.equal(session.state, 'active');
    }
    await ask('pause');
    for (const type of ['hold', 'release']) {
      await ask(type);
      assert.equal(session.state, 'paused');
    }
    await ask('resume');
    await ask('interrupt');
    await ask('release');
    rig.media.emit({ type: 'connection.state', sessionId: session.id, connectionId, state: 'closed' });
    await rig.connect(session);
    assert.deepEqual(rig.engine.requests.map(({ request }) => request), ['hold', 'release', 'pause', 'hold', 'release', 'resume', 'interrupt', 'release'], 'nothing was paused or resumed on its own account');
  });

  it('tells drivers and readers of events when a blend is done and when a hold has ended by itself', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join();
    rig.engine.emit({ type: 'request.completed', sessionId: session.id, requestId: 'b', epoch: 0, conditioningVersion: 1, chunk: 9, media90k: 135_000 });
    rig.engine.emit({ type: 'hold.expired', sessionId: session.id, requestId: 'h' });
    const told = [{ type: 'request.completed', re: 'b', epoch: 0, conditioningVersion: 1, chunk: 9, media90k: 135_000 }, { type: 'hold.expired', re: 'h' }];
    assert.deepEqual(rig.media.texts(connectionId, 'state').slice(-2), told);
    assert.deepEqual(session.events.since(0).events.slice(-2).map(({ type, data }) => ({ type, ...data })), told);
  });

  it('a redirect that the engine refuses leaves a paused session paused', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join();
    rig.media.arrive(session.id, connectionId, 'control', { type: 'pause', id: 'p1' });
    await rig.settle();
    rig.engine.silent = true;
    rig.media.arrive(session.id, connectionId, 'control', { type: 'redirect', id: 'r1', prompt: 'city' });
    await rig.settle();
    assert.equal(session.state, 'active');
    rig.engine.emit({ type: 'request.failed', sessionId: session.id, requestId: 'r1', error: new SegueError('prompt_not_understood', 'no known word').toBody() });
    assert.equal(session.state, 'paused');
    assert.equal(session.view.prompt, null);
    assert.equal((rig.media.texts(connectionId).at(-1)?.['error'] as { code: string }).code, 'prompt_not_understood');
  });

  it('a bad offer costs nobody the picture: the old connection stays until a new one is answered', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join();
    await assert.rejects(session.connect('v=0 nothing', ['drive'], connectionId), code('bad_sdp'));
    assert.equal(session.state, 'active');
    assert.ok(has(session, connectionId));
    const { id } = await session.connect(OFFER, ['drive'], connectionId);
    assert.ok(!has(session, connectionId));
    assert.ok(has(session, id));
    assert.deepEqual(rig.types(connectionId), ['closed']);
  });

  it('an offer that is never answered times out and leaves no connection', async () => {
    const rig = new SessionRig();
    const session = await rig.create();
    rig.media.silent = true;
    const offering = assert.rejects(session.connect(OFFER, ['drive']), code('timed_out'));
    await rig.after(5_000);
    await offering;
    assert.deepEqual(session.connections, []);
  });

  it('rejoining an unknown connection is refused', async () => {
    const rig = new SessionRig();
    const { session } = await rig.join();
    await assert.rejects(session.connect(OFFER, ['drive'], 'con_nothing'), code('connection_not_found'));
  });

  it('warns before it closes for idleness; a request or a key resets it', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join({ limits: { idleMs: 100_000 } });
    const idle = (): number => rig.types(connectionId).filter((type) => type === 'idle').length;
    await rig.after(49_000);
    rig.media.arrive(session.id, connectionId, 'control', { type: 'resume', id: 'x' });
    await rig.after(49_000);
    assert.equal(idle(), 0);
    await rig.after(2_000);
    assert.equal(idle(), 1);
    session.words.writeAction({ sequence: 1, steer: 1, speed: 1, leftPresses: 0, rightPresses: 1 });
    await rig.after(45_000);
    assert.equal(session.state, 'active');
    await rig.after(120_000);
    assert.equal(session.state, 'closed');
    assert.match(session.view.reason ?? '', /idle/);
    assert.ok(idle() > 1);
    assert.equal(rig.types(connectionId).at(-1), 'closed');
  });

  it('closing ends everything once, in order: engine, then the word to clients, then media', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join();
    const waiting = assert.rejects(session.request({ type: 'interrupt', id: 'i1' }, 'settled'), code('session_closed'));
    rig.engine.silent = true;
    const [first, second] = [session.close('enough'), session.close('again')];
    assert.equal(first, second);
    await first;
    await waiting;
    assert.equal(session.state, 'closed');
    assert.ok(session.words.closed);
    assert.deepEqual(rig.engine.sent.filter(({ type }) => type === 'session.close').length, 1);
    const order = rig.media.sent.map((message) => (message.type === 'channel.send' ? ((JSON.parse(message.text) as { type: string }).type) : message.type));
    assert.ok(order.indexOf('closed') > 0 && order.indexOf('closed') < order.indexOf('session.close'));
    assert.deepEqual(rig.media.texts(connectionId).at(-1), { type: 'closed', reason: 'enough' });
    assert.equal(rig.clock.pending, 0);
  });

  it('nothing brings a closed session back', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join();
    await session.close('enough');
    session.onMedia({ type: 'connection.state', sessionId: session.id, connectionId, state: 'connected' });
    session.onEngine({ type: 'session.opened', sessionId: session.id, format: { width: 1, height: 1, framesPerSecond: 12, audioSampleRate: 24_000 } });
    rig.media.emit({ type: 'channel.message', sessionId: session.id, connectionId, channel: 'control', text: '{"type":"interrupt","id":"x"}', fencedEpoch: 1, held: null });
    await rig.settle();
    assert.equal(session.state, 'closed');
    assert.deepEqual(rig.engine.requests, []);
    await assert.rejects(session.connect(OFFER, ['drive']), code('session_closed'));
  });

  it('closes within its watchdogs although engine and peers say nothing', async () => {
    const rig = new SessionRig();
    const { session } = await rig.join();
    rig.engine.deaf = true;
    rig.media.alive = false;
    const closing = session.close('enough');
    await rig.after(3_000);
    await closing;
    assert.equal(session.state, 'closed');
    assert.equal(rig.clock.pending, 0);
  });

  it('a fatal fault fails this session with its reason; the other goes on', async () => {
    const rig = new SessionRig();
    const { session } = await rig.join();
    const other = await rig.join();
    rig.engine.emit({ type: 'session.fault', sessionId: session.id, error: new SegueError('unit_failed', 'the kernel threw').toBody(), fatal: true });
    await rig.settle();
    assert.equal(session.state, 'failed');
    assert.equal(session.view.reason, 'the kernel threw');
    assert.equal(other.session.state, 'active');
  });

  it('a fault that is not fatal is told, and the session goes on', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join();
    rig.engine.emit({ type: 'session.fault', sessionId: session.id, error: new SegueError('unit_failed', 'once').toBody(), fatal: false });
    assert.equal(session.state, 'active');
    assert.equal((rig.media.texts(connectionId).at(-1)?.['error'] as { code: string }).code, 'unit_failed');
  });

  it('remembers plan and narration by turn, and drops words of an older epoch', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join();
    const text = (requestId: string | null, words: string, epoch: number, complete = false) => rig.engine.emit({ type: 'text', sessionId: session.id, requestId, stream: 'narration', text: words, complete, epoch });
    text(null, 'an open ', 0);
    text(null, 'road', 0);
    rig.media.arrive(session.id, connectionId, 'control', { type: 'redirect', id: 'r1', prompt: 'night' });
    await rig.settle();
    text(null, ' late', 0);
    text('r1', 'it gets dark', 1, true);
    assert.deepEqual(session.memory.turns.map(({ narration }) => narration), ['an open road', 'it gets dark']);
    assert.deepEqual(
      rig.media.texts(connectionId, 'state').flatMap((message) => (String(message['type']).startsWith('text.') ? [message['text']] : [])),
      ['an open ', 'road', 'it gets dark'],
    );
  });

  it('positions of an older epoch are not taken', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join();
    rig.media.emit({ type: 'media.position', sessionId: session.id, epoch: 0, sent90k: 30_000, presented90k: 22_500 });
    assert.deepEqual([session.view.sent90k, session.view.presented90k], [30_000, 22_500]);
    rig.media.arrive(session.id, connectionId, 'control', { type: 'interrupt', id: 'i1' });
    rig.media.emit({ type: 'media.position', sessionId: session.id, epoch: 0, sent90k: 60_000, presented90k: 60_000 });
    assert.equal(session.view.presented90k, 7_500);
  });

  it('leaving on purpose ends a session that nobody else can come back to', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join({ endsOnLeave: true });
    session.disconnect(connectionId, 'the client left');
    await rig.after(1_000);
    assert.equal(session.state, 'closed');
    assert.equal(rig.engine.open.size, 0);
  });
});
