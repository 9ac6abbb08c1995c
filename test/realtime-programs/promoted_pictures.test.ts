import assert from 'node:assert/strict';
import { test } from 'node:test';
import { VirtualDrive } from '../../bench/virtual/VirtualDrive.ts';
import type { SentFrame } from '../../src/simulation/SimulatedViewer.ts';

const PROMPT = 'snowy mountains at night with fog';

/** Pictures after a redirect, of the model itself. */
async function redirected(drafts: boolean, holdMs: number): Promise<{ readonly sent: readonly SentFrame[]; readonly from: unknown }> {
  const drive = await VirtualDrive.open({ engine: {}, speed: 1, pictures: true, load: 0, seed: 11 });
  try {
    await drive.run(500);
    if (drafts) drive.viewer.type(PROMPT, false);
    await drive.run(holdMs);
    drive.viewer.redirect('r', PROMPT, false, 1);
    await drive.run(450);
    return { sent: drive.viewer.sent.filter(({ chunk }) => chunk.epoch === 1), from: drive.traces('draft.promoted')[0]?.args?.['from'] };
  } finally {
    await drive.close();
  }
}

for (const holdMs of [390, 463]) {
  test(`a promoted draft shows the pictures of a plain redirect, bit for bit (Enter after ${holdMs} ms)`, async () => {
    const promoted = await redirected(true, holdMs);
    const plain = await redirected(false, holdMs);
    assert.equal(promoted.from, 'frame');
    assert.equal(plain.from, undefined);
    assert.ok(promoted.sent.length > plain.sent.length || promoted.sent[0]!.atMs < plain.sent[0]!.atMs, 'it is there sooner');
    for (const [at, { chunk, rgb }] of plain.sent.slice(0, 3).entries()) {
      assert.equal(promoted.sent[at]!.chunk.start90k, chunk.start90k);
      assert.ok(Buffer.from(rgb).equals(promoted.sent[at]!.rgb), `frame ${at} is the same picture`);
    }
  });
}
