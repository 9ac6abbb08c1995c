import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PlannedUnit } from '../../../src/engine/model/work.ts';
import { Simulation } from './Simulation.ts';

for (const seamless of [true, false]) {
  test(`a wish that replaces another midway (${seamless ? 'seamless' : 'hard'}) frees what the director had read of it`, async () => {
    const begun: PlannedUnit[] = [];
    const simulation = new Simulation({ outcome: (batch, deviceMs) => (begun.push(...batch.units), { deviceMs, answer: 'ok' }) });
    const session = simulation.open();
    await simulation.run(2000);
    const before = simulation.worker.blocks;
    begun.length = 0;
    let most = 0;
    for (let wish = 0; wish < 40; wish++) {
      simulation.request(session, `r${wish}`, { request: 'redirect', prompt: `scene ${wish % 10} ${(wish + 3) % 10}`, seamless });
      // Another moment each time: while the text is read, at a token, between passes, while the plan is encoded.
      await simulation.run(0.7 + (wish % 11) * 0.6);
      most = Math.max(most, simulation.worker.blocks);
    }
    const director = begun.filter(({ kernel }) => kernel === 'ar_decode');
    assert.ok(director.filter(({ plan }) => plan.kind === 'ar_prefill').length >= 30, 'nearly every wish was begun');
    assert.ok(director.filter(({ plan }) => plan.kind === 'ar_token').length >= 40, 'and many were replaced midway');
    assert.ok(most <= before + 12, `${most} blocks at once, ${before} before the wishes`);
    await simulation.run(3000);
    assert.equal(simulation.messages.filter(({ type }) => type === 'session.fault').length, 0);
    await simulation.finish();
  });
}

test('a plan goes on to its narration over the same keys and values: the prompt is read once', async () => {
  const begun: PlannedUnit[] = [];
  const simulation = new Simulation({ outcome: (batch, deviceMs) => (begun.push(...batch.units), { deviceMs, answer: 'ok' }) });
  const session = simulation.open();
  await simulation.run(2000);
  begun.length = 0;
  simulation.request(session, 'r', { request: 'redirect', prompt: 'scene 4', seamless: true });
  await simulation.run(2000);
  const director = begun.filter(({ kernel }) => kernel === 'ar_decode').map(({ plan }) => plan.kind);
  assert.deepEqual(director, ['ar_prefill', 'ar_token', 'ar_token', 'ar_token', 'ar_token']);
  assert.equal(session.texts.filter(({ stream, requestId }) => stream === 'narration' && requestId === 'r').map(({ text }) => text).join(''), '11 12');
  await simulation.finish();
});
