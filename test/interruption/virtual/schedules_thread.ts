/**
 * Random schedules of requests, reports, lateness, failures, duplicates and results after close, on a virtual clock. What must
 * hold at all times is asserted by `SimulatedSession` and `Simulation.finish`.
 */
import assert from 'node:assert/strict';
import { parentPort, workerData } from 'node:worker_threads';
import fc from 'fast-check';
import type { SimulatedOutcome } from '../../../src/engine/runtime/SimulatedWorker.ts';
import { HOLD_LIMIT_MS } from '../../../src/streams/ProvisionalHold.ts';
import { IMAGE } from './scripted_model.ts';
import { Simulation } from './Simulation.ts';
import type { RequestBody, SimulatedSession } from './SimulatedSession.ts';

/** Share of schedules whose worker misbehaves; the others only suffer lateness. */
const event = fc.record({
  afterMs: fc.integer({ min: 0, max: 120 }),
  delayMs: fc.constantFrom(0, 0, 0, 1, 25, 100, 250),
  what: fc.constantFrom('interrupt', 'hard', 'hard', 'hard', 'seamless', 'seamless', 'cut', 'cut', 'blend', 'blend', 'hold', 'hold', 'release', 'cutNonsense', 'pause', 'resume', 'adopt', 'nonsense', 'hardNonsense', 'style', 'hardStyle', 'rewind', 'rewind', 'rewindFar', 'rewindExact', 'fork', 'tap', 'left', 'right', 'straight', 'hurry', 'outlast', 'draft', 'draft', 'draft', 'otherDraft', 'noDraft'),
  session: fc.integer({ min: 0, max: 1 }),
} as const);

const schedule = fc.record({
  seed: fc.integer(),
  steps: fc.constantFrom(2, 4),
  sessions: fc.integer({ min: 1, max: 2 }),
  slots: fc.integer({ min: 4, max: 10 }),
  reportDelayMs: fc.constantFrom(20, 80, 150, Infinity),
  trouble: fc.constantFrom('none', 'late', 'late', 'failing', 'broken'),
  events: fc.array(event, { minLength: 1, maxLength: 8 }),
  closeEarly: fc.boolean(),
  unordered: fc.boolean(),
  pastChunks: fc.constantFrom(0, 1, 3, 60),
  readingMs: fc.constantFrom(0, 5, 40, 300),
  readingFails: fc.boolean(),
});

type Schedule = typeof schedule extends fc.Arbitrary<infer S> ? S : never;

function body(what: Schedule['events'][number]['what'], index: number, held90k: number): RequestBody | null {
  switch (what) {
    case 'rewind':
      return { request: 'rewind', to90k: Math.max(0, held90k - index * 8_000), exact: false };
    case 'rewindFar':
      return { request: 'rewind', to90k: Math.floor((held90k * (index % 3)) / 4), exact: false };
    case 'rewindExact':
      return { request: 'rewind', to90k: Math.floor(held90k / 2), exact: true };
    case 'interrupt':
    case 'pause':
    case 'resume':
    case 'hold':
    case 'release':
    case 'adopt':
      return { request: what };
    case 'hard':
    case 'seamless':
      return { request: 'redirect', prompt: `scene ${index % 10}`, seamless: what === 'seamless' };
    case 'cut':
      return { request: 'cut', prompt: `scene ${index % 10}` };
    case 'cutNonsense':
      return { request: 'cut', prompt: 'mumble' };
    case 'blend':
      return { request: 'blend', prompt: `scene ${index % 10}`, chunks: 2 + (index % 5) };
    case 'style':
    case 'hardStyle':
      return { request: 'redirect', prompt: null, adapter: index % 3 === 0 ? null : { id: index % 3 === 1 ? 'noir' : 'glow', scale: 1 }, seamless: what === 'style' };
    case 'nonsense':
    case 'hardNonsense':
      return { request: 'redirect', prompt: 'mumble', seamless: what === 'nonsense' };
    default:
      return null;
  }
}

/** Mulberry32: enough for lateness. */
function randomOf(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
  };
}

function outcomeOf(trouble: Schedule['trouble'], random: () => number, calm: () => boolean): (predictedMs: number) => SimulatedOutcome {
  return (predictedMs) => {
    const chance = random();
    const late = trouble !== 'none' && !calm() && chance < 0.1 ? 1 + random() * 8 : 1 + random() * 0.2;
    const deviceMs = predictedMs * late;
    if (calm() || trouble === 'none' || trouble === 'late') return { deviceMs, answer: 'ok' };
    const fault = random();
    if (fault < 0.02) return { deviceMs, answer: 'kernel_exception' };
    if (fault < 0.04) return { deviceMs, answer: 'missing' };
    if (fault < 0.1) return { deviceMs, answer: 'duplicate' };
    if (trouble === 'broken' && fault < 0.13) return { deviceMs, answer: 'lost', recoveryMs: 100 + random() * 300 };
    if (trouble === 'broken' && fault < 0.14) return { deviceMs, answer: 'silent', recoveryMs: 300 + random() * 400 };
    return { deviceMs, answer: 'ok' };
  };
}

async function play(plan: Schedule): Promise<void> {
  let calm = false;
  const outcome = outcomeOf(plan.trouble, randomOf(plan.seed), () => calm);
  const simulation = new Simulation({ steps: plan.steps, slots: plan.slots, engine: { unitWatchdogMs: 300, pastChunks: plan.pastChunks, snapshotChunks: 30 }, outcome: (_, predictedMs) => outcome(predictedMs) });
  simulation.unordered = plan.unordered;
  simulation.reading = () => ({ delayMs: plan.readingMs, fails: plan.readingFails && !calm });
  const sessions = Array.from({ length: plan.sessions }, (_, index) => simulation.open(`s${index}`, index === 0 ? null : 'scene 2', plan.seed >>> 1, (plan.seed + index) % 4 === 0 ? IMAGE : null));
  for (const session of sessions) session.reportDelayMs = plan.reportDelayMs;
  for (const [index, { afterMs, delayMs, what, session: which }] of plan.events.entries()) {
    await simulation.run(afterMs);
    const session = sessions[which % sessions.length]!;
    const request = body(what, index, session.held90k);
    if (what === 'draft' || what === 'otherDraft' || what === 'noDraft') {
      // The words of the event that comes next, others, or none.
      const prompt = what === 'noDraft' ? null : `scene ${(index + (what === 'draft' ? 1 : 4)) % 10}`;
      simulation.draft(session, `d${index}`, prompt, { seamless: plan.events[index + 1]?.what === 'seamless', delayMs });
    } else if (what === 'fork') sessions.push(simulation.fork(session, `f${index}`, Math.floor((session.held90k * (index % 4)) / 3)));
    else if (request !== null) simulation.request(session, `r${index}`, request, delayMs);
    else if (what in STEER) for (const steer of STEER[what as keyof typeof STEER]) session.act(steer);
    else if (what === 'outlast') await simulation.run(HOLD_LIMIT_MS + 20);
    else session.reportDelayMs = 0;
  }
  if (plan.closeEarly) simulation.close(sessions[0]!, 5);
  else {
    // The next turn always works, whatever happened before.
    calm = true;
    await simulation.run((plan.trouble === 'broken' ? 1200 : 100) + (plan.unordered ? 250 : 0));
    for (const session of sessions) if (!session.refused) await nextTurn(simulation, session);
  }
  await simulation.finish(plan.trouble === 'broken' ? 3_000 : 1_000);
}

async function nextTurn(simulation: Simulation, session: SimulatedSession): Promise<void> {
  if (session.faults.some(({ fatal }) => fatal)) return;
  simulation.request(session, 'last', { request: 'redirect', prompt: 'scene 7', seamless: false });
  const epoch = session.words.epoch;
  await simulation.run(600);
  const frames = session.videoFrames.filter((frame) => frame.epoch === epoch);
  assert.ok(frames.length >= 4, `the next turn makes frames: ${frames.length}`);
  const [answer] = session.answers.get('last')!;
  assert.equal(answer?.type, 'request.applied');
}

/** What is held, one after the other. */
const STEER = { tap: [1, 0], left: [-1], right: [1], straight: [0] } as const;

const { numRuns, seed } = workerData as { readonly numRuns: number; readonly seed: number };
try {
  await fc.assert(fc.asyncProperty(schedule, play), { numRuns, seed });
  parentPort!.postMessage(null);
} catch (error) {
  parentPort!.postMessage(error instanceof Error ? `${error.message}\n${error.cause instanceof Error ? error.cause.stack : ''}` : String(error));
}
