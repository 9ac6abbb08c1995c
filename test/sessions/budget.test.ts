import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { VirtualClock } from '../../src/observe/virtual_clock.ts';
import { SegueError } from '../../src/protocol/errors.ts';
import { NO_USAGE } from '../../src/protocol/session_usage.ts';
import { SessionBudget, type Budget } from '../../src/sessions/SessionBudget.ts';
import { keptLives } from './KeptLife.ts';
import { SessionRig } from './session_rig.ts';

const UNLIMITED: Budget = { deviceMs: Infinity, wallMs: Infinity, sentBytes: Infinity };

function budgetOf(limits: Partial<Budget>, used = NO_USAGE) {
  const clock = new VirtualClock();
  const told: unknown[] = [];
  const budget = new SessionBudget({
    clock,
    budget: { ...UNLIMITED, ...limits },
    used,
    warn: (...warning) => told.push(['warn', clock.now(), ...warning]),
    exhausted: (...what) => told.push(['exhausted', clock.now(), ...what]),
    note: (usage) => told.push(['note', clock.now(), usage.deviceMs]),
  });
  return { clock, told, budget };
}

describe('a budget', () => {
  it('of device time: warns once at four fifths, ends once at the limit, and counts what a life before has used', () => {
    const { budget, told } = budgetOf({ deviceMs: 1000 }, { ...NO_USAGE, deviceMs: 300 });
    budget.start();
    budget.report({ deviceMs: 499, lateFrames: 0 });
    assert.deepEqual(told, []);
    for (const deviceMs of [500, 600, 699]) budget.report({ deviceMs });
    assert.deepEqual(told, [['warn', 0, 'deviceMs', 800, 1000]]);
    for (const deviceMs of [710, 900]) budget.report({ deviceMs });
    assert.deepEqual(told.slice(1), [['exhausted', 0, 'deviceMs', 1000]]);
    assert.equal(budget.usage.deviceMs, 1200, 'what was still under way is counted');
  });

  it('of wall time: warns and ends to the millisecond, and its time stands still once it is closed', async () => {
    const { budget, told, clock } = budgetOf({ wallMs: 10_000 });
    await clock.advanceTo(500);
    budget.start();
    await clock.advanceTo(60_000);
    assert.deepEqual(told, [['warn', 8_500, 'wallMs', 8_000, 10_000], ['exhausted', 10_500, 'wallMs', 10_000]]);
    assert.equal(budget.usage.wallMs, 10_000);
    assert.equal(clock.pending, 0);
  });

  it('of bytes sent: each resource has its own warning', () => {
    const { budget, told } = budgetOf({ sentBytes: 100, deviceMs: 100 });
    budget.start();
    budget.report({ sentBytes: 80 });
    budget.report({ deviceMs: 90 });
    assert.deepEqual(told.map((one) => (one as unknown[])[2]), ['sentBytes', 'deviceMs']);
  });

  it('that has no limit costs no timer, and is written down twice a minute', async () => {
    const { budget, told, clock } = budgetOf({});
    budget.start();
    assert.equal(clock.pending, 0);
    for (let second = 1; second <= 60; second++) {
      await clock.advanceTo(second * 1000);
      budget.report({ deviceMs: second * 400 });
    }
    assert.deepEqual(told, [['note', 30_000, 12_000], ['note', 60_000, 24_000]]);
  });

  it('that was closed says nothing more', async () => {
    const { budget, told, clock } = budgetOf({ wallMs: 1000, deviceMs: 10 });
    budget.start();
    budget.close();
    budget.close();
    budget.report({ deviceMs: 100 });
    await clock.advanceTo(5_000);
    assert.deepEqual(told, []);
    assert.equal(clock.pending, 0);
  });
});

describe('a session with a budget', () => {
  it('tells its usage, is warned, and ends in order with a reason and a code', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join({ limits: { deviceMs: 10_000 } });
    const events: [string, unknown][] = [];
    session.events.subscribe(({ type, data }) => events.push([type, data['resource'] ?? data['reason']]), () => undefined);
    rig.engine.emit({ type: 'session.usage', sessionId: session.id, deviceMs: 8_100.4, lateFrames: 2 });
    rig.media.emit({ type: 'media.usage', sessionId: session.id, sentBytes: 12_345 });
    await rig.after(1_000);
    assert.deepEqual(session.view.usage, { deviceMs: 8_100, wallMs: 1_000, sentBytes: 12_345, lateFrames: 2 });
    assert.deepEqual(rig.media.texts(connectionId).at(-1), { type: 'budget', resource: 'deviceMs', used: 8_100, limit: 10_000 });
    rig.engine.silent = true;
    const waiting = assert.rejects(session.request({ type: 'redirect', id: 'r1', prompt: 'desert' }, 'settled'), (error) => error instanceof SegueError && error.code === 'budget_exhausted' && error.details.param === 'limits.deviceMs');
    rig.engine.emit({ type: 'session.usage', sessionId: session.id, deviceMs: 10_040, lateFrames: 2 });
    await waiting;
    await rig.settle();
    const reason = 'the session has used up its device time (10 s)';
    const { state, reason: told, code, usage } = rig.registry.view(session.id);
    assert.deepEqual([state, told, code, usage?.deviceMs], ['closed', reason, 'budget_exhausted', 10_040]);
    assert.deepEqual(rig.media.texts(connectionId).slice(-1), [{ type: 'closed', reason, code: 'budget_exhausted' }]);
    assert.deepEqual(events.filter(([type]) => type === 'session.budget' || type === 'session.closed'), [['session.budget', 'deviceMs'], ['session.closed', reason]]);
    assert.equal(rig.engine.open.size, 0);
    assert.equal(rig.clock.pending, 0);
    assert.throws(() => rig.registry.get(session.id), (error) => error instanceof SegueError && error.code === 'session_closed' && error.message === reason);
  });

  it('asks for no more than the deployment allows', async () => {
    const rig = new SessionRig({ limits: { idleMs: 600_000, idleWarningMs: 60_000, orphanMs: 60_000, budget: { ...UNLIMITED, wallMs: 5_000 } } });
    const { session } = await rig.join({ limits: { wallMs: 60_000, sentBytes: 1_000 } });
    await rig.after(4_999);
    assert.equal(session.state, 'active');
    await rig.after(1);
    assert.equal(rig.registry.view(session.id).code, 'budget_exhausted');
  });

  it('is none the poorer for limits that it does not meet', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join({ limits: { deviceMs: 1e9, sentBytes: 1e12, wallMs: 8e7 } });
    const before = rig.media.texts(connectionId).length;
    for (let second = 0; second < 60; second++) {
      rig.engine.emit({ type: 'session.usage', sessionId: session.id, deviceMs: second * 400, lateFrames: 0 });
      await rig.after(1_000);
    }
    assert.equal(rig.media.texts(connectionId).length, before);
    assert.equal(session.state, 'active');
  });
});

describe('the budget of a kept session', () => {
  const { begin } = keptLives();

  it('goes on after a restart where it was written down', async () => {
    const life = begin();
    const { session } = await life.rig.join({ limits: { deviceMs: 20_000 } });
    const { id } = session;
    for (let second = 1; second <= 31; second++) {
      await life.rig.after(1_000);
      life.rig.engine.emit({ type: 'session.usage', sessionId: id, deviceMs: second * 500, lateFrames: 1 });
    }
    life.chunks(id, 0, 12);
    await life.rig.after(50);
    life.kill();

    const next = begin();
    await next.rig.registry.wake();
    const back = await next.rig.registry.reach(id);
    assert.deepEqual([back.view.usage?.deviceMs, back.view.usage?.lateFrames], [15_000, 1]);
    next.rig.engine.emit({ type: 'session.usage', sessionId: id, deviceMs: 5_000, lateFrames: 0 });
    await next.rig.settle();
    assert.equal(next.rig.registry.view(id).code, 'budget_exhausted');
  });
});
