import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BlockPool } from '../../../src/engine/memory/BlockPool.ts';
import type { FilledSlot } from '../../../src/engine/programs/RealtimeProgram.ts';
import { HeldState } from '../../../src/engine/runtime/HeldState.ts';
import { SharedPool } from '../../../src/streams/shared_pool.ts';

interface State {
  readonly blocks: readonly number[];
  readonly slots: readonly FilledSlot[];
}

test('blocks and slots live as long as a state needs them; what was emitted is the receiver’s, what nobody wants is freed', () => {
  const freed: number[] = [];
  let id = 0;
  const pool = new BlockPool({ capacity: { kv: 100 }, nextId: () => ++id, onFree: (block) => void freed.push(block) });
  const account = pool.reserve('r', { kv: 100 })!;
  const [a, b] = pool.allocate(account, [{ bytes: 1, memory: 'kv' }, { bytes: 1, memory: 'kv' }]) as [number, number];
  const slots = { video: SharedPool.create(8, 4), audio: SharedPool.create(8, 4) };
  const slot = (): FilledSlot => ({ pool: 'video', slot: slots.video.acquire()! });
  const held = new HeldState<State>({ blocks: [a], slots: [] }, { blocks: ({ blocks }) => blocks, slots: (state) => state.slots }, pool, slots);
  pool.release([a, b].slice(0, 1));
  assert.deepEqual(freed, []);
  const [waits, unwanted, sent] = [slot(), slot(), slot()];
  held.replace({ blocks: [b, b], slots: [waits] }, [waits, unwanted, sent], [sent]);
  assert.deepEqual([freed, slots.video.used], [[a], 2], 'the unwanted one is free again');
  held.replace({ blocks: [b], slots: [] }, [], [waits]);
  assert.equal(slots.video.used, 2, 'emitted ones are not touched');
  pool.release([b]);
  held.release();
  held.release();
  assert.deepEqual(freed, [a, b]);
});
