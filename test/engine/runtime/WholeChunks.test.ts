import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EngineOptions } from '../../../src/engine/runtime/engine_options.ts';
import { Simulation } from '../../interruption/virtual/Simulation.ts';

/** How often the device turned to somebody who had no chunk under way before the chunks under way were finished, while one of three sessions asks for changes. */
async function turnsInsideChunks(policy: EngineOptions['policy']): Promise<number> {
  const batches: { readonly sessions: readonly string[]; readonly component: string }[] = [];
  const simulation = new Simulation({
    engine: { policy },
    outcome: ({ units, component }, deviceMs) => {
      batches.push({ sessions: units.map(({ sessionId }) => sessionId), component });
      return { deviceMs, answer: 'ok' };
    },
  });
  const [asking] = ['a', 'b', 'c'].map((id, index) => simulation.open(id, 'scene 1', index + 1));
  await simulation.run(3_000);
  batches.length = 0;
  for (let turn = 0; turn < 40; turn++) {
    simulation.request(asking!, `r${turn}`, { request: 'redirect', prompt: `scene ${turn % 9}`, seamless: true });
    await simulation.run(300 + turn * 7);
  }
  let turns = 0;
  const unfinished = new Map<string, number>();
  for (const { sessions, component } of batches) {
    if (unfinished.size > 0 && sessions.every((id) => !unfinished.has(id))) turns++;
    for (const id of sessions) {
      if (component === 'denoise_step' && !unfinished.has(id)) unfinished.set(id, 0);
      if (component === 'audio_synth' && unfinished.has(id)) unfinished.set(id, (unfinished.get(id) ?? 0) + 1);
      if (unfinished.get(id) === 2) unfinished.delete(id);
    }
  }
  await simulation.finish();
  return turns;
}

test('the baseline finishes a chunk before it serves anybody else; units of different chunks alternate otherwise', async () => {
  assert.ok((await turnsInsideChunks('unit')) > 20);
  const whole = await turnsInsideChunks('chunk');
  assert.equal(whole, 0);
});
