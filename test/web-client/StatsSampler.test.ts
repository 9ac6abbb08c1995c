import assert from 'node:assert/strict';
import { describe, it, type TestContext } from 'node:test';
import type { FrameNotice } from '../../web-client/sdk/messages.ts';
import { StatsSampler, type ClientStats } from '../../web-client/sdk/StatsSampler.ts';
import type { Transport } from '../../web-client/sdk/Transport.ts';

const TRANSPORT = { kind: 'webrtc', stats: () => Promise.resolve({ bytesReceived: 0, roundTripMs: null, jitterBufferMs: null, packetsLost: 0, framesDropped: 0 }) } as unknown as Transport;
const notice = (change: Partial<FrameNotice>): FrameNotice => ({ type: 'frame', rtp: 0, audioRtp: 0, epoch: 0, conditioningVersion: 1, actionSequence: 0, chunk: 4, frameInChunk: 0, step: 0, media90k: 0, origin: 'generated', ...change });

/** What is told a second later of frames with these notices. */
async function statsOf(t: TestContext, notices: readonly FrameNotice[]): Promise<ClientStats> {
  t.mock.timers.enable({ apis: ['setInterval'] });
  const told = Promise.withResolvers<ClientStats>();
  const sampler = new StatsSampler(told.resolve);
  sampler.start(TRANSPORT, () => 0);
  for (const one of notices) sampler.painted({ rtp: one.rtp, paintedAt: performance.now(), notice: one, late: false });
  t.mock.timers.tick(1_000);
  const stats = await told.promise;
  sampler.stop();
  return stats;
}

describe('StatsSampler', () => {
  it('tells the chunk and the step from which the last change counts, not those of a notice that changes nothing', async (t) => {
    const stats = await statsOf(t, [notice({}), notice({ actionSequence: 1, chunk: 7, step: 2 }), notice({ actionSequence: 1, chunk: 9, step: 0 })]);
    assert.deepEqual(stats.lastChange, { chunk: 7, step: 2 });
    assert.equal(stats.chunk, 9);
    assert.equal(stats.framesPerSecond, 3);
  });

  it('knows of no change before one was painted', async (t) => {
    assert.equal((await statsOf(t, [notice({}), notice({ chunk: 5 })])).lastChange, null);
  });
});
