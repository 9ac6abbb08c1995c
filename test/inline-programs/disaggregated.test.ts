/** One program over pools of executors, on the real model: two threads, what flows between them transferred by manifest. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { inlineOf, openEngine, REASON_THEN_GENERATE, REASON_THEN_GENERATE_DISAGGREGATED, SegueError, type Engine, type EngineEvent, type RunOptions } from '../../src/index.ts';
import type { TraceEvent } from '../../src/streams/messages.ts';

const MODEL = new URL('../../models/drive', import.meta.url).pathname;
const POOLS = [{ roles: ['encode', 'decode'], executors: 1 }, { roles: ['denoise'], executors: 1 }];
const INPUTS = { prompt: 'forest at dusk in fog', chunks: 6, actions: [{ steer: 1, speed: 2 }] };
const NAME = 'reason_then_generate_disaggregated';

let engine: Engine;
const traces: TraceEvent[] = [];
before(async () => {
  engine = await openEngine(MODEL, { pools: POOLS, spare: false, calibrationRuns: 1, onTrace: (events) => void traces.push(...events) });
});
after(() => engine.close());

const checkNothingLeft = (): void => assert.equal(engine.core.stats().blocksLive, engine.core.cachedBlocks);

/** The inline program, all of it in one pool. */
function inline(role: string) {
  return inlineOf(engine).program({ ...REASON_THEN_GENERATE, nodes: inlineNodes(role) });
}

test('the result is the inline program’s, bit for bit; every transfer is told, with both workers and roles', async () => {
  const alone = await engine.generate(inline('denoise'), INPUTS, { seed: 11 });
  // Traces go out ten times a second.
  await new Promise((resolve) => setTimeout(resolve, 250));
  traces.length = 0;
  const split = await engine.generate(NAME, INPUTS, { seed: 11 });
  assert.equal(split.text, alone.text);
  assert.deepEqual(split.frames, alone.frames);
  assert.deepEqual(split.samples, alone.samples);
  assert.equal(split.usage.units, alone.usage.units);
  checkNothingLeft();
  await new Promise((resolve) => setTimeout(resolve, 250));
  const moved = traces.filter(({ type, name }) => type === 'trace.transfer' && name === 'complete');
  // Keys, values and mask of the prompt, the start frames, and the latents of each chunk, once for picture and sound.
  assert.deepEqual(moved.map(({ roleId, args }) => `${roleId} → ${args?.['toRole']}: ${args?.['tensors']}`).sort(), [...Array<string>(6).fill('denoise → decode: x'), 'encode → denoise: tk,tv,tmask', 'encode → denoise: x']);
  assert.deepEqual([...new Set(moved.map(({ workerId, args }) => `${workerId} → ${args?.['to']}`))].sort(), ['executor-0 → executor-1', 'executor-1 → executor-0']);
  assert.ok(moved.every(({ durationMs, args }) => durationMs !== undefined && Number(args?.['bytes']) > 0));
  const ran = new Map<string, Set<string>>();
  for (const { type, loopId = '', workerId = '' } of traces) if (type === 'trace.step') ran.set(workerId, (ran.get(workerId) ?? new Set()).add(loopId));
  assert.deepEqual([...ran].sort().map(([worker, loops]) => `${worker}: ${[...loops].sort().join(' ')}`), ['executor-0: director encoder picture sound start', 'executor-1: video']);
});

test('whoever takes nothing holds every pool: what was made ahead is bounded by the hand-overs', async () => {
  const events = engine.run(NAME, { ...INPUTS, chunks: 40 }, { seed: 1, buffer: 2 });
  let event = await events.next();
  while (event.done !== true && event.value.type !== 'media.chunk') event = await events.next();
  let before = -1;
  for (let now = engine.core.stats().unitsExecuted; now !== before; now = engine.core.stats().unitsExecuted) {
    before = now;
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
  traces.length = 0;
  await new Promise((resolve) => setTimeout(resolve, 250));
  assert.equal(traces.filter(({ type }) => type === 'trace.step').length, 0, 'nobody computes anything');
  const frames: number[] = [];
  for (event = await events.next(); event.done !== true; event = await events.next()) if (event.value.type === 'media.chunk') frames.push(event.value.frame);
  assert.deepEqual(frames, Array.from({ length: 79 }, (_, index) => index + 1), 'and nothing is lost');
  checkNothingLeft();
});

test('cancelled at any moment, at a hand-over too, it leaves nothing, and the next run is as if it had never been', async () => {
  const events: EngineEvent[] = [];
  for await (const event of engine.run(NAME, INPUTS, { seed: 11 })) events.push(event);
  const ran = async (options: RunOptions, stopAt: number): Promise<void> => {
    let given = 0;
    for await (const _ of engine.run(NAME, INPUTS, options)) if (++given === stopAt) break;
  };
  for (const stopAt of [1, 8, 10, 11, 12, 13, 15]) {
    await ran({ seed: 11 }, stopAt);
    checkNothingLeft();
  }
  // And at moments that no event marks: in the midst of transfers.
  for (let afterMs = 5; afterMs <= 185; afterMs += 20) {
    const stop = new AbortController();
    setTimeout(() => stop.abort(), afterMs);
    await assert.rejects(engine.generate(NAME, { ...INPUTS, chunks: 60 }, { seed: 11, signal: stop.signal }), { name: 'AbortError' });
    checkNothingLeft();
  }
  const again: EngineEvent[] = [];
  for await (const event of engine.run(NAME, INPUTS, { seed: 11 })) again.push(event);
  const media = (of: readonly EngineEvent[]) => of.filter(({ type }) => type === 'media.chunk');
  assert.deepEqual(media(again), media(events));
});

test('what can not be cut, placed or asked for is refused by name', async () => {
  const drive = inlineOf(engine);
  const { nodes } = REASON_THEN_GENERATE_DISAGGREGATED;
  const fault = (changed: typeof nodes): string => {
    try {
      drive.disaggregated({ ...REASON_THEN_GENERATE_DISAGGREGATED, nodes: changed });
    } catch (error) {
      assert.ok(error instanceof TypeError);
      return error.message;
    }
    return 'taken';
  };
  assert.match(fault({ ...nodes, video: { kind: 'model_loop', loopKind: 'video_continuation' } }), /nodes\.video\.placement: a loop of a disaggregated program declares its role/);
  assert.match(fault({ ...nodes, sound: { kind: 'model_loop', loopKind: 'audio', placement: { role: 'voice' } } }), /nodes\.mediaOut\.placement: is between roles decode and voice: declare one/);
  const placed = { ...nodes, sound: { kind: 'model_loop', loopKind: 'audio', placement: { role: 'voice' } }, mediaOut: { kind: 'stream', stream: 'media', placement: { role: 'decode' } } } as const;
  assert.match(fault(placed), /edge sound\.samples → mediaOut\.samples: a stream's slots don't move: its ends are of roles voice and decode/);
  const { spec } = drive.disaggregated(REASON_THEN_GENERATE_DISAGGREGATED);
  assert.equal(spec.kind, 'disaggregated');
  assert.deepEqual(Object.entries(spec.nodes).flatMap(([name, node]) => (node.kind === 'transfer' ? [`${name}: ${node.from} → ${node.to}`] : [])), ['encoder_prompt_to_denoise: encode → denoise', 'start_latents_to_denoise: encode → denoise', 'video_latents_to_decode: denoise → decode']);
  await assert.rejects(engine.generate(inline('voice'), INPUTS), /placement\.role is voice, the engine's pools have encode, decode, denoise$/);
  await assert.rejects(engine.generate(drive.program({ ...REASON_THEN_GENERATE_DISAGGREGATED, programId: 'one' }), INPUTS), /nodes\.director\.placement\.role is encode, nodes\.video\.placement\.role is denoise: one device runs an inline program/);
  await assert.rejects(engine.generate(NAME, { ...INPUTS, colour: 'red' }), (error: unknown) => error instanceof SegueError && error.code === 'bad_request' && error.details.param === 'colour');
  await assert.rejects(engine.generate(NAME, INPUTS, { withinMs: 1000 }), (error: unknown) => error instanceof SegueError && error.details.param === 'withinMs');
  assert.throws(() => engine.session(), (error: unknown) => error instanceof SegueError && error.code === 'engine_unavailable', 'pools serve no live session');
  checkNothingLeft();
});

test('a pool that is gone fails the runs that need it, and no other', async () => {
  const untouched = inline('decode');
  const running = engine.generate(untouched, { ...INPUTS, chunks: 12 }, { seed: 3 });
  let frames = 0;
  await assert.rejects(
    async () => {
      for await (const event of engine.run(NAME, { ...INPUTS, chunks: 60 }, { seed: 3 })) if (event.type === 'media.chunk' && ++frames === 3) void engine.closeExecutor('executor-1');
    },
    (error: unknown) => error instanceof SegueError && (error.code === 'engine_unavailable' || error.code === 'unit_failed'),
  );
  assert.equal((await running).frames.length, 24);
  checkNothingLeft();
  await assert.rejects(engine.generate(NAME, INPUTS), (error: unknown) => error instanceof SegueError && error.code === 'engine_unavailable');
  assert.equal((await engine.generate(untouched, { ...INPUTS, chunks: 1 })).frames.length, 2, 'the other pool goes on');
  await assert.rejects(engine.closeExecutor('executor-9'), /no executor executor-9, there are executor-0, executor-1/);
});

function inlineNodes(role: string): typeof REASON_THEN_GENERATE.nodes {
  return Object.fromEntries(Object.entries(REASON_THEN_GENERATE.nodes).map(([name, node]) => [name, node.kind === 'model_loop' ? { ...node, placement: { role } } : node]));
}
