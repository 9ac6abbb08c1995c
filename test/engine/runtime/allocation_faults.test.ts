/** Whatever can be refused is refused at random: blocks of a step, slots, reservations of whoever comes, drafts, the past and the cache. What was admitted must not notice but by waiting. */
import assert from 'node:assert/strict';
import { mock, test, type TestContext } from 'node:test';
import { BlockPool } from '../../../src/engine/memory/BlockPool.ts';
import { seededRandom } from '../../../src/simulation/seeded_random.ts';
import { SharedPool } from '../../../src/streams/shared_pool.ts';
import { Simulation } from '../../interruption/virtual/Simulation.ts';
import type { SimulatedSession } from '../../interruption/virtual/SimulatedSession.ts';
import { SimulatedLoops } from '../scheduler/SimulatedLoops.ts';

const UNITS = Number(process.env['SEGUE_UNITS'] ?? 100_000);
/** Of live sessions, whose units cost a test far more than those of bare loops. */
const SESSION_UNITS = UNITS / 40;
const SESSIONS = 8;
/** So many times as fast as a core: room for that many sessions, and for what is done twice. */
const SPEED = 8;

/** Makes each way to reserve fail at random from here on; what failed, and how often. */
function failingAllocator(t: TestContext, random: () => number): Record<'allocate' | 'reserve' | 'transfer' | 'acquire', number> {
  const refused = { allocate: 0, reserve: 0, transfer: 0, acquire: 0 };
  const { allocate, reserve, transfer } = BlockPool.prototype;
  const { acquire } = SharedPool.prototype;
  const fails = (point: keyof typeof refused, share: number): boolean => random() < share && ++refused[point] > 0;
  mock.method(BlockPool.prototype, 'allocate', function (this: BlockPool, ...args: Parameters<typeof allocate>) {
    return args[1].length > 0 && fails('allocate', 0.05) ? null : allocate.apply(this, args);
  });
  mock.method(BlockPool.prototype, 'reserve', function (this: BlockPool, ...args: Parameters<typeof reserve>) {
    return fails('reserve', 0.3) ? null : reserve.apply(this, args);
  });
  mock.method(BlockPool.prototype, 'transfer', function (this: BlockPool, ...args: Parameters<typeof transfer>) {
    return fails('transfer', 0.1) ? false : transfer.apply(this, args);
  });
  mock.method(SharedPool.prototype, 'acquire', function (this: SharedPool) {
    return fails('acquire', 0.05) ? null : acquire.call(this);
  });
  t.after(() => mock.restoreAll());
  return refused;
}

test(`${UNITS} units of loops that come and go: what was let in ends, whatever is refused on the way`, async (t) => {
  const random = seededRandom(3);
  const simulated = new SimulatedLoops({ components: { token: { ms: 1, maxBatch: 4 }, denoise: { ms: 4, maxBatch: 2 } } });
  const refused = failingAllocator(t, random);
  let turnedAway = 0;
  while (simulated.dispatched < UNITS) {
    const open = simulated.loops.filter(({ closed }) => !closed).length;
    if (open < 20 && simulated.open({ component: random() < 0.5 ? 'token' : 'denoise', units: 1 + Math.floor(random() * 200), withinMs: random() < 0.5 ? null : 500 }) === null) turnedAway++;
    await simulated.clock.advanceTo(simulated.clock.now() + 10);
  }
  await simulated.clock.advanceTo(simulated.clock.now() + 30_000);
  assert.ok(turnedAway > 10 && refused.allocate > UNITS / 50 && refused.acquire > UNITS / 50, JSON.stringify({ turnedAway, refused }));
  assert.equal(simulated.dispatcher.counters.executed, simulated.dispatched, 'every unit that began was committed');
  for (const { closed, faults, commits, request } of simulated.loops) assert.deepEqual([closed, faults, commits.length], [true, [], request.units]);
  simulated.checkEmpty();
});

test(`${SESSION_UNITS} units of live sessions that are redirected, steered and typed into: none fails for memory, no session is lost, nothing leaks`, async (t) => {
  const random = seededRandom(7);
  const simulation = new Simulation({ speed: SPEED, engine: { admissionBound: 1, redirectReserve: 1e-3, memory: { kv: 2 ** 40, activations: 2 ** 40 } } });
  const refused = failingAllocator(t, random);
  const sessions: SimulatedSession[] = [];
  let turnedAway = 0;
  for (let opened = 0; sessions.length < SESSIONS; opened++) {
    const session = simulation.open(`s${opened}`, 'scene 1', opened);
    if (session.refused) turnedAway++;
    else sessions.push(session);
    await simulation.run(7);
  }
  assert.ok(turnedAway > 0, 'some find no room, and are told so');
  for (let turn = 0; simulation.core.stats().unitsExecuted < SESSION_UNITS; turn++) {
    const session = sessions[Math.floor(random() * sessions.length)]!;
    const prompt = `scene ${turn % 10}`;
    if (turn % 3 === 0) simulation.request(session, `r${turn}`, { request: 'redirect', prompt, seamless: turn % 2 === 0 });
    else if (turn % 3 === 1) simulation.draft(session, `d${turn}`, prompt);
    else session.act(turn % 2 === 0 ? 1 : -1);
    await simulation.run(20);
  }
  assert.ok(Object.values(refused).every((count) => count > 4), JSON.stringify(refused));
  assert.equal(simulation.core.stats().unitsFailed, 0);
  const before = sessions.map(({ videoFrames }) => videoFrames.length);
  for (const session of sessions) simulation.request(session, 'last', { request: 'redirect', prompt: 'scene 7', seamless: false });
  await simulation.run(700);
  for (const [index, { sessionId, faults, videoFrames, answers }] of sessions.entries()) {
    assert.deepEqual(faults, [], sessionId);
    assert.equal(answers.get('last')?.[0]?.type, 'request.applied');
    assert.ok(videoFrames.length > before[index]!, `${sessionId} goes on`);
  }
  await simulation.finish();
});
