import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { Outgoing, OUTGOING_BYTES } from '../../src/streams/outgoing.ts';

const outgoing = () => new Outgoing(new SharedArrayBuffer(OUTGOING_BYTES), 0);

test('what has been claimed can not be recalled, what has not can', () => {
  const words = outgoing();
  assert.equal(words.claim(7_500, 0), true);
  assert.equal(words.recall(0), null);
  assert.equal(words.revision, 0, 'nothing has changed');
  assert.equal(words.recall(7_500), 1);
  assert.equal(words.claim(15_000, 0), false, 'a claim under an old revision is refused: look again');
  assert.equal(words.claim(15_000, 1), true);
  assert.equal(words.claimed90k, 15_000);
});

test('media is void from where a later recall began, whichever of the recalls it was', () => {
  const words = outgoing();
  words.recall(30_000);
  words.recall(15_000);
  words.recall(45_000);
  const isVoid = (revision: number, end90k: number) => words.isVoid(revision, end90k, 3);
  const cases = [[0, 15_000, false], [0, 22_500, true], [1, 22_500, true], [2, 22_500, false], [2, 45_000, false], [2, 52_500, true], [3, 1e9, false]] as const;
  for (const [revision, end90k, expected] of cases) assert.equal(isVoid(revision, end90k), expected, `revision ${revision}, to ${end90k}`);
});

test('media that is older than the recalls remembered is void', () => {
  const words = outgoing();
  for (let n = 0; n < 9; n++) words.recall(90_000);
  assert.equal(words.isVoid(0, 7_500, 9), true);
  assert.equal(words.isVoid(2, 7_500, 9), false);
});

test('after a fence media time goes back, and nothing of it has been claimed', () => {
  const words = outgoing();
  words.claim(90_000, 0);
  words.recall(90_000);
  words.restart();
  assert.deepEqual([words.claimed90k, words.revision], [0, 1]);
  assert.equal(words.recall(7_500), 2);
});

test('positions of a week fit', () => {
  const words = outgoing();
  const week90k = 7 * 86_400 * 90_000;
  words.claim(week90k, 0);
  assert.equal(words.claimed90k, week90k);
  assert.equal(words.recall(week90k), 1);
});

test('of a claim and a recall at the same moment, on two threads, one comes first for both', async () => {
  const buffer = new SharedArrayBuffer(OUTGOING_BYTES);
  const words = new Outgoing(buffer, 0);
  const url = new URL('../../src/streams/outgoing.ts', import.meta.url).href;
  const claimer = new Worker(
    `const { parentPort, workerData } = require('node:worker_threads');
     import(workerData.url).then(({ Outgoing }) => {
       const words = new Outgoing(workerData.buffer, 0);
       const claims = [];
       parentPort.postMessage('begun');
       for (let end = 1; end <= 200000; end++) {
         let revision = words.revision;
         while (!words.claim(end, revision)) revision = words.revision;
         claims.push(revision);
       }
       parentPort.postMessage(claims);
     });`,
    { eval: true, workerData: { buffer, url } },
  );
  await new Promise((resolve) => claimer.once('message', resolve));
  const recalls: { readonly from: number; readonly revision: number }[] = [];
  const done = new Promise<readonly number[]>((resolve) => claimer.once('message', resolve));
  let claims: readonly number[] | null = null;
  void done.then((all) => (claims = all));
  while (claims === null) {
    for (let n = 0; n < 2_000; n++) {
      const from = words.claimed90k + (n % 3);
      const revision = words.recall(from);
      if (revision !== null) recalls.push({ from, revision });
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
  const claimed = await done;
  assert.ok(recalls.length > 100, `${recalls.length} recalls`);
  for (const { from, revision } of recalls) {
    const under = claimed[from]; // what ends just after the recall's begin
    if (under !== undefined) assert.ok(under >= revision, `${from + 1} was claimed under ${under}, though recalled by ${revision}`);
  }
  await claimer.terminate();
});
