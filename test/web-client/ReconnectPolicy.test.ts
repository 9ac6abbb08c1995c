import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { CandidateQueue } from '../../web-client/sdk/CandidateQueue.ts';
import { ReconnectPolicy } from '../../web-client/sdk/ReconnectPolicy.ts';

describe('ReconnectPolicy', () => {
  it('tries at once, backs off to 4 s, and gives up with the grace period', () => {
    const policy = new ReconnectPolicy(60_000, () => 0.5);
    assert.deepEqual([0, 1, 2, 3, 4, 5, 6].map((attempt) => policy.delayMs(attempt, 0)), [0, 250, 500, 1_000, 2_000, 4_000, 4_000]);
    assert.equal(policy.delayMs(6, 56_001), null);
  });
});

describe('CandidateQueue', () => {
  it('keeps candidates that come before the connection has an id, and sends in order', async () => {
    const sent: string[] = [];
    const queue = new CandidateQueue<string>(async (id, candidate) => void sent.push(`${id} ${candidate}`), () => assert.fail());
    queue.add('a');
    queue.add('b');
    assert.deepEqual(sent, []);
    queue.start('c1');
    queue.add(null);
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual(sent, ['c1 a', 'c1 b', 'c1 null']);
  });

  it('goes on after a candidate that could not be sent', async () => {
    const sent: string[] = [];
    let failures = 0;
    const queue = new CandidateQueue<string>(
      async (_id, candidate) => {
        if (candidate === 'a') throw new Error('refused');
        sent.push(String(candidate));
      },
      () => (failures += 1),
    );
    queue.start('c1');
    queue.add('a');
    queue.add('b');
    await new Promise((resolve) => setImmediate(resolve));
    assert.deepEqual([sent, failures], [['b'], 1]);
  });
});
