/** Rewind and fork as sessions take them, on a virtual clock: real registry and database, scripted engine and media. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { SegueError } from '../../src/protocol/errors.ts';
import { keptLives, type KeptLife } from './KeptLife.ts';
import { CARD } from './scripted_links.ts';

const BRANCH = { branch: 1, parent: 0, fromChunk: 2, from90k: 30_000, left90k: 60_000, requestId: 'w', epoch: 1, lineage: 5 };

describe('a session that is gone back in', () => {
  const { begin } = keptLives();

  async function playing(life: KeptLife) {
    const { rig } = life;
    const { session, connectionId } = await rig.join({ prompt: 'mountains' });
    await rig.after(100);
    rig.engine.emit({ type: 'session.opened', sessionId: session.id, format: CARD.format, kept: true });
    life.chunks(session.id, 0, 3);
    rig.media.arrive(session.id, connectionId, 'control', { type: 'redirect', id: 'r', prompt: 'snowy', seamless: true });
    await rig.after(50);
    rig.engine.emit({ type: 'request.applied', sessionId: session.id, requestId: 'r', how: 'continue', epoch: 0, conditioningVersion: 1, chunk: 3, step: 0, media90k: 45_000, predictedMs: null, elapsedMs: 1, warnings: [] });
    rig.media.emit({ type: 'media.position', sessionId: session.id, epoch: session.words.epoch, sent90k: 67_500, presented90k: 60_000 });
    return { rig, session, connectionId };
  }

  function rewound(life: KeptLife, sessionId: string, media90k: number, whole90k = media90k): void {
    life.rig.engine.emit({ type: 'session.rewound', sessionId, requestId: 'w', epoch: 1, media90k, presented90k: 60_000, whole90k, branch: 1 });
  }

  it('no further than was presented, which the answer says; positions, memory and words are those of then, and everybody is told', async () => {
    const life = begin();
    const { rig, session, connectionId } = await playing(life);
    rig.engine.silent = true;
    rig.media.arrive(session.id, connectionId, 'control', { type: 'rewind', id: 'far', media90k: 9_000_000 });
    rig.media.arrive(session.id, connectionId, 'control', { type: 'rewind', id: 'w', media90k: 0 });
    await rig.after(10);
    const answers = rig.media.texts(connectionId).filter(({ type, re }) => type === 'accepted' && re !== 'r' && typeof re === 'string' && ['far', 'w'].includes(re));
    assert.deepEqual(answers.map(({ re, clamped = false }) => [re, clamped]), [['far', true], ['w', false]]);
    assert.equal(answers[1]!['held90k'], 0);
    rewound(life, session.id, 30_000);
    assert.deepEqual([session.view.presented90k, session.view.prompt, session.presented90k], [30_000, 'mountains', 30_000]);
    assert.deepEqual(session.memory.turns.map(({ prompt, outcome, from90k }) => [prompt, outcome, from90k]), [['mountains', 'open', 0], ['snowy', 'rewound', null]]);
    assert.ok(rig.media.texts(connectionId, 'state').some(({ type, media90k, branch }) => type === 'session.rewound' && media90k === 30_000 && branch === 1));
    await rig.after(50);
    assert.ok(session.events.since(0).events.some(({ type, data }) => type === 'session.rewound' && data['re'] === 'w'));
  });

  it('what the engine has not in memory is read for it; what is not kept is told so', async () => {
    const life = begin();
    const { rig, session } = await playing(life);
    await rig.after(50);
    const stories = () => rig.engine.sent.flatMap((message) => (message.type === 'session.story' ? [message] : []));
    rig.engine.emit({ type: 'story.wanted', sessionId: session.id, requestId: 'w', to90k: 31_000, exact: false });
    await rig.after(50);
    assert.deepEqual(stories().at(-1)!.story?.chunks.map(({ chunk }) => chunk), [0, 1]);
    rig.engine.emit({ type: 'story.wanted', sessionId: session.id, requestId: 'w', to90k: 5_000, exact: false });
    await rig.after(50);
    assert.deepEqual([stories().at(-1)!.story, stories().at(-1)!.error], [null, undefined], 'the beginning');
    rig.engine.emit({ type: 'story.wanted', sessionId: session.id, requestId: 'w', to90k: 900_000, exact: true });
    await rig.after(50);
    assert.equal(stories().at(-1)!.error?.code, 'not_kept');
  });

  for (const [what, written] of [['its branch is on disk', true], ['its branch was not written any more', false]] as const) {
    it(`a rewind that was told as applied outlives a kill: ${what}`, async () => {
      const life = begin();
      const { rig, session, connectionId } = await playing(life);
      rig.media.arrive(session.id, connectionId, 'control', { type: 'rewind', id: 'w', media90k: 30_000 });
      await rig.settle();
      rewound(life, session.id, 30_000);
      if (written) life.storage.receive('engine', { type: 'write', number: 100, write: { type: 'branch', sessionId: session.id, branch: BRANCH } });
      await rig.after(50);
      assert.ok(rig.media.texts(connectionId).some(({ type, re, how }) => type === 'applied' && re === 'w' && how === 'rewind'));
      life.kill();
      const next = begin();
      await next.rig.registry.wake();
      const back = await next.rig.registry.reach(session.id);
      const asked = next.rig.engine.requests.map(({ requestId, request }) => [requestId, request]);
      assert.deepEqual(asked, written ? [] : [['w', 'rewind']], 'the redirect of before it is not asked for again');
      const opened = next.rig.engine.sent.find((message) => message.type === 'session.open');
      assert.ok(opened?.type === 'session.open');
      assert.deepEqual([opened.story?.chunks.length, opened.story?.branch, opened.story?.branches, opened.story?.lineage], written ? [2, 1, 2, 5] : [4, 0, 1, undefined], 'nothing of the branch is there yet: its number and noise are');
      if (!written) rewound(next, session.id, 30_000);
      assert.deepEqual([back.view.presented90k, back.view.prompt], [30_000, 'mountains']);
      assert.deepEqual(back.memory.turns.map(({ outcome }) => outcome), ['open', 'rewound']);
    });
  }

  it('one that is inside a chunk is committed up to the last whole one: no more is there after a kill', async () => {
    const life = begin();
    const { rig, session, connectionId } = await playing(life);
    await rig.after(50);
    assert.equal(session.view.committed90k, 60_000);
    rig.media.arrive(session.id, connectionId, 'control', { type: 'rewind', id: 'w', media90k: 37_500 });
    await rig.settle();
    rewound(life, session.id, 37_500, 30_000);
    assert.deepEqual([session.view.presented90k, session.view.committed90k], [37_500, 30_000]);
    life.storage.receive('engine', { type: 'write', number: 100, write: { type: 'branch', sessionId: session.id, branch: { ...BRANCH, from90k: 37_500 } } });
    await rig.after(50);
    assert.equal(session.view.committed90k, 30_000);
    life.kill();
    const next = begin();
    await next.rig.registry.wake();
    assert.equal(next.rig.registry.view(session.id).committed90k, 30_000);
  });

  it('gone back to the beginning and killed at once: the branch goes on, and the one that was left keeps its chunks', async () => {
    const life = begin();
    const { rig, session, connectionId } = await playing(life);
    rig.media.arrive(session.id, connectionId, 'control', { type: 'rewind', id: 'w', media90k: 0 });
    await rig.settle();
    rewound(life, session.id, 0);
    life.storage.receive('engine', { type: 'write', number: 100, write: { type: 'branch', sessionId: session.id, branch: { ...BRANCH, fromChunk: 0, from90k: 0 } } });
    await rig.after(50);
    life.kill();
    const next = begin();
    await next.rig.registry.wake();
    await next.rig.registry.reach(session.id);
    const opened = next.rig.engine.sent.find((message) => message.type === 'session.open');
    assert.ok(opened?.type === 'session.open');
    assert.deepEqual([opened.story?.chunks, opened.story?.branch, opened.story?.branches, opened.story?.lineage], [[], 1, 2, 5]);
  });

  it('a fork of a session that takes video in takes video in, of the same strength; a moment that isn’t in memory is not kept anywhere', async () => {
    const program = { id: 'drive_transform', takesVideo: true, interruption: {} };
    const { rig } = begin({ capacity: 4, programs: ['drive_transform'], card: { ...CARD, maxSessions: 4, programs: [program] } });
    const { session } = await rig.join({ program: 'drive_transform', transform: { strength: 0.4 } });
    rig.media.emit({ type: 'media.position', sessionId: session.id, epoch: 0, sent90k: 67_500, presented90k: 60_000 });
    const { session: fork } = await rig.registry.fork(session.id, {});
    const opened = rig.engine.sent.findLast((message) => message.type === 'session.open');
    assert.ok(opened?.type === 'session.open');
    assert.deepEqual([opened.program, opened.strength, opened.fork], ['drive_transform', 0.4, { from: session.id, to90k: 60_000 }]);
    const played = rig.media.sent.findLast((message) => message.type === 'session.open');
    assert.ok(played?.type === 'session.open' && played.sessionId === fork.id);
    assert.deepEqual(played.takesVideo, { framesPerChunk: CARD.framesPerChunk });
    const connection = await rig.connect(fork);
    fork.see(connection, new Uint8Array(4));
    assert.ok(rig.media.sent.some((message) => message.type === 'connection.video' && message.sessionId === fork.id));
    rig.engine.notInMemory = true;
    await assert.rejects(rig.registry.fork(session.id, { media90k: 0 }), (error: SegueError) => error.code === 'not_kept');
  });

  it('a fork has its memory as of then and a token of its own; the parent is asked nothing. From disk where memory lacks it, and when the other has ended', async () => {
    const life = begin({ tokens: { issue: async ({ sessionId, roles }) => ({ token: `${sessionId}/${roles.join('+')}`, expiresAt: 'then' }) } });
    const { rig, session, connectionId } = await playing(life);
    await rig.after(50);
    const before = rig.engine.requests.length;
    rig.media.arrive(session.id, connectionId, 'control', { type: 'fork', id: 'f', media90k: 30_000 });
    await rig.after(1_200);
    const forked = rig.media.texts(connectionId).find(({ type }) => type === 'forked');
    assert.ok(forked !== undefined, JSON.stringify(rig.media.texts(connectionId)));
    const opened = rig.engine.sent.findLast((message) => message.type === 'session.open');
    assert.ok(opened?.type === 'session.open');
    assert.deepEqual([opened.fork, opened.seed, opened.sessionId], [{ from: session.id, to90k: 30_000 }, session.view.seed, forked['session']]);
    assert.ok(opened.lineage! >= 2 ** 30);
    assert.match(forked['clientToken'] as string, /drive/);
    assert.equal(rig.engine.requests.length, before, 'no fence, no request');
    assert.ok(!JSON.stringify(session.events.since(0)).includes('clientToken'), 'events are for watchers too');
    await rig.after(10);

    life.storage.receive('engine', { type: 'write', number: 100, write: { type: 'branch', sessionId: session.id, branch: { ...BRANCH, fromChunk: 3 } } });
    const closing = session.close('done');
    await rig.after(3_000);
    await closing;
    const forking = rig.registry.fork(session.id, { media90k: 31_000 });
    await rig.after(1_200);
    const { session: second, from } = await forking;
    const again = rig.engine.sent.findLast((message) => message.type === 'session.open');
    assert.ok(again?.type === 'session.open' && again.fork === undefined);
    assert.deepEqual(again.story?.chunks.map(({ chunk }) => chunk), [0, 1]);
    assert.deepEqual([again.story?.branch, again.story?.branches, again.story?.lineage], [undefined, undefined, undefined], 'branches are the parent’s');
    assert.ok(again.lineage! >= 2 ** 30);
    assert.equal(from.session, session.id);
    await rig.after(50);
    const removing = rig.registry.remove(session.id, 'gone');
    await rig.after(100);
    await removing;
    const loading = rig.registry.memory(second.id);
    await rig.after(20);
    assert.deepEqual((await loading).turns.map(({ prompt }) => prompt), ['mountains']);
    await assert.rejects(rig.registry.fork('ses_nobody', {}), (error: SegueError) => error.code === 'session_not_found');
  });
});
