import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TransferScheduler } from '../../../src/engine/scheduler/TransferScheduler.ts';

test('blocks go back to their holder once a round, in one message', () => {
  const sent: (readonly number[])[] = [];
  const holder = { release: (blocks: readonly number[]) => void sent.push(blocks) };
  const transfers = new TransferScheduler();
  transfers.release(holder, 1);
  transfers.release(holder, 2);
  assert.equal(transfers.flush(), 2);
  assert.equal(transfers.flush(), 0);
  assert.deepEqual(sent, [[1, 2]]);
});
