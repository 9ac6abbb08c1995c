import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Simulation } from './Simulation.ts';

type Usage = { readonly sessionId: string; readonly deviceMs: number; readonly lateFrames: number };

function usages(simulation: Simulation): Usage[] {
  return simulation.messages.flatMap((message) => (message.type === 'session.usage' ? [message] : []));
}

describe('device time is counted where it is spent', () => {
  it('what sessions are told adds up to what the device was busy, with interruptions and drafts', async () => {
    const simulation = new Simulation();
    const [one, other] = [simulation.open('a'), simulation.open('b', 'scene 2', 2)];
    for (let round = 0; round < 20; round++) {
      await simulation.run(170);
      simulation.draft(one, `d${round}`, `scene ${round % 10}`);
      await simulation.run(160);
      simulation.request(one, `r${round}`, { request: 'redirect', prompt: `scene ${round % 10}`, seamless: false });
    }
    simulation.request(other, 'stop', { request: 'interrupt' });
    await simulation.finish();
    const last = (sessionId: string) => usages(simulation).findLast((usage) => usage.sessionId === sessionId)!;
    const { deviceBusyMs } = simulation.core.stats();
    assert.ok(Math.abs(last('a').deviceMs + last('b').deviceMs - deviceBusyMs) < 1e-6, `${last('a').deviceMs} and ${last('b').deviceMs} of ${deviceBusyMs}`);
    assert.ok(last('a').deviceMs > last('b').deviceMs, 'who asks for more has used more');
  });

  it('is told once a second, and not of a session that does nothing', async () => {
    const simulation = new Simulation();
    const session = simulation.open('a');
    await simulation.run(5_050);
    const flowing = usages(simulation).length;
    assert.equal(flowing, 5);
    simulation.request(session, 'stop', { request: 'interrupt' });
    await simulation.run(2_000);
    const held = usages(simulation).length;
    await simulation.run(10_000);
    assert.equal(usages(simulation).length, held);
    await simulation.finish();
  });

  it('late pictures are counted with it', async () => {
    let slow = false;
    const simulation = new Simulation({ outcome: (_, deviceMs) => ({ deviceMs: slow ? deviceMs * 8 : deviceMs, answer: 'ok' }) });
    const session = simulation.open('a');
    await simulation.run(2_000);
    slow = true;
    await simulation.run(1_500);
    slow = false;
    await simulation.run(2_000);
    assert.ok(session.late > 0);
    assert.equal(usages(simulation).at(-1)!.lateFrames, session.late);
    await simulation.finish();
  });
});
