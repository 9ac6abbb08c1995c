import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { BandwidthServer } from '../../../src/engine/scheduler/BandwidthServer.ts';

const serverAt = (nowMs: number) => new BandwidthServer({ budgetMs: 50, bandwidth: () => 0.1, boostMs: 20, nowMs });

test('within the budget, work is due shortly after it arrived', () => {
  assert.equal(serverAt(0).deadline(5, 3, 50), 23);
});

test('beyond the budget, work is due when the budget will have paid for it', () => {
  const server = serverAt(0);
  server.charge(0, 50);
  assert.equal(server.deadline(0, 0, 10), 120);
  server.charge(0, 30);
  assert.equal(server.deadline(0, 0, 10), 420, 'debt is paid first');
});

test('the budget refills at its bandwidth and not past its size', () => {
  const server = serverAt(0);
  server.charge(0, 50);
  assert.ok(Math.abs(server.available(100) - 10) < 1e-9);
  assert.equal(server.available(10_000), 50);
  assert.ok(server.available(5_000) === 50, 'time does not go back');
});

test('however often it is asked, it promises no more than budget plus bandwidth', () => {
  fc.assert(
    fc.property(fc.array(fc.record({ waitMs: fc.nat(50), costMs: fc.integer({ min: 1, max: 40 }) }), { minLength: 1, maxLength: 200 }), (work) => {
      const server = serverAt(0);
      let nowMs = 0;
      let boostedMs = 0;
      for (const { waitMs, costMs } of work) {
        nowMs += waitMs;
        if (server.deadline(nowMs, nowMs, costMs) === nowMs + 20) boostedMs += costMs;
        server.charge(nowMs, costMs);
      }
      assert.ok(boostedMs <= 50 + nowMs * 0.1 + 1e-6);
    }),
  );
});

test('bad arguments', () => {
  assert.throws(() => new BandwidthServer({ budgetMs: 1, bandwidth: () => 0, boostMs: 1, nowMs: 0 }), TypeError);
  assert.throws(() => new BandwidthServer({ budgetMs: 0, bandwidth: () => 0.5, boostMs: 1, nowMs: 0 }), TypeError);
});
