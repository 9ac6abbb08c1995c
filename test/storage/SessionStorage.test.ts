import assert from 'node:assert/strict';
import { chmodSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, it } from 'node:test';
import { FILE_NAME, openDatabase } from '../../src/storage/open_database.ts';
import { SCHEMA_VERSION } from '../../src/storage/schema.ts';
import { StorageError } from '../../src/storage/StorageError.ts';
import type { StorageWrite } from '../../src/streams/storage_messages.ts';
import { chunk, keptChunk, latents, session, StorageRig, temporaryDirectory } from './storage_rig.ts';

function floats(data: ArrayBuffer | SharedArrayBuffer): number[] {
  return [...new Float32Array(data)];
}

function snapshot(sessionId: string, index: number, values = 64): StorageWrite {
  return { type: 'snapshot', sessionId, branch: 0, snapshot: { chunk: index, data: '{"window":1}', tensors: [{ name: 'k0', dims: [values], data: latents(index, values).buffer }] } };
}

describe('SessionStorage', () => {
  it('gives back what it was given, after it was closed and opened again', () => {
    const rig = new StorageRig();
    const image = Uint8Array.from([1, 2, 3]).buffer;
    rig.write('control', session('a', { image }), { type: 'event', sessionId: 'a', event: { sequence: 1, type: 'session.updated', at: 'now', data: '{"x":1}' } });
    rig.write('control', { type: 'request', sessionId: 'a', request: { requestId: 'r', kind: 'redirect', body: '{}', epoch: 1, conditioningVersion: 1, answers: '[1]', done: false } });
    rig.write('control', { type: 'turn', sessionId: 'a', turn: { ordinal: 0, turn: '{"prompt":"a"}' } }, { type: 'turn', sessionId: 'a', turn: { ordinal: 0, turn: '{"prompt":"b"}' } });
    rig.write('engine', chunk('a', 0), chunk('a', 1), snapshot('a', 1), chunk('a', 2));
    rig.write('control', { type: 'request', sessionId: 'a', request: { requestId: 'r', kind: 'redirect', body: '{}', epoch: 1, conditioningVersion: 1, answers: '[1,2]', done: true } });
    rig.storage.close();

    const again = new StorageRig({ directory: rig.directory });
    const world = again.world('a', 1)!;
    assert.deepEqual([...new Uint8Array(world.session.image!)], [1, 2, 3]);
    assert.deepEqual(world.events, [{ sequence: 1, type: 'session.updated', at: 'now', data: '{"x":1}' }]);
    assert.deepEqual(world.requests.map(({ requestId, answers, done }) => [requestId, answers, done]), [['r', '[1,2]', true]]);
    assert.deepEqual(world.turns, [{ ordinal: 0, turn: '{"prompt":"b"}' }]);
    assert.deepEqual(world.story.chunks.map((kept) => kept.chunk), [1, 2]);
    assert.deepEqual(floats(world.story.chunks[1]!.tensors[0]!.data), [...latents(2)]);
    assert.deepEqual(floats(world.story.snapshot!.tensors[0]!.data), [...latents(1, 64)]);
    assert.equal(again.world('b'), null);
    assert.equal(again.messages('ready')[0]!.tokenKey, rig.messages('ready')[0]!.tokenKey, 'tokens outlive the process');
    again.end();
  });

  it('says what is durable only once the batch is on disk, to each writer by its own numbers', async () => {
    const rig = new StorageRig();
    rig.write('control', session('a'));
    rig.write('engine', chunk('a', 0), chunk('a', 1));
    assert.deepEqual([rig.messages('stored').length, rig.messages('durable').length], [0, 0]);
    await rig.after(50);
    assert.deepEqual(rig.told.flatMap(({ writer, message }) => (message.type === 'stored' ? [[writer, message.through]] : [])), [['control', 1], ['engine', 2]]);
    assert.deepEqual(rig.messages('durable')[0]!.positions, [{ sessionId: 'a', branch: 0, chunk: 1, media90k: 30_000 }]);
    rig.end();
  });

  it('goes back to a snapshot only where no chunk is missing on the way, and never past a gap', () => {
    const rig = new StorageRig();
    rig.write('control', session('a'));
    rig.write('engine', snapshot('a', 0), ...[0, 1, 2, 5, 6].map((index) => chunk('a', index)));
    let { story } = rig.world('a')!;
    assert.deepEqual([story.chunks.map((kept) => kept.chunk), story.snapshot], [[5, 6], null]);
    rig.write('engine', snapshot('a', 6), chunk('a', 7));
    ({ story } = rig.world('a', 0)!);
    assert.deepEqual([story.chunks.map((kept) => kept.chunk), story.snapshot?.chunk], [[6, 7], 6]);
    rig.end();
  });

  it('deletes all of a session, and takes nothing more of it', () => {
    const rig = new StorageRig();
    rig.write('control', session('a'), session('b'));
    rig.write('engine', chunk('a', 0), chunk('b', 0), snapshot('a', 0));
    rig.write('control', { type: 'event', sessionId: 'a', event: { sequence: 1, type: 't', at: '', data: '{}' } }, { type: 'delete', sessionId: 'a' });
    rig.write('engine', chunk('a', 1));
    assert.equal(rig.world('a'), null);
    assert.equal(rig.world('b')!.story.chunks.length, 1);
    rig.storage.close();
    const database = new DatabaseSync(join(rig.directory, FILE_NAME));
    for (const table of ['events', 'chunks', 'snapshots', 'tensors']) assert.equal((database.prepare(`SELECT count(*) AS n FROM ${table} WHERE session = 'a'`).get() as { n: number }).n, 0, table);
    database.close();
    rig.end();
  });

  it('a snapshot of another machine is dropped, its latents are kept', () => {
    const rig = new StorageRig();
    rig.write('control', session('a'));
    rig.write('engine', chunk('a', 0), snapshot('a', 0));
    rig.write('control', session('a', { fingerprint: { modelId: 'drive', weightsVersion: 'w1', adapterVersions: {}, machine: 'other' } }));
    const { story } = rig.world('a')!;
    assert.deepEqual([story.snapshot, story.chunks.length, story.fingerprint.machine], [null, 1, 'other']);
    rig.end();
  });

  it('writing that fails is told, loses nothing, and goes on by itself', async () => {
    const rig = new StorageRig();
    rig.write('control', session('a'));
    await rig.after(30);
    // What a full disk does: every statement that writes fails, with SQLite's own code.
    const blocker = new Error('database or disk is full') as Error & { errcode?: number };
    blocker.errcode = 13;
    const exec = DatabaseSync.prototype.exec;
    DatabaseSync.prototype.exec = function (this: DatabaseSync, sql: string) {
      if (sql === 'COMMIT') throw blocker;
      return exec.call(this, sql);
    };
    try {
      rig.write('engine', chunk('a', 0));
      await rig.after(2_000);
      assert.deepEqual(rig.messages('trouble').map(({ message }) => message), ['database or disk is full'], 'told once');
      assert.equal(rig.messages('durable').length, 0);
    } finally {
      DatabaseSync.prototype.exec = exec;
    }
    rig.write('engine', chunk('a', 1));
    await rig.after(600);
    assert.equal(rig.messages('recovered').length, 1);
    assert.deepEqual(rig.messages('durable').at(-1)!.positions, [{ sessionId: 'a', branch: 0, chunk: 1, media90k: 30_000 }]);
    assert.equal(rig.world('a')!.story.chunks.length, 2);
    rig.end();
  });

  it('a write that the database does not take holds up nobody else', async () => {
    const rig = new StorageRig();
    rig.write('control', session('a'));
    rig.write('engine', { type: 'chunk', sessionId: 'a', branch: 0, chunk: { ...keptChunk(0), data: Symbol('x') as unknown as string } }, chunk('a', 1));
    await rig.after(50);
    assert.deepEqual(rig.world('a')!.story.chunks.map((kept) => kept.chunk), [1]);
    assert.equal(rig.told.find(({ writer, message }) => writer === 'engine' && message.type === 'stored')?.message.type, 'stored');
    rig.end();
  });

  it('keeps to its limits: old sessions go whole, large ones from the front, and never their last snapshot', async () => {
    const rig = new StorageRig({ retention: { maxAgeMs: 3_600_000, sessionBytes: 400_000 } });
    rig.write('control', session('large'), session('old'));
    for (let index = 0; index < 40; index++) rig.write('engine', ...(index % 8 === 0 ? [snapshot('large', index)] : []), chunk('large', index));
    rig.storage.flush();
    await rig.after(61_000);
    const { story } = rig.world('large', 100)!;
    assert.ok(story.chunks[0]!.chunk > 0 && story.chunks.at(-1)!.chunk === 39);
    assert.equal(story.chunks[0]!.chunk % 8, 0, 'from a snapshot on');
    assert.equal(story.snapshot?.chunk, 32);
    rig.storage.close();
    const later = new StorageRig({ directory: rig.directory, retention: { maxAgeMs: -1, sessionBytes: 400_000 } });
    assert.deepEqual([later.world('old'), later.world('large')], [null, null]);
    later.end();
  });
});

describe('opening the database', () => {
  it('a file of a later version, of another program, or in use is refused in one line', () => {
    const directory = temporaryDirectory();
    openDatabase(directory).database.close();
    const file = join(directory, FILE_NAME);
    let database = new DatabaseSync(file);
    database.exec(`PRAGMA user_version = ${SCHEMA_VERSION + 1}`);
    database.close();
    assert.throws(() => openDatabase(directory), (error: Error) => error instanceof StorageError && /later version/.test(error.message));
    rmSync(file);
    database = new DatabaseSync(file);
    database.exec('CREATE TABLE other (x)');
    database.close();
    assert.throws(() => openDatabase(directory), (error: Error) => error instanceof StorageError && /another program/.test(error.message));
    rmSync(file);
    const held = openDatabase(directory);
    assert.throws(() => openDatabase(directory), (error: Error) => error instanceof StorageError && /in use/.test(error.message));
    held.database.close();
    rmSync(directory, { recursive: true });
  });

  it('a directory that can not be used is refused', { skip: process.getuid?.() === 0 ? 'root may write everywhere' : false }, () => {
    const directory = temporaryDirectory();
    chmodSync(directory, 0o500);
    assert.throws(() => openDatabase(join(directory, 'x')), StorageError);
    rmSync(directory, { recursive: true });
  });

  it('a path through a file is refused', () => {
    const directory = temporaryDirectory();
    writeFileSync(join(directory, 'file'), '');
    assert.throws(() => openDatabase(join(directory, 'file', 'data')), StorageError);
    rmSync(directory, { recursive: true });
  });

  for (const [what, damage] of [
    ['overwritten from its start', (bytes: Buffer) => bytes.fill(0x5a, 0, 4096)],
    ['cut in the middle of a page', (bytes: Buffer) => bytes.subarray(0, Math.floor(bytes.length / 2) + 100)],
    ['with a page of noise', (bytes: Buffer) => bytes.fill(0xa5, 8192, 12_288)],
  ] as const) {
    it(`a file ${what} is put aside whole, and a new one begun`, () => {
      const rig = new StorageRig();
      rig.write('control', session('a'));
      for (let index = 0; index < 20; index++) rig.write('engine', chunk('a', index));
      rig.storage.close();
      const file = join(rig.directory, FILE_NAME);
      const bytes = damage(readFileSync(file));
      writeFileSync(file, bytes);
      const again = new StorageRig({ directory: rig.directory });
      const { damaged } = again.messages('ready')[0]!;
      assert.ok(damaged !== null && existsSync(damaged));
      // The first 100 bytes are SQLite's header: opening may count in it.
      assert.ok(readFileSync(damaged).subarray(100).equals(bytes.subarray(100)), 'nothing of it is touched');
      assert.equal(again.world('a'), null);
      again.write('control', session('b'));
      assert.notEqual(again.world('b'), null);
      again.end();
    });
  }
});
