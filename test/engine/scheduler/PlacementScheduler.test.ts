import assert from 'node:assert/strict';
import { test } from 'node:test';
import { PlacementScheduler } from '../../../src/engine/scheduler/PlacementScheduler.ts';

test('least loaded first, by name where equal, without those that can not be used', () => {
  const places = [
    { workerId: 'c', load: 0.2, usable: true },
    { workerId: 'b', load: 0, usable: false },
    { workerId: 'a', load: 0.2, usable: true },
    { workerId: 'd', load: 0.1, usable: true },
  ];
  assert.deepEqual(new PlacementScheduler().rank(places).map(({ workerId }) => workerId), ['d', 'a', 'c']);
});
