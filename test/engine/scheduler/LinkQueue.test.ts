import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LinkQueue, MAX_WAITING_TRANSFERS } from '../../../src/engine/scheduler/LinkQueue.ts';

test('one transfer at a time on a link, the most urgent of those that wait first; links do not wait for each other', async () => {
  const links = new LinkQueue();
  const begun: string[] = [];
  const ends = new Map<string, PromiseWithResolvers<void>>();
  const move = (link: string, name: string, priority = 0): Promise<void> =>
    links.move(link, priority, () => {
      begun.push(name);
      ends.set(name, Promise.withResolvers());
      return ends.get(name)!.promise;
    });
  const all = [move('a', 'first'), move('a', 'later', 5), move('a', 'sooner', 1), move('b', 'elsewhere')];
  assert.deepEqual(begun, ['first', 'elsewhere']);
  ends.get('first')!.resolve();
  await all[0];
  assert.deepEqual(begun, ['first', 'elsewhere', 'sooner']);
  ends.get('sooner')!.reject(new Error('the wire broke'));
  await assert.rejects(all[2]!, /the wire broke/);
  assert.deepEqual(begun, ['first', 'elsewhere', 'sooner', 'later'], 'a failure holds nobody up');
  for (const name of ['later', 'elsewhere']) ends.get(name)!.resolve();
  await Promise.all([all[1], all[3]]);
});

test('a link takes so many and no more', () => {
  const links = new LinkQueue();
  const never = (): Promise<void> => new Promise(() => undefined);
  for (let count = 0; count <= MAX_WAITING_TRANSFERS; count++) void links.move('a', 0, never);
  assert.throws(() => links.move('a', 0, never), /256 transfers wait for a/);
});
