/** A replay of a story with a gap, on a virtual clock: real registry and database, scripted engine and media. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { SegueError } from '../../src/protocol/errors.ts';
import { keptLives } from './KeptLife.ts';

const CHUNK = 15_000;
const GAP = { from90k: 3 * CHUNK, to90k: 6 * CHUNK };

describe('a replay of a story of which something is not kept', () => {
  const { begin } = keptLives();

  async function replay() {
    const life = begin({ capacity: 4 });
    const { rig } = life;
    const { session: source } = await rig.join();
    life.chunks(source.id, 0, 2);
    life.chunks(source.id, 6, 9);
    rig.media.emit({ type: 'media.position', sessionId: source.id, epoch: 0, sent90k: 10 * CHUNK, presented90k: 10 * CHUNK });
    const opening = rig.registry.replay(source.id, { from90k: 0, to90k: 9 * CHUNK });
    await rig.after(50);
    const session = await opening;
    const connectionId = await rig.connect(session);
    const at = (sent90k: number, presented90k: number): void => rig.media.emit({ type: 'media.position', sessionId: session.id, epoch: session.words.epoch, sent90k, presented90k });
    const rewinds = (): unknown[] => rig.engine.requests.flatMap((message) => (message.sessionId === session.id && message.request === 'rewind' ? [message.to90k] : []));
    const told = (): unknown[] => rig.media.texts(connectionId, 'state').filter(({ type }) => type === 'replay.gap').map(({ from90k, to90k }) => [from90k, to90k]);
    return { rig, session, connectionId, at, rewinds, told };
  }

  it('says what is missing, and goes from the last frame before it to the first behind it', async () => {
    const { rig, session, at, rewinds, told } = await replay();
    assert.deepEqual([session.plays?.from90k, session.plays?.to90k, session.plays?.gaps], [0, 9 * CHUNK, [GAP]]);
    at(3 * CHUNK, 2 * CHUNK);
    await rig.after(100);
    assert.deepEqual([rewinds(), told()], [[], []], 'its last frames are still to be seen');
    at(3 * CHUNK, 3 * CHUNK);
    await rig.after(50);
    assert.deepEqual([rewinds(), told()], [[6 * CHUNK], [[GAP.from90k, GAP.to90k]]]);
    assert.ok(session.events.since(0).events.some(({ type, data }) => type === 'replay.gap' && data['to90k'] === GAP.to90k));
    at(3 * CHUNK, 3 * CHUNK);
    at(6 * CHUNK + 7_500, 6 * CHUNK);
    at(9 * CHUNK, 9 * CHUNK);
    await rig.after(5_000);
    assert.equal(rewinds().length, 1, 'once, and not at the end');
    // Gone back to before it, it is passed over again.
    at(3 * CHUNK, 3 * CHUNK);
    await rig.after(50);
    assert.deepEqual([rewinds().length, told().length], [2, 2]);
  });

  it('of a viewer who says nothing of what was presented, a second after all was sent', async () => {
    const { rig, at, rewinds } = await replay();
    at(3 * CHUNK, CHUNK);
    await rig.after(900);
    assert.deepEqual(rewinds(), []);
    await rig.after(200);
    assert.deepEqual(rewinds(), [6 * CHUNK]);
  });

  it('paused at it, it stays there until it is resumed', async () => {
    const { rig, session, connectionId, at, rewinds } = await replay();
    rig.media.arrive(session.id, connectionId, 'control', { type: 'pause', id: 'p' });
    await rig.after(50);
    at(3 * CHUNK, 3 * CHUNK);
    await rig.after(3_000);
    assert.deepEqual(rewinds(), []);
    rig.media.arrive(session.id, connectionId, 'control', { type: 'resume', id: 'r' });
    await rig.after(50);
    assert.deepEqual(rewinds(), [6 * CHUNK]);
  });

  it('gone to by hand, a moment of it is the first behind it', async () => {
    const { rig, session, connectionId, rewinds } = await replay();
    for (const [id, media90k] of [['in', 4 * CHUNK], ['before', 2 * CHUNK], ['behind', 6 * CHUNK]] as const) {
      rig.media.arrive(session.id, connectionId, 'control', { type: 'rewind', id, media90k });
      await rig.after(50);
    }
    assert.deepEqual(rewinds(), [6 * CHUNK, 2 * CHUNK, 6 * CHUNK]);
  });

  it('where going on fails, it is tried again', async () => {
    const { rig, session, at, rewinds } = await replay();
    rig.engine.silent = true;
    at(3 * CHUNK, 3 * CHUNK);
    await rig.after(50);
    const [first] = rig.engine.requests.filter(({ request }) => request === 'rewind');
    rig.engine.emit({ type: 'request.failed', sessionId: session.id, requestId: first!.requestId, error: new SegueError('timed_out', 'not read').toBody() });
    rig.engine.silent = false;
    await rig.after(1_500);
    assert.equal(rewinds().length, 1);
    await rig.after(1_000);
    assert.equal(rewinds().length, 2);
    at(6 * CHUNK + 7_500, 6 * CHUNK);
    await rig.after(10_000);
    assert.equal(rewinds().length, 2);
  });
});
