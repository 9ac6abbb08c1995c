import { test } from 'node:test';
import assert from 'node:assert/strict';
import type { LoopContext, LoopKernel, LoopState } from '../../../src/engine/model/loop_kernel.ts';
import { deepFreeze } from '../../../src/engine/model/spec/authoring_file.ts';
import type { BlockId, PlannedUnit } from '../../../src/engine/model/work.ts';
import type { ExecutorBench, RanUnit } from './ExecutorBench.ts';

/** A loop ready to run, and the blocks that it reads but doesn't own (prompt, latents of another loop). */
export interface ReadyLoop<State extends LoopState> {
  readonly kernel: LoopKernel<never, State, unknown>;
  readonly state: State;
  /** Context of the nth unit: conditioning may change while the loop runs. */
  readonly contextAt: (unit: number) => LoopContext;
  readonly borrowed: readonly BlockId[];
}

export interface KernelCase<State extends LoopState> {
  readonly name: string;
  /** Units to run; the loop may end earlier. */
  readonly units: number;
  /** @param variant 0, 1, 2 …: loops that differ in seed and input but may share batches. */
  readonly ready: (bench: ExecutorBench, sessionId: string, variant: number) => Promise<ReadyLoop<State>>;
  /** Largest difference between a unit in a batch and alone, in batch-variant mode: `batchTolerance` of its LoopSpec. */
  readonly tolerance: (bench: ExecutorBench) => number;
}

/**
 * What every kernel must hold, on the real executor: planning is pure, refusing a plan leaves no trace, a batch equals its units,
 * failure and cancellation leave the committed state as it was and leak nothing.
 */
export function testLoopKernel<State extends LoopState>(benches: () => { plain: ExecutorBench; invariant: ExecutorBench }, kernelCase: KernelCase<State>): void {
  const { name, units, ready, tolerance } = kernelCase;

  test(`${name}: planStep is pure, and its plan survives a trip between threads`, async () => {
    const { plain } = benches();
    const loop = await ready(plain, 'a', 0);
    await follow(plain, 'a', loop, units, ({ state, ctx }) => {
      const before = JSON.stringify([state, ctx]);
      const first = loop.kernel.planStep(deepFreeze(state), deepFreeze(ctx));
      const second = loop.kernel.planStep(state, ctx);
      assert.deepEqual(first, second);
      assert.deepEqual(structuredClone(first), first);
      assert.equal(JSON.stringify([state, ctx]), before);
      if (first !== null) assert.ok(first.boundary && first.maxBatch >= 1 && first.shapeKey !== '');
    });
  });

  test(`${name}: a refused plan leaves no trace`, async () => {
    const { plain } = benches();
    const outputs: Record<string, readonly number[]>[][] = [];
    for (const refusals of [0, 2]) {
      const loop = await ready(plain, 'a', 0);
      const seen: Record<string, readonly number[]>[] = [];
      await follow(plain, 'a', loop, units, async ({ state, ctx, ran }) => {
        for (let refusal = 0; refusal < refusals; refusal++) loop.kernel.planStep(state, ctx);
        if (ran !== null) seen.push(await plain.readOutputs(ran));
      });
      outputs.push(seen);
    }
    assert.ok(outputs[0]!.length > 0);
    assert.deepEqual(outputs[1], outputs[0]);
  });

  test(`${name}: a batch equals its units alone, whoever joins and leaves`, async () => {
    const { plain, invariant } = benches();
    for (const bench of [plain, invariant]) {
      const difference = await batchDifference(bench, ready, units);
      if (bench === invariant) assert.equal(difference, 0, 'batch-invariant mode is bit-equal');
      else assert.ok(difference <= tolerance(bench), `largest difference ${difference}, tolerance ${tolerance(bench)}`);
    }
  });

  test(`${name}: a unit that fails leaves its loop as it was, and the neighbour in its batch unharmed`, async () => {
    const { plain } = benches();
    for (const fault of ['kernel_exception', 'runtime_error'] as const) {
      const struck = await ready(plain, 'a', 0);
      const neighbour = await ready(plain, 'b', 1);
      const planned = [plannedUnit(plain, 'a', struck, 0), plannedUnit(plain, 'b', neighbour, 0)];
      const before = JSON.stringify(struck.state);
      plain.worker.injectFault({ sessionId: 'a', fault });
      const [first, second] = (await plain.runUnits(planned)) as [RanUnit, RanUnit];
      assert.equal(first.result.ok ? 'ok' : first.result.code, fault);
      assert.ok(second.result.ok, 'the neighbour runs');
      assert.equal(JSON.stringify(struck.state), before);
      await assert.rejects(plain.worker.read([...plain.blocksOf(first.unit), 0]), RangeError);
      const [again] = (await plain.runUnits([plannedUnit(plain, 'a', struck, 0)])) as [RanUnit];
      assert.ok(again.result.ok, 'the same step runs afterwards');
      for (const { unit } of [first, second, again]) plain.discard(unit);
    }
  });

  test(`${name}: cancelling at each boundary leaks no block`, async () => {
    const { plain } = benches();
    for (let boundary = 0; boundary < units; boundary++) {
      const loop = await ready(plain, 'a', 0);
      const baseline = (await plain.heldBlocks()) - loop.state.blocks.filter((block) => !loop.borrowed.includes(block)).length;
      const state = await follow(plain, 'a', loop, boundary);
      const plan = loop.kernel.planStep(state, loop.contextAt(boundary));
      if (plan !== null) {
        // The thread is busy, so the cancellation is there before the unit's turn comes.
        plain.worker.injectFault({ sessionId: 'blocker', fault: 'executor_hang', hangMs: 15 });
        const blocker = await blockerUnit(plain);
        const busy = plain.runUnits([blocker]);
        const unit = plain.unitOf(loop.kernel.kind, 'a', plan);
        const cancelled = plain.runUnits([unit]);
        plain.worker.cancel([unit.unitId]);
        const [{ result }] = (await cancelled) as [RanUnit];
        assert.equal(result.ok ? 'ok' : result.code, 'cancelled');
        await busy;
        for (const done of [blocker, unit]) plain.discard(done);
      }
      plain.worker.release(state.blocks.filter((block) => !loop.borrowed.includes(block)));
      assert.equal(await plain.heldBlocks(), baseline, `after boundary ${boundary}`);
    }
  });
}

interface Moment<State> {
  readonly state: State;
  readonly ctx: LoopContext;
  /** The unit that led to this state; null at the start. */
  readonly ran: RanUnit | null;
}

/** Runs a loop, showing each state before its next step. Blocks that fall out of the state are freed, borrowed ones kept. */
async function follow<State extends LoopState>(
  bench: ExecutorBench,
  sessionId: string,
  { kernel, state: start, contextAt, borrowed }: ReadyLoop<State>,
  units: number,
  see?: (moment: Moment<State>) => void | Promise<void>,
): Promise<State> {
  let state = start;
  let ran: RanUnit | null = null;
  for (let unit = 0; ; unit++) {
    const ctx = contextAt(unit);
    await see?.({ state, ctx, ran });
    if (ran !== null) bench.discardSlots(ran.unit);
    const next: { state: State; ran: RanUnit } | null = unit < units ? await bench.step(kernel, sessionId, state, ctx, { keep: true }) : null;
    if (next === null) return state;
    const before = state;
    ({ state, ran } = next);
    bench.worker.release(before.blocks.filter((block) => !state.blocks.includes(block) && !borrowed.includes(block)));
  }
}

/**
 * Runs three loops alone and then the very same units again in batches whose membership changes from step to step.
 * Every batched unit starts from the state of its lone run, so differences don't add up.
 */
async function batchDifference<State extends LoopState>(bench: ExecutorBench, ready: KernelCase<State>['ready'], units: number): Promise<number> {
  const sessions = ['a', 'b', 'c'];
  const loops: ReadyLoop<State>[] = [];
  for (const [variant, session] of sessions.entries()) loops.push(await ready(bench, session, variant));
  const alone: { readonly unit: PlannedUnit; readonly outputs: Record<string, readonly number[]> }[][] = [];
  for (const [variant, { kernel, state: start, contextAt }] of loops.entries()) {
    const steps: (typeof alone)[number] = [];
    let state = start;
    for (let unit = 0; unit < units; unit++) {
      const next = await bench.step(kernel, sessions[variant]!, state, contextAt(unit), { keep: true });
      if (next === null) break;
      steps.push({ unit: next.ran.unit, outputs: await bench.readOutputs(next.ran) });
      state = next.state;
    }
    alone.push(steps);
  }
  let largest = 0;
  for (let step = 0; step < units; step++) {
    // c joins one step late, b is away at every third: batches of 2, 3 and 1.
    const members = alone.flatMap((steps, variant) => {
      const away = (variant === 1 && step % 3 === 2) || (variant === 2 && step === 0);
      const lone = steps[step];
      return away || lone === undefined ? [] : [lone];
    });
    if (members.length === 0) continue;
    members.splice(members[0]!.unit.plan.maxBatch);
    const again = members.map(({ unit }) => bench.unitOf(unit.kernel, unit.sessionId, unit.plan));
    for (const [index, ran] of (await bench.runUnits(again)).entries()) {
      assert.ok(ran.result.ok, ran.result.ok ? '' : ran.result.message);
      largest = Math.max(largest, differenceOf(await bench.readOutputs(ran), members[index]!.outputs));
      bench.discard(ran.unit);
    }
  }
  for (const steps of alone) for (const { unit } of steps) bench.discard(unit);
  return largest;
}

function differenceOf(a: Record<string, readonly number[]>, b: Record<string, readonly number[]>): number {
  assert.deepEqual(Object.keys(a), Object.keys(b));
  let largest = 0;
  for (const [name, values] of Object.entries(a)) {
    const others = b[name]!;
    assert.equal(values.length, others.length);
    for (let index = 0; index < values.length; index++) {
      const difference = Math.abs(values[index]! - others[index]!);
      if (!(difference <= largest)) largest = difference;
    }
  }
  return largest;
}

function plannedUnit<State extends LoopState>(bench: ExecutorBench, sessionId: string, { kernel, state, contextAt }: ReadyLoop<State>, unit: number): PlannedUnit {
  const plan = kernel.planStep(deepFreeze(state), deepFreeze(contextAt(unit)));
  assert.ok(plan !== null);
  return bench.unitOf(kernel.kind, sessionId, plan);
}

async function blockerUnit(bench: ExecutorBench): Promise<PlannedUnit> {
  const kernel = bench.kernels.start_bank;
  const ctx: LoopContext = { seed: 0, lineage: 0, conditioning: { version: 0, actionSequence: 0, steer: 0, speed: 0, prompt: null } };
  return bench.unitOf(kernel.kind, 'blocker', kernel.planStep(kernel.initState({ index: 0 }, ctx), ctx)!);
}
