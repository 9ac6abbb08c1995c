/** The command on a story of the real model, as a process of its own, on a database as a server leaves it. */
import assert from 'node:assert/strict';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, it } from 'node:test';
import sharp from 'sharp';
import { KeptSessionRig } from '../realtime-programs/KeptSessionRig.ts';
import { session, StorageRig, temporaryDirectory } from '../storage/storage_rig.ts';
import type { KeptChunk, StorageWrite } from '../../src/streams/storage_messages.ts';
import { segue } from './segue.ts';

const FRAME_90K = 7_500;

describe('segue replay', () => {
  const directory = temporaryDirectory();
  const pictures = new Map<number, Uint8Array>();
  /** Of a story that was gone back in twice, by branch: how far each was seen, and what was emitted last by then. */
  const futures: { readonly left90k: number; readonly pictures: ReadonlyMap<number, Uint8Array> }[] = [];
  let chunks: readonly KeptChunk[];
  let storage: StorageRig;
  const replay = (...args: string[]) => segue('replay', ...args, '--storage', directory);

  before(async () => {
    const rig = new KeptSessionRig(3);
    await rig.start();
    rig.open('s', { prompt: 'a city at noon' });
    await rig.until(() => rig.chunks.length >= 3, 'three chunks');
    rig.request('s', 'r1', { request: 'redirect', prompt: 'make it night', seamless: false });
    await rig.until(() => rig.messages.some(({ type }) => type === 'request.applied'), 'the redirect');
    const shown = rig.chunks.length;
    await rig.until(() => rig.chunks.length >= shown + 4 && rig.snapshots.length >= 2, 'four more, and snapshots');
    await rig.end('s');
    chunks = rig.chunks;
    for (const [at, picture] of rig.pictures) pictures.set(at, picture);
    // The same story, made with other weights: each chunk says with which.
    const reweighed = rig.written.map((write) => (write.type === 'chunk' ? { ...write, chunk: { ...write.chunk, data: write.chunk.data.replaceAll(rig.loaded.weightsVersion, 'w0') } } : write));
    const written = new Map([['s', rig.written], ['other', reweighed]]);
    rig.pictures.clear();
    rig.open('back', { prompt: 'a city at noon' });
    await rig.until(() => rig.frames.length >= 13 && rig.snapshots.length >= 1, 'some seconds');
    for (const [id, to90k] of [['w1', 7 * FRAME_90K], ['w2', 3 * FRAME_90K]] as const) {
      futures.push({ left90k: rig.frames.at(-1)!.start90k, pictures: new Map(rig.pictures) });
      rig.request('back', id, { request: 'rewind', to90k, exact: false });
      await rig.until(() => rig.frames.at(-1)!.epoch === rig.words.epoch && rig.frames.at(-1)!.start90k >= to90k + 7 * FRAME_90K, 'another future');
    }
    const { end90k } = rig.chunks.at(-1)!;
    futures.push({ left90k: end90k, pictures: new Map(rig.pictures) });
    await rig.end('back');
    written.set('back', rig.written);
    const { loaded } = rig;
    storage = new StorageRig({ directory });
    const fingerprint = { modelId: loaded.modelId, weightsVersion: loaded.weightsVersion, adapterVersions: {}, machine: loaded.fingerprint };
    for (const [id, made] of [['s', fingerprint], ['back', fingerprint], ['other', { ...fingerprint, weightsVersion: 'w0' }], ['gone', fingerprint]] as const) {
      storage.write('control', session(id, { seed: 7, fingerprint: made }));
      storage.write('engine', ...(written.get(id) ?? []).map((write): StorageWrite => ({ ...write, sessionId: id }) as StorageWrite));
    }
    storage.storage.flush();
    await rig.close();
  });
  after(() => {
    storage?.end();
    rmSync(directory, { recursive: true, force: true });
  });

  it('says so while a server has the storage', async () => {
    const { code, err } = await replay('s');
    assert.equal(code, 3);
    assert.match(err, /in use by a running server/);
    storage.storage.close();
  });

  it('a story with a redirect in it is bit-equal, from its beginning on', async (t) => {
    const { code, out, err } = await replay('s');
    t.diagnostic(out.trim());
    assert.equal(code, 0, err + out);
    assert.match(out, new RegExp(`^${chunks.length} chunks, bit-equal`, 'm'));
  });

  it('a frame is the one that was emitted: before the redirect, after it, and where there is one of a chunk that was made around seen frames', async (t) => {
    const pinned = chunks.find(({ data }) => (JSON.parse(data) as { pinnedFrames: number }).pinnedFrames > 0);
    const wanted = new Set([3, ...(pinned === undefined ? [] : [pinned.chunk * 2, pinned.chunk * 2 + 1]), chunks.at(-1)!.chunk * 2 + 1]);
    t.diagnostic(`frames ${[...wanted].join(', ')}; pinned chunk ${pinned?.chunk ?? 'none'}`);
    for (const frame of wanted) {
      const file = join(directory, `${frame}.png`);
      const { code, out, err } = await replay('s', '--frame', String(frame), '--out', file);
      assert.equal(code, 0, err + out);
      const { data, info } = await sharp(file).removeAlpha().raw().toBuffer({ resolveWithObject: true });
      assert.deepEqual([info.width, info.height, info.channels], [224, 128, 3]);
      assert.ok(data.equals(pictures.get(frame * FRAME_90K)!), `frame ${frame}`);
    }
  });

  it('of a story that was gone back in, each future is bit-equal as far as it was seen, and a frame of it is its own', async (t) => {
    const shown: Buffer[] = [];
    for (const [branch, { left90k, pictures: emitted }] of futures.entries()) {
      if (branch !== 1) {
        // Without a branch it is the one in force, the last.
        const { code, out, err } = await (branch === 0 ? replay('back', '--branch', '0') : replay('back'));
        t.diagnostic(`branch ${branch}: ${out.trim()}`);
        assert.equal(code, 0, err + out);
        assert.ok(Number(/^(\d+) chunks, bit-equal/m.exec(out)?.[1]) * 2 * FRAME_90K >= left90k, `seen up to ${left90k}: ${out}`);
      }
      const file = join(directory, `branch-${branch}.png`);
      assert.equal((await replay('back', '--branch', String(branch), '--frame', '8', '--out', file)).code, 0);
      const data = await sharp(file).removeAlpha().raw().toBuffer();
      assert.ok(data.equals(emitted.get(8 * FRAME_90K)!), `frame 8 of branch ${branch}`);
      assert.ok(shown.every((other) => !other.equals(data)), 'no other future has it');
      shown.push(data);
    }
    const { code, err } = await replay('back', '--branch', '3');
    assert.deepEqual([code, /no branch 3: the story has branches 0, 1, 2/.test(err)], [3, true], err);
  });

  it('one bit of one latent changed: the chunk is named, and the exit says so', async () => {
    const database = new DatabaseSync(join(directory, 'segue.db'));
    const row = database.prepare("SELECT rowid AS id, data FROM tensors WHERE session = 's' AND owner = 'chunk' AND chunk = 2 AND name = 'latents'").get() as { id: number; data: Uint8Array };
    const changed = Uint8Array.from(row.data);
    changed[1000]! ^= 1;
    database.prepare('UPDATE tensors SET data = ? WHERE rowid = ?').run(changed, row.id);
    database.close();
    const { code, out } = await replay('s');
    assert.equal(code, 1, out);
    assert.match(out, /^first difference: chunk 2 /m);
  });

  it('a story that two sets of weights made: what these made is compared, and what the others did is named', async () => {
    const database = new DatabaseSync(join(directory, 'segue.db'));
    database.exec("UPDATE chunks SET data = json_set(data, '$.origin.weightsVersion', 'drive-other') WHERE session = 's' AND branch = 0 AND chunk >= 2");
    database.close();
    const { code, out } = await replay('s');
    assert.equal(code, 0, out);
    assert.match(out, /^chunks 2 to \d+ were made with drive-other: only those weights can make them again, they are left out$/m);
    assert.match(out, /^2 chunks, bit-equal/m);
  });

  it('what can’t be done, and what is no call', async () => {
    assert.equal((await segue('--help')).code, 0);
    for (const [code, text, ...args] of [
      [2, /which session/, 'replay'],
      [2, /no command rewind/, 'rewind', 's'],
      [2, /--frame is a number/, 'replay', 's', '--frame', 'two'],
      [2, /--out goes with --frame/, 'replay', 's', '--out', 'x.png'],
      [3, /no session none/, 'replay', 'none', '--storage', directory],
      [3, /only the same weights/, 'replay', 'other', '--storage', directory],
      [3, /nothing of its story is kept/, 'replay', 'gone', '--storage', directory],
      [3, /frame 9999 can't be computed/, 'replay', 's', '--frame', '9999', '--storage', directory],
      [3, /no .*segue\.db/, 'replay', 's', '--storage', join(directory, 'nowhere')],
    ] as const) {
      const done = await segue(...args);
      assert.match(done.err, text);
      assert.equal(done.code, code, done.err);
    }
  });
});
