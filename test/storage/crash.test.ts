/** kill -9 at random moments while a process writes as fast as the disk takes it. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { latents, StorageRig, temporaryDirectory } from './storage_rig.ts';

const MOMENTS = 20;
const WRITER = fileURLToPath(new URL('./crash_writer.ts', import.meta.url));

test(`what was acknowledged is there after kill -9, at ${MOMENTS} random moments, and the file always opens`, async (t) => {
  const directory = temporaryDirectory();
  let acknowledged = 0;
  let midBatch = 0;
  try {
    for (let moment = 0; moment < MOMENTS; moment++) {
      // The same session goes on every other time, a new one begins in between.
      const sessionId = `s${Math.floor(moment / 2)}`;
      const first = moment % 2 === 0 ? 0 : 10_000;
      const child = spawn(process.execPath, [WRITER, directory, sessionId, String(first)], { stdio: ['ignore', 'pipe', 'inherit'] });
      let durable = -1;
      let stored = 0;
      const lines = createInterface({ input: child.stdout });
      const ready = new Promise<void>((resolve) => {
        lines.on('line', (line) => {
          const [word, value] = line.split(' ');
          if (word === 'ready') resolve();
          if (word === 'durable') durable = Number(value);
          if (word === 'stored') stored = Number(value);
        });
      });
      await Promise.race([ready, once(child, 'exit').then(() => assert.fail('the writer ended before it began'))]);
      await delay(Math.random() * 400);
      child.kill('SIGKILL');
      await Promise.all([once(child, 'close'), once(lines, 'close')]);

      const rig = new StorageRig({ directory });
      assert.equal(rig.messages('ready')[0]!.damaged, null, `moment ${moment}: the file opens as it is`);
      const world = rig.world(sessionId, 100_000);
      if (stored > 0) assert.notEqual(world, null, `moment ${moment}: an acknowledged session is there`);
      const chunks = (world?.story.chunks ?? []).filter(({ chunk }) => chunk >= first);
      if (durable >= 0) {
        const last = chunks.at(-1)!.chunk;
        assert.ok(last >= durable, `moment ${moment}: durable ${durable}, found up to ${last}`);
        assert.equal(chunks.length, last - first + 1, `moment ${moment}: without a gap`);
        for (const { chunk, tensors } of chunks) assert.deepEqual(new Float32Array(tensors[0]!.data), latents(chunk), `moment ${moment}: latents of ${chunk}`);
        acknowledged += durable - first + 1;
        if (last > durable) midBatch++;
      }
      rig.storage.close();
    }
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
  t.diagnostic(`${acknowledged} chunks acknowledged before a kill; at ${midBatch} moments more was there than had been said`);
  assert.ok(acknowledged > 0);
});
