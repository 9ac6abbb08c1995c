/** Branches of a story on disk: what is in force, what was left, copies for forks, and a file from before there were any. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, it } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { FILE_NAME, readDatabase } from '../../src/storage/open_database.ts';
import { SessionReader } from '../../src/storage/SessionReader.ts';
import { storyPath } from '../../src/storage/story_path.ts';
import type { KeptStory, StorageWrite } from '../../src/streams/storage_messages.ts';
import { keptChunk, latents, session, StorageRig, temporaryDirectory } from './storage_rig.ts';

const CHUNK = 15_000;

function chunk(branch: number, index: number, sessionId = 'a'): StorageWrite {
  return { type: 'chunk', sessionId, branch, chunk: { ...keptChunk(index, 256), data: `{"branch":${branch},"next":${index}}` } };
}

function snapshot(branch: number, index: number): StorageWrite {
  return { type: 'snapshot', sessionId: 'a', branch, snapshot: { chunk: index, data: `{"next":${index}}`, tensors: [{ name: 'k0', dims: [8], data: latents(index, 8).buffer }] } };
}

function branchOff(branch: number, parent: number, fromChunk: number, sessionId = 'a'): StorageWrite {
  return { type: 'branch', sessionId, branch: { branch, parent, fromChunk, from90k: fromChunk * CHUNK, left90k: 10 * CHUNK, requestId: `rewind-${branch}`, epoch: branch } };
}

/** 0 … 9 in branch 0; left at 6 for 6 … 8 of branch 1; left at 3 for 3, 4 of branch 2. */
function threeFutures(rig: StorageRig): void {
  rig.write('control', session('a'), session('b'));
  rig.write('engine', snapshot(0, 0), snapshot(0, 5), ...Array.from({ length: 10 }, (_, index) => chunk(0, index)));
  rig.write('engine', branchOff(1, 0, 6), snapshot(1, 7), ...[6, 7, 8].map((index) => chunk(1, index)));
  rig.write('engine', branchOff(2, 1, 3), chunk(2, 3), chunk(2, 4));
}

let asked = 1_000;
function story(rig: StorageRig, to90k: number, exact = false, sessionId = 'a'): KeptStory | null | string {
  const request = ++asked;
  rig.storage.receive('control', { type: 'story', request, sessionId, windowChunks: 3, to90k, exact });
  const answer = rig.messages('read').find((message) => message.request === request)!;
  return answer.error === undefined ? answer.story : answer.error.code;
}

const numbers = (kept: KeptStory | null | string): [number, number][] => {
  assert.ok(kept !== null && typeof kept !== 'string', String(kept));
  return kept.chunks.map(({ chunk: number, data }) => [(JSON.parse(data) as { branch: number }).branch, number]);
};

describe('branches of a story', () => {
  it('a path takes of each branch what the one after it left', () => {
    const branches = [{ branch: 1, parent: 0, fromChunk: 6 }, { branch: 2, parent: 1, fromChunk: 3 }, { branch: 3, parent: 1, fromChunk: 8 }];
    assert.deepEqual(storyPath([], 0), [{ branch: 0, from: 0, below: Infinity }]);
    assert.deepEqual(storyPath(branches, 2), [{ branch: 0, from: 0, below: 3 }, { branch: 2, from: 3, below: Infinity }]);
    assert.deepEqual(storyPath(branches, 3), [{ branch: 0, from: 0, below: 6 }, { branch: 1, from: 6, below: 8 }, { branch: 3, from: 8, below: Infinity }]);
  });

  it('the one in force is what comes back, after it was closed too; the others are there under their numbers', () => {
    const first = new StorageRig();
    threeFutures(first);
    first.storage.flush();
    assert.deepEqual(first.messages('durable').at(-1)!.positions, [{ sessionId: 'a', branch: 2, chunk: 4, media90k: 5 * CHUNK }]);
    first.storage.close();
    const rig = new StorageRig({ directory: first.directory });
    const world = rig.world('a', 10)!;
    assert.deepEqual(numbers(world.story), [[0, 0], [0, 1], [0, 2], [2, 3], [2, 4]]);
    assert.deepEqual([world.story.snapshot?.chunk, world.story.branch, world.story.branches, world.branches.map(({ requestId }) => requestId)], [0, 2, 3, ['rewind-1', 'rewind-2']]);
    rig.storage.close();
    const database = readDatabase(rig.directory);
    const reader = new SessionReader(database);
    assert.equal(reader.heads().find(({ sessionId }) => sessionId === 'a')!.committed90k, 5 * CHUNK);
    assert.deepEqual(reader.extent('a', 0).chunks, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    assert.deepEqual(reader.extent('a', 1).chunks, [0, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert.deepEqual([reader.snapshot('a', 9, 0)?.chunk, reader.snapshot('a', 8, 1)?.chunk, reader.snapshot('a', 9)?.chunk], [5, 7, 0]);
    assert.deepEqual(reader.chunks('a', 5, 7, 1).map(({ data }) => (JSON.parse(data) as { branch: number }).branch), [0, 1, 1]);
    database.close();
    rig.end();
  });

  it('up to a moment: the last whole chunk by then, a window of them, and what leads there exactly; before the first chunk’s end it has just begun, in a gap it is not kept', () => {
    const rig = new StorageRig();
    threeFutures(rig);
    rig.write('engine', ...[5, 6, 9, 10].map((index) => chunk(2, index)));
    assert.deepEqual(numbers(story(rig, 5 * CHUNK)), [[0, 1], [0, 2], [2, 3], [2, 4]]);
    assert.deepEqual(numbers(story(rig, 5 * CHUNK + 7_500)), [[0, 1], [0, 2], [2, 3], [2, 4]]);
    const exact = story(rig, 5 * CHUNK, true);
    assert.deepEqual([numbers(exact).length, (exact as KeptStory).snapshot?.chunk], [5, 0]);
    assert.equal(story(rig, CHUNK - 1), null);
    assert.equal(story(rig, 8 * CHUNK + 7_500), 'not_kept', 'chunk 8 is missing');
    assert.equal(story(rig, 100 * CHUNK), 'not_kept');
    assert.equal(story(rig, CHUNK, false, 'nobody'), 'session_not_found');
    rig.end();
  });

  it('a fork’s rows are its own: a copy of the path up to a chunk, whatever is written first, and untouched when the other is deleted', async () => {
    const rig = new StorageRig();
    threeFutures(rig);
    rig.write('engine', { type: 'fork', sessionId: 'fork', from: 'a', branch: 1, throughChunk: 7 });
    rig.write('control', session('fork'));
    await rig.after(30);
    const copied = rig.messages('durable').flatMap(({ positions }) => positions).find(({ sessionId }) => sessionId === 'fork');
    assert.deepEqual(copied, { sessionId: 'fork', branch: 0, chunk: 7, media90k: 8 * CHUNK });
    rig.write('engine', chunk(0, 8, 'fork'));
    rig.write('control', { type: 'delete', sessionId: 'a' });
    const world = rig.world('fork', 20)!;
    assert.deepEqual(numbers(world.story), [[0, 0], [0, 1], [0, 2], [0, 3], [0, 4], [0, 5], [1, 6], [1, 7], [0, 8]]);
    assert.deepEqual([...new Float32Array(world.story.chunks[7]!.tensors[0]!.data)], [...latents(7, 256)]);
    assert.deepEqual([world.story.snapshot?.chunk, world.branches], [7, []]);
    rig.storage.close();
    const database = new DatabaseSync(join(rig.directory, FILE_NAME));
    for (const table of ['branches', 'chunks', 'snapshots', 'tensors']) assert.equal((database.prepare(`SELECT count(*) AS n FROM ${table} WHERE session = 'a'`).get() as { n: number }).n, 0, table);
    const { bytes } = database.prepare("SELECT bytes FROM sessions WHERE id = 'fork'").get() as { bytes: number };
    const { sum } = database.prepare("SELECT (SELECT sum(bytes) FROM chunks WHERE session = 'fork') + (SELECT sum(bytes) FROM snapshots WHERE session = 'fork') AS sum").get() as { sum: number };
    assert.ok(bytes >= sum, 'its bytes count');
    database.close();
    rig.end();
  });

  it('what can be played again is all from the first chunk to the last, with what is missing between them', () => {
    const rig = new StorageRig();
    rig.write('control', session('a'));
    rig.write('engine', ...[1, 2, 5, 6, 9].map((index) => chunk(0, index)));
    const range = (from90k: number, to90k: number) => {
      rig.storage.receive('control', { type: 'range.of', request: 1, sessionId: 'a', from90k, to90k });
      return rig.messages('range.read').at(-1)!.range;
    };
    const gap = (from: number, to: number) => ({ from90k: from * CHUNK, to90k: to * CHUNK });
    assert.deepEqual(range(0, Infinity), { chunk: 1, from90k: CHUNK, to90k: 10 * CHUNK, gaps: [gap(3, 5), gap(7, 9)] });
    assert.deepEqual(range(4 * CHUNK, 7 * CHUNK - 100), { chunk: 5, from90k: 5 * CHUNK, to90k: 7 * CHUNK - 100 }, 'none at its ends');
    assert.equal(range(7 * CHUNK, 9 * CHUNK), null);
    rig.end();
  });

  it('what was seen of a chunk that never became whole is found until the chunk is there; nothing goes on from it, and it goes with its branch', async () => {
    const rig = new StorageRig({ retention: { maxAgeMs: 1e12, sessionBytes: 6_000 } });
    rig.write('control', session('a'));
    const part = (branch: number, index: number): StorageWrite => ({ type: 'part', sessionId: 'a', branch, chunk: { ...keptChunk(index, 256), end90k: index * CHUNK + 7_500, data: `{"part":${branch}}` } });
    rig.write('engine', ...[0, 1, 2].map((index) => chunk(0, index)), part(0, 3), branchOff(1, 0, 1), chunk(1, 1), part(1, 2));
    const at = (media90k: number, branch?: number): string | null => {
      rig.storage.receive('control', { type: 'chunk.at', request: media90k, sessionId: 'a', media90k, ...(branch === undefined ? {} : { branch }) });
      const { chunk: found } = rig.messages('chunk.read').at(-1)!;
      return found === null ? null : `${found.chunk} ${found.data} ${found.tensors.length}`;
    };
    assert.equal(at(3 * CHUNK + 100, 0), '3 {"part":0} 1');
    assert.equal(at(2 * CHUNK + 100), '2 {"part":1} 1');
    assert.deepEqual([at(2 * CHUNK + 7_500), at(3 * CHUNK)], [null, null], 'only what was seen');
    assert.deepEqual(numbers(rig.world('a')!.story), [[0, 0], [1, 1]], 'the story ends with its last whole chunk');
    await rig.after(30);
    assert.equal(rig.messages('durable').flatMap(({ positions }) => positions).at(-1)!.media90k, 2 * CHUNK);
    rig.write('engine', chunk(1, 2), chunk(1, 3), chunk(1, 4));
    assert.match(at(2 * CHUNK + 100)!, /"branch":1/);
    await rig.after(61_000);
    rig.storage.close();
    const database = new DatabaseSync(join(rig.directory, FILE_NAME));
    assert.deepEqual(database.prepare('SELECT branch, chunk FROM parts').all().map((row) => ({ ...row })), [{ branch: 1, chunk: 2 }], 'what was left is too much');
    assert.equal((database.prepare("SELECT count(*) AS n FROM tensors WHERE owner = 'part'").get() as { n: number }).n, 1);
    database.close();
    rig.end();
  });

  it('what is too much goes from futures that were left, oldest first, before anything of the story in force', async () => {
    const rig = new StorageRig({ retention: { maxAgeMs: 1e12, sessionBytes: 14_000 } });
    threeFutures(rig);
    rig.storage.flush();
    await rig.after(61_000);
    rig.storage.close();
    const database = readDatabase(rig.directory);
    const reader = new SessionReader(database);
    assert.deepEqual(reader.extent('a').chunks, [0, 1, 2, 3, 4]);
    assert.deepEqual(reader.extent('a', 0).chunks, [0, 1, 2], 'what was left of the first is gone');
    database.close();
    rig.end();
  });

  it('a file of the version before is brought to this one whole: its story is the first branch', () => {
    const directory = temporaryDirectory();
    writeFileSync(join(directory, FILE_NAME), gunzipSync(readFileSync(new URL('fixtures/schema_1.db.gz', import.meta.url))));
    const rig = new StorageRig({ directory });
    const { story: kept, events, branches } = rig.world('a')!;
    assert.deepEqual([kept.chunks.map(({ chunk: number }) => number), kept.snapshot?.chunk, kept.branch, branches, events.length], [[0, 1, 2, 3], 2, 0, [], 1]);
    assert.deepEqual([...new Float32Array(kept.chunks[3]!.tensors[0]!.data)], [...latents(3, 64)]);
    assert.deepEqual([...new Float32Array(kept.snapshot!.tensors[0]!.data)], [...latents(2, 64)]);
    rig.write('engine', branchOff(1, 0, 2), chunk(1, 2));
    assert.deepEqual(rig.world('a')!.story.chunks.map(({ chunk: number }) => number), [0, 1, 2]);
    rig.end();
  });

  it('a branch of a version that didn’t write down which future it is: its chunks say it', () => {
    const rig = new StorageRig();
    rig.write('control', session('a'));
    rig.write('engine', ...[0, 1].map((index) => chunk(0, index)), branchOff(1, 0, 1), chunk(1, 1));
    rig.storage.flush();
    rig.storage.close();
    const database = new DatabaseSync(join(rig.directory, FILE_NAME));
    for (const table of ['branches', 'sessions']) database.exec(`ALTER TABLE ${table} DROP COLUMN lineage`);
    database.exec('DROP TABLE parts');
    database.exec('PRAGMA user_version = 2');
    database.close();
    const later = new StorageRig({ directory: rig.directory });
    const { story, branches } = later.world('a')!;
    assert.deepEqual([story.branch, 'lineage' in story, branches.map((branch) => 'lineage' in branch)], [1, false, [false]]);
    later.write('engine', { type: 'branch', sessionId: 'a', branch: { branch: 2, parent: 1, fromChunk: 2, from90k: 2 * CHUNK, left90k: 10 * CHUNK, requestId: 'r', epoch: 2, lineage: 9 } });
    assert.equal(later.world('a')!.story.lineage, 9);
    later.end();
  });
});
