/** The command on a story of the real model, as a process of its own, on a database as a server leaves it. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, before, describe, it } from 'node:test';
import sharp from 'sharp';
import { KeptSessionRig } from '../realtime-programs/KeptSessionRig.ts';
import { session, StorageRig, temporaryDirectory } from '../storage/storage_rig.ts';
import type { KeptChunk, StorageWrite } from '../../src/streams/storage_messages.ts';

const COMMAND = new URL('../../src/cli/segue.ts', import.meta.url).pathname;
const FRAME_90K = 7_500;

async function segue(...args: string[]): Promise<{ readonly code: number | null; readonly out: string; readonly err: string }> {
  const child = spawn(process.execPath, [COMMAND, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
  let [out, err] = ['', ''];
  child.stdout.on('data', (data: Buffer) => (out += String(data)));
  child.stderr.on('data', (data: Buffer) => (err += String(data)));
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve));
  return { code, out, err };
}

describe('segue replay', () => {
  const directory = temporaryDirectory();
  const pictures = new Map<number, Uint8Array>();
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
    const { loaded, snapshots } = rig;
    storage = new StorageRig({ directory });
    const fingerprint = { modelId: loaded.modelId, weightsVersion: loaded.weightsVersion, adapterVersions: {}, machine: loaded.fingerprint };
    for (const [id, made] of [['s', fingerprint], ['other', { ...fingerprint, weightsVersion: 'w0' }], ['gone', fingerprint]] as const) {
      storage.write('control', session(id, { seed: 7, fingerprint: made }));
      if (id !== 'gone') storage.write('engine', ...chunks.map((chunk): StorageWrite => ({ type: 'chunk', sessionId: id, branch: 0, chunk })), ...snapshots.map((snapshot): StorageWrite => ({ type: 'snapshot', sessionId: id, branch: 0, snapshot })));
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
