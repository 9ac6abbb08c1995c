/** The prompt memory in sessions, on a virtual clock: real registry and database, scripted engine and media. */
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { SegueError } from '../../src/protocol/errors.ts';
import { editTurn, forgetTurn, importMemory, liveMemory } from '../../src/sessions/memory_changes.ts';
import { keptLives, type KeptLife } from './KeptLife.ts';
import { SessionRig } from './session_rig.ts';

const code = (expected: string) => (error: unknown) => error instanceof SegueError && error.code === expected;

describe('the prompt memory of a session', () => {
  const { begin } = keptLives();

  it('has what was presented of each turn: by the position that media reports and the frame that was told as the first', async () => {
    const rig = new SessionRig();
    const { session, connectionId } = await rig.join({ prompt: 'mountains' });
    const report = (presented90k: number): void => rig.media.emit({ type: 'media.position', sessionId: session.id, epoch: session.words.epoch, sent90k: presented90k + 7_500, presented90k });
    rig.engine.emit({ type: 'text', sessionId: session.id, requestId: null, stream: 'plan', text: 'mountains at noon', attributes: { place: 'mountains', time: 'noon' }, complete: true, epoch: 0 });
    report(7_500);
    rig.media.arrive(session.id, connectionId, 'control', { type: 'redirect', id: 'r', prompt: 'snowy' });
    await rig.after(100);
    report(30_000);
    await rig.after(10);
    const { turns, inForce } = liveMemory(session);
    assert.deepEqual(turns.map(({ prompt, presented }) => [prompt, presented]), [['mountains', { start90k: 0, end90k: 15_000 }], ['snowy', { start90k: 15_000, end90k: 30_000 }]]);
    assert.deepEqual(inForce, { prompt: 'snowy', attributes: { place: 'mountains', time: 'noon' }, adapter: null });
  });

  it('seeds a session: it opens with the plan that was in force, which a prompt edits; what can’t be made is refused', async () => {
    const rig = new SessionRig();
    const memory = { turns: [{ prompt: 'mountains', attributes: { place: 'mountains', time: 'noon' }, adapter: { id: 'noir', scale: 1 } }, { prompt: 'nonsense', outcome: 'failed' as const }] };
    const session = await rig.create({ memory });
    const opened = () => {
      const message = rig.engine.sent.findLast(({ type }) => type === 'session.open');
      assert.ok(message?.type === 'session.open');
      return [message.plan, message.prompt, message.adapter];
    };
    assert.deepEqual(opened(), [{ place: 'mountains', time: 'noon' }, null, { id: 'noir', scale: 1 }]);
    assert.deepEqual(session.memory.turns.map(({ prompt, imported }) => [prompt, imported]), [['mountains', true], ['nonsense', true], ['mountains', false]]);
    assert.equal(session.view.prompt, 'mountains');
    await rig.create({ memory, prompt: 'snowy' });
    assert.deepEqual(opened(), [{ place: 'mountains', time: 'noon' }, 'snowy', { id: 'noir', scale: 1 }]);
    await assert.rejects(rig.create({ memory: { turns: [{ attributes: { mood: 'sad' } }] } }), code('plan_not_usable'));
    await assert.rejects(rig.create({ memory: { turns: [{ prompt: 'qwertz' }] } }), code('prompt_not_understood'));
    await assert.rejects(rig.create({ memory: { turns: [{ adapter: { id: 'none', scale: 1 } }] } }), code('adapter_not_usable'));
    await assert.rejects(rig.create({ memory, image: new SharedArrayBuffer(4) }), code('bad_request'));
    assert.equal(rig.registry.live.length, 2);
  });

  it('is replaced once the world is what the import says, by a redirect of its own; what is refused leaves it as it was', async () => {
    const rig = new SessionRig();
    const { session } = await rig.join({ prompt: 'mountains' });
    await rig.after(50);
    await assert.rejects(importMemory(session, { turns: [{ prompt: 'x', attributes: { mood: 'sad' } }] }, 'key'), code('plan_not_usable'));
    assert.deepEqual(session.memory.turns.map(({ prompt }) => prompt), ['mountains']);
    const importing = importMemory(session, { session: 'ses_other', turns: [{ prompt: 'a city', attributes: { place: 'city' } }, { prompt: 'snowy' }] }, 'key');
    await rig.after(100);
    await importing;
    const asked = rig.engine.requests.findLast(({ request }) => request === 'redirect');
    assert.ok(asked?.request === 'redirect');
    assert.deepEqual([asked.plan, asked.prompt, asked.adapter, asked.seamless], [{ place: 'city' }, 'snowy', null, false]);
    assert.deepEqual(session.memory.turns.map(({ prompt, imported, outcome }) => [prompt, imported, outcome]), [['a city', true, 'applied'], ['snowy', true, 'applied'], ['snowy', false, 'applied']]);
    const logged = session.events.since(0).events.find(({ type }) => type === 'memory.imported');
    assert.deepEqual([logged?.data['turns'], logged?.data['by'], logged?.data['from']], [2, 'key', 'ses_other']);
  });

  it('corrections are in the event log, without the words, and on disk; a folded, corrected, shortened memory comes back as it was', async () => {
    const life = begin();
    const { rig } = life;
    const { session, connectionId } = await rig.join({ memory: { turns: Array.from({ length: 250 }, (_, at) => ({ prompt: `turn ${at}`, attributes: { place: 'city' } })) } });
    await rig.after(100);
    for (let at = 0; at < 10; at++) {
      rig.media.arrive(session.id, connectionId, 'control', { type: 'redirect', id: `r${at}`, prompt: `snowy ${at}` });
      await rig.after(300);
    }
    life.chunks(session.id, 0, 2);
    editTurn(session, 100, { prompt: 'a secret' }, 'client');
    forgetTurn(session, 101, 'key');
    await rig.after(300);
    const events = session.events.since(0).events;
    assert.deepEqual(events.filter(({ type }) => type.startsWith('memory.')).map(({ type, data }) => [type, data['turn'], data['by']]), [['memory.condensed', 63, undefined], ['memory.edited', 100, 'client'], ['memory.deleted', 101, 'key']]);
    assert.ok(!JSON.stringify(events).includes('a secret'));
    const before = liveMemory(session);
    assert.equal(before.turns[0]?.standsFor, 64);
    life.kill();
    const next = begin();
    await next.rig.registry.wake();
    const kept = await settled(next, next.rig.registry.memory(session.id));
    assert.deepEqual(kept.turns, before.turns, 'as an export of a session that nobody has come back to');
    const back = await next.rig.registry.reach(session.id);
    assert.deepEqual(liveMemory(back).turns.map(({ turn, prompt, standsFor }) => [turn, prompt, standsFor]), before.turns.map(({ turn, prompt, standsFor }) => [turn, prompt, standsFor]));
    await assert.rejects(settled(next, next.rig.registry.memory('ses_none')), code('session_not_found'));
  });

  it('an export imports as it is, also over and over', async () => {
    const rig = new SessionRig();
    const first = await rig.create({ prompt: 'mountains', memory: { turns: [{ prompt: 'x', attributes: { place: 'city' } }] } });
    const second = await rig.create({ memory: liveMemory(first) });
    assert.deepEqual(liveMemory(second).inForce, liveMemory(first).inForce);
    assert.deepEqual(second.memory.turns.map(({ prompt }) => prompt), ['x', 'mountains', 'mountains']);
  });
});

async function settled<T>({ rig }: KeptLife, promise: Promise<T>): Promise<T> {
  const outcome = promise.then((value) => ({ value }), (error: unknown) => ({ error }));
  await rig.after(100);
  const done = await outcome;
  if ('error' in done) throw done.error;
  return done.value;
}
