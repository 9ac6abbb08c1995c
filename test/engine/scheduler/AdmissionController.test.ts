import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BlockPool } from '../../../src/engine/memory/BlockPool.ts';
import { AdmissionController, type MediaDemand } from '../../../src/engine/scheduler/AdmissionController.ts';
import { CostModel } from '../../../src/engine/scheduler/CostModel.ts';

const DEMAND: MediaDemand = { chunkComponents: ['denoise', 'denoise', 'picture'], chunkMs: 100, redirectComponents: ['denoise'], memory: { kv: 10 }, minSlots: { video: 3, audio: 3 } };
const SLOTS = { video: 3, audio: 3 };

function controllerOf(kv = 100) {
  let id = 0;
  const pool = new BlockPool({ capacity: { kv }, nextId: () => ++id, onFree: () => undefined });
  const costs = new CostModel('m', [
    { component: 'denoise', shapeKey: 's', batch: 1, p50Ms: 5, p95Ms: 6 },
    { component: 'picture', shapeKey: 's', batch: 1, p50Ms: 10, p95Ms: 12 },
  ]);
  return { pool, costs, admission: new AdmissionController(costs, pool, { bound: 0.85, redirectReserve: 0.05, lookAheadMs: 120 }) };
}

test('a session takes its chunks and its reserve; the longest unit counts once', () => {
  const { admission } = controllerOf();
  assert.equal(admission.demandOf(DEMAND), 0.25);
  assert.equal(admission.capacityFor(DEMAND), 3, '3 × 0.25 + 10 / 120 < 0.85');
});

test('the bound holds: as many as fit, and the next is refused', () => {
  const { admission, pool } = controllerOf();
  const grants = Array.from({ length: 3 }, (_, index) => admission.admit(`s${index}`, DEMAND, SLOTS));
  assert.ok(grants.every(({ admitted }) => admitted));
  assert.deepEqual(admission.admit('s3', DEMAND, SLOTS), { admitted: false, reason: 'compute', load: 0.25 });
  assert.equal(pool.accounts, 3);
  const [first] = grants;
  assert.ok(first?.admitted);
  first.grant.release();
  first.grant.release();
  assert.equal(admission.sessions, 2, 'released once');
  assert.ok(admission.admit('s4', DEMAND, SLOTS).admitted);
});

test('all or nothing: what is refused has reserved nothing', () => {
  const { admission, pool } = controllerOf(5);
  assert.equal(admission.admit('s', DEMAND, SLOTS).admitted, false);
  assert.deepEqual([pool.accounts, admission.load, admission.sessions], [0, 0, 0]);
  const other = controllerOf();
  assert.deepEqual(other.admission.admit('s', DEMAND, { video: 2, audio: 3 }), { admitted: false, reason: 'slots', load: 0.25 });
  assert.equal(other.pool.accounts, 0);
});

test('costs that have risen since let fewer in, but an empty device always takes one', () => {
  const { admission, costs } = controllerOf();
  for (let n = 0; n < 200; n++) costs.observe('picture', 's', 1, 40);
  assert.equal(admission.capacityFor(DEMAND), 1);
  const first = admission.admit('a', DEMAND, SLOTS);
  assert.ok(first.admitted);
  assert.equal(admission.admit('b', DEMAND, SLOTS).admitted, false);
});

test('a bound that can not be', () => {
  const { pool, costs } = controllerOf();
  assert.throws(() => new AdmissionController(costs, pool, { bound: 1.2, redirectReserve: 0, lookAheadMs: 1 }), TypeError);
});

test('work that fills slack is promised memory and no time: it neither takes a place nor needs one', () => {
  const { admission, pool } = controllerOf(40);
  for (let index = 0; index < 3; index++) assert.ok(admission.admit(`s${index}`, DEMAND, SLOTS).admitted);
  const slack = admission.admitSlack('run', { kv: 10 });
  assert.ok(slack.admitted && slack.grant.load === 0);
  assert.equal(admission.sessions, 3);
  assert.deepEqual(admission.admitSlack('more', { kv: 1 }), { admitted: false, reason: 'memory', load: 0 });
  slack.grant.release();
  slack.grant.release();
  assert.equal(pool.accounts, 3);
});

test('whoever can not be redirected keeps no reserve for it', () => {
  const { admission } = controllerOf();
  assert.equal(admission.demandOf({ ...DEMAND, redirectComponents: [] }), 0.2);
});
