import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { SegueError } from '../../src/protocol/errors.ts';
import { TICKET_TTL_MS } from '../../src/sessions/AdmissionQueue.ts';
import { SessionRig } from './session_rig.ts';

async function refused(attempt: Promise<unknown>): Promise<SegueError['details']> {
  try {
    await attempt;
  } catch (error) {
    assert.ok(error instanceof SegueError && error.code === 'at_capacity', String(error));
    return error.details;
  }
  return assert.fail('was admitted');
}

describe('admission', () => {
  it('refuses with a place, keeps it by ticket, and lets the first in line in before a newcomer', async () => {
    const rig = new SessionRig();
    const { session } = await rig.join();
    await rig.join();
    const first = await refused(rig.create());
    const second = await refused(rig.create());
    assert.deepEqual([first.position, second.position], [1, 2]);
    assert.ok(first.retryAfterMs! > 0 && second.retryAfterMs! >= first.retryAfterMs!);
    await session.close('leaves');
    const third = await refused(rig.create());
    assert.equal(third.position, 3);
    const again = await refused(rig.create({ ticket: second.ticket }));
    assert.deepEqual([again.position, again.ticket], [2, second.ticket]);
    const admitted = await rig.create({ ticket: first.ticket });
    assert.equal(admitted.state, 'connecting');
    assert.equal((await refused(rig.create({ ticket: second.ticket }))).position, 1);
  });

  it('two free places take the first two in line, whoever asks first', async () => {
    const rig = new SessionRig();
    const sessions = [await rig.create(), await rig.create()];
    const [first, second] = [await refused(rig.create()), await refused(rig.create())];
    await Promise.all(sessions.map((session) => session.close('leaves')));
    assert.equal((await rig.create({ ticket: second.ticket })).state, 'connecting');
    assert.equal((await rig.create({ ticket: first.ticket })).state, 'connecting');
  });

  it('a ticket that is not used for 15 s is gone, and those behind move up', async () => {
    const rig = new SessionRig();
    await rig.join();
    await rig.join();
    const first = await refused(rig.create());
    const second = await refused(rig.create());
    await rig.after(TICKET_TTL_MS - 1);
    assert.equal((await refused(rig.create({ ticket: second.ticket }))).position, 2);
    await rig.after(1);
    assert.equal((await refused(rig.create({ ticket: second.ticket }))).position, 1);
    const renewed = await refused(rig.create({ ticket: first.ticket }));
    assert.equal(renewed.position, 2);
    assert.notEqual(renewed.ticket, first.ticket);
  });

  it('one ticket used twice at once takes one session', async () => {
    const rig = new SessionRig({ capacity: 1 });
    const { session } = await rig.join();
    const { ticket } = await refused(rig.create());
    await session.close('leaves');
    rig.engine.capacity = 2;
    const results = await Promise.allSettled([rig.create({ ticket }), rig.create({ ticket })]);
    assert.deepEqual(results.map(({ status }) => status).toSorted(), ['fulfilled', 'rejected']);
    assert.equal(rig.engine.open.size, 1);
  });

  it('a full queue gives no ticket', async () => {
    const rig = new SessionRig({ maxWaiting: 1 });
    await rig.join();
    await rig.join();
    await refused(rig.create());
    const late = await refused(rig.create());
    assert.deepEqual([late.ticket, late.position], [undefined, undefined]);
    assert.ok(late.retryAfterMs! > 0);
  });

  it('a refused session leaves nothing behind', async () => {
    const rig = new SessionRig({ capacity: 0 });
    await refused(rig.create());
    await rig.settle();
    assert.deepEqual(rig.registry.views, []);
    assert.equal(rig.clock.pending, 0);
  });

  it('a place is free the moment that the engine has it back, while connections are still being closed', async () => {
    const rig = new SessionRig();
    rig.media.lingering = true;
    const { session } = await rig.join();
    await rig.join();
    const { ticket } = await refused(rig.create());
    const closing = session.close('leaves');
    await rig.settle();
    assert.equal(session.state, 'closing');
    assert.equal((await rig.create({ ticket })).state, 'connecting');
    await rig.after(1_000);
    await closing;
  });

  it('the place of whoever vanished is free when its time to come back is over, to the millisecond', async () => {
    const rig = new SessionRig({ capacity: 1 });
    const { session, connectionId } = await rig.join({ limits: { orphanMs: 5_000 } });
    rig.media.emit({ type: 'connection.state', sessionId: session.id, connectionId, state: 'closed' });
    await rig.after(4_999);
    const { ticket } = await refused(rig.create());
    await rig.after(1);
    assert.equal((await rig.create({ ticket })).state, 'connecting');
  });

  it('a session that could not be opened leaves its place', async () => {
    const rig = new SessionRig({ capacity: 1, maxSessions: 1 });
    rig.engine.deaf = true;
    const opening = assert.rejects(rig.create(), (error: SegueError) => error.code === 'timed_out');
    await rig.after(5_000);
    await opening;
    rig.engine.deaf = false;
    // The engine had said nothing: whether it still has the session is not known before the watchdog.
    await rig.after(2_000);
    assert.equal((await rig.create()).state, 'connecting');
  });

  it('a session that has used up its time makes room, also where the server’s own bound is the one that is reached', async () => {
    const rig = new SessionRig({ capacity: 8, maxSessions: 1 });
    rig.media.lingering = true;
    const { session } = await rig.join({ limits: { wallMs: 10_000 } });
    const { ticket, estimateMs } = await refused(rig.create());
    assert.equal(estimateMs, 10_000, 'it must end by then');
    await rig.after(9_999);
    assert.equal((await refused(rig.create({ ticket }))).estimateMs, 1);
    await rig.after(1);
    assert.equal(session.state, 'closing');
    assert.equal((await rig.create({ ticket })).state, 'connecting');
    await rig.after(1_000);
  });

  it('says when a place is likely to be free, once it has seen sessions end', async () => {
    const rig = new SessionRig({ maxWaiting: 8 });
    for (let round = 0; round < 3; round++) {
      const { session } = await rig.join();
      await rig.after(40_000);
      await session.close('leaves');
    }
    await Promise.all([rig.join(), rig.join()]);
    assert.deepEqual([(await refused(rig.create())).estimateMs, (await refused(rig.create())).estimateMs], [20_000, 40_000]);
  });

  it('a server that shuts down admits nobody', async () => {
    const rig = new SessionRig();
    rig.registry.stopAdmitting();
    await assert.rejects(rig.create(), (error: SegueError) => error.code === 'draining');
  });
});
