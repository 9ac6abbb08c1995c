/** Plays a restless session beside others on a virtual clock, for `neighbour.test.ts`. A thread of its own: the test runner tracks every promise of its thread, which costs more than the simulation. */
import { parentPort, workerData } from 'node:worker_threads';
import { seededRandom } from '../seeded_random.ts';
import { PER_SECOND, SECONDS, type NeighbourOutcome, type NeighbourTask } from './neighbour_task.ts';
import type { KeptStory } from '../../../src/streams/storage_messages.ts';
import { Simulation } from './Simulation.ts';
import type { RequestBody, SimulatedSession } from './SimulatedSession.ts';

const scene = (index: number): string => `scene ${index % 10}`;
const adapter = (index: number) => ({ id: index % 2 === 0 ? 'noir' : 'glow', scale: 1 });

/** All that a restless person can do, the n-th time. */
type Act = RequestBody | 'draft' | 'key';
const RESTLESS: Readonly<Record<string, (index: number, held90k: number) => Act>> = {
  interrupt: () => ({ request: 'interrupt' }),
  'hard redirect': (index) => ({ request: 'redirect', prompt: scene(index), seamless: false }),
  'seamless redirect': (index) => ({ request: 'redirect', prompt: scene(index), seamless: true }),
  cut: (index) => ({ request: 'cut', prompt: scene(index) }),
  blend: (index) => ({ request: 'blend', prompt: scene(index), chunks: 4 }),
  'adapter, hard': (index) => ({ request: 'redirect', prompt: null, adapter: adapter(index), seamless: false }),
  'adapter, seamless': (index) => ({ request: 'redirect', prompt: null, adapter: adapter(index), seamless: true }),
  'hold and release': (index) => ({ request: index % 2 === 0 ? 'hold' : 'release' }),
  'pause and resume': (index) => ({ request: index % 2 === 0 ? 'pause' : 'resume' }),
  'rewind, near': (_, held90k) => ({ request: 'rewind', to90k: Math.max(0, held90k - 45_000), exact: false }),
  'rewind, far': (index, held90k) => ({ request: 'rewind', to90k: Math.max(0, held90k - 90_000 * (5 + (index % 20))), exact: false }),
  'rewind, exactly': (index, held90k) => ({ request: 'rewind', to90k: Math.max(0, held90k - 90_000 * (2 + (index % 9))), exact: true }),
  keys: () => 'key',
  typing: () => 'draft',
  everything: (index, held90k) => {
    const all = Object.values(RESTLESS).slice(0, -1);
    return all[(index * 3) % all.length]!(index, held90k);
  },
};

/** As many sessions as the device takes, all of them flowing; the first is the restless one. */
async function filled(simulation: Simulation): Promise<{ readonly restless: SimulatedSession; readonly neighbours: readonly SimulatedSession[] }> {
  const sessions: SimulatedSession[] = [];
  for (;;) {
    const session = simulation.open(`s${sessions.length}`, 'scene 1', sessions.length + 1);
    await simulation.run(37);
    if (session.refused) break;
    sessions.push(session);
  }
  const [restless, ...neighbours] = sessions;
  await simulation.run(12_000);
  return { restless: restless!, neighbours };
}

/** What becomes of the neighbours from now on. */
function watched(neighbours: readonly SimulatedSession[]): () => NeighbourOutcome {
  const before = neighbours.map(({ late, sent }) => ({ late, sent: sent.length }));
  return () => ({ sessions: neighbours.length + 1, late: neighbours.map(({ late }, index) => late - before[index]!.late), sent: neighbours.map(({ sent }, index) => sent.length - before[index]!.sent) });
}

async function play(ask: (index: number, held90k: number) => Act, { speed, engine, unevenness, perSecond = PER_SECOND }: NeighbourTask): Promise<NeighbourOutcome> {
  const random = seededRandom(5);
  const simulation = new Simulation({ speed, engine, outcome: (_, predictedMs) => ({ deviceMs: predictedMs * (1 + unevenness * random()), answer: 'ok' }) });
  const { restless, neighbours } = await filled(simulation);
  const sinceThen = watched(neighbours);
  for (let index = 0; index < SECONDS * perSecond; index++) {
    const act = ask(index, restless.held90k);
    if (act === 'draft') simulation.draft(restless, `d${index}`, scene(index));
    else if (act === 'key') restless.act([1, -1, 0][index % 3]!);
    else simulation.request(restless, `r${index}`, act, 1);
    await simulation.run(1_000 / perSecond);
  }
  const outcome = sinceThen();
  await simulation.finish();
  return outcome;
}

/** Somebody who leaves and comes back all the time, with a story of which most is brought back each time. */
async function comeBack({ speed, engine }: NeighbourTask): Promise<NeighbourOutcome> {
  const simulation = new Simulation({ speed, engine: { ...engine, snapshotChunks: 1_000 } });
  const { restless, neighbours } = await filled(simulation);
  const { chunks } = simulation.kept.get(restless.sessionId)!;
  const story: KeptStory = { ...simulation.story(restless.sessionId)!, chunks: [...chunks], snapshot: null };
  simulation.close(restless);
  await simulation.run(500);
  const sinceThen = watched(neighbours);
  for (let round = 0; round < SECONDS * 2; round++) {
    const back = simulation.open(`b${round}`, null, 1, null, null, story);
    await simulation.run(400);
    simulation.close(back);
    await simulation.run(100);
  }
  const outcome = sinceThen();
  await simulation.finish();
  return outcome;
}

const task = workerData as NeighbourTask;
const outcomes: [string, NeighbourOutcome][] = [];
for (const [kind, ask] of Object.entries(RESTLESS)) if (task.only === undefined || kind.startsWith(task.only)) outcomes.push([kind, await play(ask, task)]);
if (task.only === undefined || task.only === 'coming back') outcomes.push(['coming back', await comeBack(task)]);
parentPort!.postMessage(outcomes);
