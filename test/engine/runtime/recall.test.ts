/** What was made but not sent is made anew when what is held or asked for changes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Simulation } from '../../interruption/virtual/Simulation.ts';
import { seededRandom } from '../../interruption/seeded_random.ts';
import type { SimulatedSession } from '../../interruption/virtual/SimulatedSession.ts';

const FRAME = 7_500;

/** Milliseconds from a change to the first picture that goes out under it, at every phase of a chunk. */
async function latencies(policy: 'unit' | 'chunk', change: (simulation: Simulation, session: SimulatedSession, turn: number) => void, shows: (session: SimulatedSession, turn: number) => { readonly atMs: number } | undefined): Promise<{ ms: number[]; simulation: Simulation; session: SimulatedSession }> {
  const simulation = new Simulation({ engine: { policy } });
  const session = simulation.open();
  await simulation.run(3_000);
  const ms: number[] = [];
  for (let turn = 0; turn < 17; turn++) {
    await simulation.run(1_500 + turn * 10);
    const atMs = simulation.clock.now();
    change(simulation, session, turn);
    await simulation.run(700);
    const shown = shows(session, turn);
    assert.ok(shown !== undefined, `turn ${turn} is never shown`);
    ms.push(shown.atMs - atMs);
  }
  return { ms, simulation, session };
}

const steer = (policy: 'unit' | 'chunk') =>
  latencies(policy, (_, session, turn) => session.act(turn % 2 === 0 ? 1 : -1), (session) => session.sent.find(({ actionSequence }) => actionSequence >= session.words.action.sequence));

const blend = (policy: 'unit' | 'chunk') =>
  latencies(
    policy,
    (simulation, session, turn) => {
      simulation.request(session, `r${turn}`, { request: 'redirect', prompt: `scene ${(turn % 8) + 2}`, seamless: true });
    },
    (session, turn) => session.sent.find(({ events }) => events.started.includes(`r${turn}`)),
  );

const worst = (values: readonly number[]): number => Math.max(...values);
const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

test('an action lands at the next frame that can still be made anew, not at the next chunk', async () => {
  const ours = await steer('unit');
  const chunks = await steer('chunk');
  assert.ok(ours.session.recalls >= 10, `${ours.session.recalls} recalls`);
  assert.equal(chunks.session.recalls, 0);
  assert.ok(mean(ours.ms) * 2 <= mean(chunks.ms), `${mean(ours.ms)} ms against ${mean(chunks.ms)} ms`);
  assert.ok(worst(ours.ms) * 1.5 <= worst(chunks.ms), `at worst ${worst(ours.ms)} ms against ${worst(chunks.ms)} ms`);
  await ours.simulation.finish();
  await chunks.simulation.finish();
});

test('a seamless redirect recalls what is unsent, and nothing that was seen is lost: what goes out is contiguous', async () => {
  const ours = await blend('unit');
  const chunks = await blend('chunk');
  assert.ok(ours.session.recalls >= 5, `${ours.session.recalls} recalls`);
  assert.ok(mean(ours.ms) < mean(chunks.ms), `${mean(ours.ms)} ms against ${mean(chunks.ms)} ms`);
  for (let turn = 0; turn < 17; turn++) assert.equal(ours.session.answers.get(`r${turn}`)?.length, 1);
  const { sent } = ours.session;
  for (const [at, frame] of sent.entries()) assert.equal(frame.start90k, at * FRAME);
  await ours.simulation.finish();
  await chunks.simulation.finish();
});

test('pressing keys all the time costs no more than the reserve: a neighbour misses nothing', async () => {
  const simulation = new Simulation();
  const restless = simulation.open('restless');
  const neighbour = simulation.open('neighbour', 'scene 2', 2);
  await simulation.run(3_000);
  const before = simulation.core.stats().deadlinesMissed;
  for (let press = 0; press < 400; press++) {
    restless.act(press % 2 === 0 ? 1 : -1);
    await simulation.run(50);
  }
  assert.ok(restless.recalls > 10, `${restless.recalls} recalls in 20 s`);
  for (const session of [restless, neighbour]) assert.ok(session.sent.length >= 12 * 20, `${session.sessionId} sent ${session.sent.length}`);
  const late = neighbour.sent.slice(12).filter((frame, at, all) => at > 0 && frame.atMs - all[at - 1]!.atMs > 1.5 * (FRAME / 90)).length;
  assert.equal(late, 0, 'late frames of the neighbour');
  assert.ok(simulation.core.stats().deadlinesMissed - before <= 2);
  await simulation.finish();
});

for (const component of ['denoise_step', 'clean_write', 'vae_decode', 'audio_synth', 'director_step'] as const) {
  test(`input that changes while a ${component} is out: no unit fails, and what goes out is contiguous`, async () => {
    let session: SimulatedSession | null = null;
    let presses = 0;
    const random = seededRandom(7);
    const simulation: Simulation = new Simulation({
      outcome: (batch, deviceMs) => {
        // Also while what was taken back is being made again, and what follows is all that there is time for.
        if (batch.component === component && session !== null && random() < 0.25) simulation.clock.schedule(simulation.clock.now() + deviceMs * 0.6, () => session!.act(++presses % 2 === 0 ? 1 : -1));
        return { deviceMs, answer: 'ok' };
      },
    });
    session = simulation.open();
    for (let turn = 0; turn < 40; turn++) {
      await simulation.run(1_500);
      if (component === 'director_step') simulation.request(session, `r${turn}`, { request: 'redirect', prompt: `scene ${(turn % 8) + 2}`, seamless: true });
    }
    assert.ok(session.recalls >= 3, `${session.recalls} recalls`);
    assert.equal(simulation.core.stats().unitsFailed, 0);
    for (const [at, frame] of session.sent.entries()) assert.equal(frame.start90k, at * FRAME);
    session = (simulation.close(session), null);
    await simulation.finish();
  });
}
