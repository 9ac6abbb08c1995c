/** Rewind and fork on the virtual clock: real scheduling and programs, scripted tensors. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Simulation } from './Simulation.ts';
import type { SimulatedSession } from './SimulatedSession.ts';

const FRAME = 7_500;
const CHUNK = 2 * FRAME;

function answer(session: SimulatedSession, id: string) {
  const [given] = session.answers.get(id)!;
  return given;
}

function applied(session: SimulatedSession, id: string) {
  const given = answer(session, id);
  assert.ok(given?.type === 'request.applied', `${id}: ${JSON.stringify(given)}`);
  return given;
}

function code(session: SimulatedSession, id: string): string {
  const given = answer(session, id);
  assert.ok(given?.type === 'request.failed', `${id}: ${JSON.stringify(given)}`);
  return given.error.code;
}

test('a rewind to a moment in memory takes no time: the very frame, another future, and the plan that was in force there', async () => {
  const simulation = new Simulation();
  const session = simulation.open('s', 'scene 1');
  await simulation.run(2_000);
  simulation.request(session, 'r', { request: 'redirect', prompt: 'scene 3', seamless: false });
  await simulation.run(2_000);
  const from = session.frames.length;
  simulation.request(session, 'back', { request: 'rewind', to90k: 17 * FRAME + 100, exact: false });
  assert.deepEqual([applied(session, 'back').how, applied(session, 'back').media90k, applied(session, 'back').elapsedMs], ['rewind', 17 * FRAME, 0]);
  await simulation.run(1_000);
  const frames = session.frames.slice(from).filter(({ kind, epoch }) => kind === 'video' && epoch === 2);
  assert.equal(frames[0]!.start90k, 17 * FRAME);
  assert.ok(frames.every(({ events, conditioningVersion }) => events.active.length === 0 && conditioningVersion === 2), 'nothing of the redirect, and newer than it');
  const { branches, chunks, left } = simulation.kept.get('s')!;
  assert.deepEqual(branches.map(({ branch, parent, fromChunk, from90k, requestId }) => [branch, parent, fromChunk, from90k, requestId]), [[1, 0, 8, 17 * FRAME, 'back']]);
  assert.deepEqual(chunks.map(({ chunk }) => chunk), chunks.map((_, index) => index));
  assert.equal(left[0]!.chunk.chunk, 8);
  assert.ok(left.length * CHUNK >= branches[0]!.left90k - 8 * CHUNK, 'all that was shown after it is still there');
  const lineages = (chunk: string): number => (JSON.parse(chunk) as { lineage: number }).lineage;
  assert.ok(lineages(chunks.at(-1)!.data) > lineages(left.at(-1)!.chunk.data), 'noise of its own');
  await simulation.finish();
});

test('further back than memory reaches it is brought back from what is kept, to the end of a chunk; with nothing kept it is not_kept, and the story goes on', async () => {
  const simulation = new Simulation({ engine: { pastChunks: 4, snapshotChunks: 6 } });
  const session = simulation.open();
  await simulation.run(6_000);
  for (const [id, exact] of [['near', false], ['exact', true]] as const) {
    const before = session.frames.length;
    simulation.request(session, id, { request: 'rewind', to90k: 10 * CHUNK + FRAME, exact });
    assert.equal(session.answers.get(id)!.length, 0);
    await simulation.run(800);
    assert.equal(applied(session, id).media90k, 10 * CHUNK);
    assert.equal(session.frames.slice(before).find(({ epoch }) => epoch === session.words.epoch)?.start90k, 10 * CHUNK);
    await simulation.run(3_000);
  }
  simulation.request(session, 'start', { request: 'rewind', to90k: FRAME, exact: false });
  await simulation.run(800);
  assert.equal(applied(session, 'start').media90k, 0);
  await simulation.run(4_000);
  simulation.reading = () => ({ delayMs: 20, fails: true });
  const newest = session.held90k;
  simulation.request(session, 'lost', { request: 'rewind', to90k: 3 * CHUNK, exact: false });
  await simulation.run(500);
  assert.equal(code(session, 'lost'), 'not_kept');
  assert.ok(session.frames.at(-1)!.start90k > newest, 'on from what was seen');
  await simulation.finish();
});

test('what was seen of a chunk that never became whole is kept with the future that was left, and with the story that ended there', async () => {
  for (let offsetMs = 0; offsetMs < 170; offsetMs += 20) {
    const simulation = new Simulation();
    const session = simulation.open();
    await simulation.run(3_000 + offsetMs);
    simulation.request(session, 'stop', { request: 'interrupt' });
    await simulation.run(300);
    const seen90k = session.held90k;
    simulation.request(session, 'back', { request: 'rewind', to90k: 5 * FRAME, exact: false });
    await simulation.run(1_000 + offsetMs);
    const { left, parts, chunks } = simulation.kept.get('s')!;
    const has = (all: readonly { readonly chunk: { readonly start90k: number; readonly end90k: number } }[], at90k: number): boolean => all.some(({ chunk: { start90k, end90k } }) => at90k >= start90k && at90k < end90k);
    assert.ok(has([...left, ...parts.filter(({ branch }) => branch === 0)], seen90k - FRAME), `seen up to ${seen90k / FRAME}, left with what was kept`);
    const last90k = session.held90k;
    simulation.close(session);
    await simulation.run(100);
    assert.ok(has([...chunks.map((chunk) => ({ chunk })), ...parts.filter(({ branch }) => branch === 1)], last90k - FRAME), `ended at ${last90k / FRAME}`);
    await simulation.finish();
  }
});

test('what is asked while a story is being read lands on it: a redirect, an interrupt; another rewind takes its place', async () => {
  const simulation = new Simulation({ engine: { pastChunks: 1 } });
  simulation.reading = () => ({ delayMs: 60, fails: false });
  const session = simulation.open();
  await simulation.run(5_000);
  simulation.request(session, 'a', { request: 'rewind', to90k: 8 * CHUNK, exact: false });
  simulation.request(session, 'b', { request: 'rewind', to90k: 5 * CHUNK, exact: false });
  simulation.request(session, 'r', { request: 'redirect', prompt: 'scene 4', seamless: false });
  await simulation.run(1_000);
  assert.equal(answer(session, 'a')?.type, 'request.superseded');
  assert.equal(applied(session, 'b').media90k, 5 * CHUNK);
  assert.deepEqual([applied(session, 'r').media90k, applied(session, 'r').how], [5 * CHUNK, 'restart']);
  await simulation.run(3_000);
  simulation.request(session, 'c', { request: 'rewind', to90k: 6 * CHUNK, exact: false });
  simulation.request(session, 'stop', { request: 'interrupt' });
  await simulation.run(1_000);
  assert.equal(applied(session, 'c').media90k, 6 * CHUNK);
  assert.equal(applied(session, 'stop').media90k, 6 * CHUNK);
  const frames = session.frames.length;
  await simulation.run(1_000);
  assert.equal(session.frames.length, frames, 'it stands');
  simulation.request(session, 'go', { request: 'resume' });
  await simulation.run(1_000);
  assert.equal(session.frames[frames]!.start90k, 6 * CHUNK);
  await simulation.finish();
});

for (const before of ['pause', 'interrupt', 'hold'] as const) {
  test(`a rewind ends what stopped the picture (${before}); one that comes to nothing leaves it so`, async () => {
    const simulation = new Simulation({ engine: { pastChunks: 2 } });
    simulation.reading = () => ({ delayMs: 5, fails: true });
    const session = simulation.open();
    await simulation.run(4_000);
    simulation.request(session, 'stop', { request: before });
    await simulation.run(500);
    simulation.request(session, 'lost', { request: 'rewind', to90k: 2 * CHUNK, exact: false });
    await simulation.run(500);
    assert.equal(code(session, 'lost'), 'not_kept');
    const frames = session.frames.length;
    await simulation.run(500);
    if (before !== 'hold') assert.equal(session.frames.length, frames, 'it stands');
    const to90k = session.held90k - FRAME;
    simulation.request(session, 'back', { request: 'rewind', to90k, exact: false });
    await simulation.run(500);
    assert.equal(applied(session, 'back').media90k, to90k);
    assert.ok(session.frames.length > frames);
    await simulation.finish();
  });
}

test('a wish that nothing was shown of is void, a blend goes on as it was at that moment', async () => {
  const simulation = new Simulation();
  const session = simulation.open('s', 'scene 1');
  await simulation.run(1_500);
  simulation.request(session, 'b', { request: 'blend', prompt: 'scene 3', chunks: 20 });
  await simulation.run(2_000);
  const middle = applied(session, 'b').media90k + 4 * CHUNK;
  simulation.request(session, 'r', { request: 'redirect', prompt: 'scene 5', seamless: true });
  simulation.request(session, 'back', { request: 'rewind', to90k: middle, exact: false });
  await simulation.run(600);
  assert.equal(answer(session, 'r')?.type, 'request.superseded');
  const [frame] = session.videoFrames.filter(({ epoch }) => epoch === session.words.epoch);
  assert.deepEqual([frame!.start90k, frame!.events.active], [middle, ['b']]);
  await simulation.run(4_000);
  assert.ok(session.videoFrames.some(({ epoch, events }) => epoch === session.words.epoch && events.completed.length === 0 && events.active.includes('b')));
  await simulation.finish();
});

test('a fork shares the past without a copied byte; its parent goes on without a fence or a missed frame, and neither knows what becomes of the other', async () => {
  const simulation = new Simulation({ speed: 4 });
  const parent = simulation.open('parent', 'scene 1');
  await simulation.run(3_000);
  const { blockBytes, blocksLive } = simulation.core.stats();
  const fork = simulation.fork(parent, 'fork', 21 * FRAME);
  // No more than what the first step of its own future writes to, which is under way already: latents of a chunk.
  assert.deepEqual([simulation.core.stats().blockBytes, simulation.core.stats().blocksLive], [blockBytes + 32 * 128 * 4, blocksLive + 1]);
  assert.deepEqual([fork.opened?.at90k, fork.opened?.whole90k], [21 * FRAME, 10 * CHUNK], 'inside a chunk, of which nothing can be gone on from yet');
  await simulation.run(1_500);
  assert.equal(parent.words.epoch, 0);
  assert.equal(simulation.core.stats().deadlinesMissed, 0);
  assert.equal(fork.frames[0]!.start90k, 21 * FRAME);
  const kept = simulation.kept.get('fork')!.chunks;
  assert.deepEqual(kept.map(({ chunk }) => chunk), kept.map((_, index) => index), 'its past is its own on disk');
  const lineage = (data: string): number => (JSON.parse(data) as { lineage: number }).lineage;
  assert.ok(lineage(kept.at(-1)!.data) >= 2 ** 30 && lineage(kept[3]!.data) === 0);
  simulation.close(parent);
  await simulation.run(500);
  const frames = fork.frames.length;
  simulation.request(fork, 'r', { request: 'redirect', prompt: 'scene 2', seamless: false });
  await simulation.run(1_000);
  assert.ok(fork.frames.length > frames);
  assert.equal(applied(fork, 'r').how, 'restart');
  simulation.request(fork, 'w', { request: 'rewind', to90k: 22 * FRAME, exact: false });
  await simulation.run(300);
  assert.equal(applied(fork, 'w').media90k, 22 * FRAME);
  await simulation.finish();
});

test('what isn’t in memory can’t be forked from there; whoever wants a session’s memory gets that of pasts', async () => {
  const simulation = new Simulation({ engine: { pastChunks: 3 } });
  const parent = simulation.open('parent');
  await simulation.run(3_000);
  const fork = simulation.fork(parent, 'fork', CHUNK);
  assert.ok(fork.refused);
  await simulation.finish();
});
