/** An inline program under every order of its steps: the same results, within the memory that was reserved. Blocks and slots stand for what they were computed from. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import fc from 'fast-check';
import type { LoopKernel, LoopState } from '../../../src/engine/model/loop_kernel.ts';
import type { MemoryTag, PlannedUnit, UnitInput, WorkUnitBatch } from '../../../src/engine/model/work.ts';
import type { RunEvent } from '../../../src/engine/programs/InlineProgram.ts';
import { driveInline, REASON_THEN_GENERATE } from '../../../src/inline-programs/drive_inline.ts';
import { LANGUAGE, scriptedModel, scriptedValues } from '../../interruption/virtual/scripted_model.ts';

const { spec, kernels } = scriptedModel();
const PROGRAM = driveInline(spec, kernels, LANGUAGE).program(REASON_THEN_GENERATE);
const INPUTS = { prompt: 'scene 3 then 4', chunks: 30, actions: [{ steer: 0, speed: 2 }, { steer: 1, speed: 3 }, { steer: -1, speed: 1 }] };
const SEED = 5;

/** @param choose which of so many turns is served next. */
async function results(choose: (turns: number) => number): Promise<{ events: unknown[]; units: number }> {
  const contents = new Map<number, string>();
  const bytes = new Map<number, { readonly bytes: number; readonly memory: MemoryTag }>();
  const { memory } = PROGRAM.demand(INPUTS);
  let lastId = 0;
  let units = 0;
  const events: unknown[] = [];
  const tell = (given: readonly RunEvent[]): void => {
    for (const event of given) events.push(event.type === 'media.chunk' ? { ...event, videoSlot: contents.get(event.videoSlot), audioSlot: contents.get(event.audioSlot) } : event);
  };
  const opened = PROGRAM.open(INPUTS, SEED);
  let { state } = opened;
  tell(opened.events);
  for (let turns = PROGRAM.turns(state); turns.length > 0; turns = PROGRAM.turns(state)) {
    const turn = turns[choose(turns.length)]!;
    const kernel = kernels[turn.kernel as 'audio'] as unknown as LoopKernel<never, LoopState, unknown>;
    assert.ok(turn.conditioning.kind === 'fixed');
    const { conditioning } = turn.conditioning;
    const plan = kernel.planStep(turn.state, { seed: SEED, lineage: turn.lineage, conditioning });
    assert.ok(plan !== null && plan.component === turn.component, `${turn.loopId} says ${turn.component}`);
    const of = (input: UnitInput): unknown => (input.kind === 'block' ? (contents.get(input.block) ?? assert.fail(`${turn.loopId} reads a block that was freed`)) : input);
    const read = createHash('sha256').update(JSON.stringify(Object.entries(plan.inputs).map(([name, input]) => [name, of(input)]))).digest('hex');
    const blocks: Record<string, number> = {};
    const slots: Record<string, number> = {};
    for (const [name, output] of Object.entries(plan.outputs)) {
      if (output.kind === 'value') continue;
      contents.set(++lastId, `${plan.component}.${name} of ${read}`);
      if (output.kind === 'slot') slots[name] = lastId;
      else {
        blocks[name] = lastId;
        bytes.set(lastId, output);
      }
    }
    const unit = { unitId: ++units, sessionId: 'r', loopId: turn.loopId, kernel: turn.kernel, modelId: 'm', plan, outputs: {}, epoch: 0 } satisfies PlannedUnit;
    const batch: WorkUnitBatch = { batchId: 1, modelId: 'm', component: plan.component, kernel: turn.kernel, units: [unit] };
    const [result] = await kernel.runStep(batch, { modelId: 'm', run: () => Promise.resolve({ values: [scriptedValues(unit)], deviceMs: 1 }) });
    assert.ok(result?.ok);
    const outputs = { blocks, slots, values: result.values, next: result.next };
    const before = PROGRAM.blocks(state);
    const transition = PROGRAM.advance(state, { turn, stepped: kernel.advance(turn.state, unit, outputs), outputs, conditioning });
    ({ state } = transition);
    tell(transition.events);
    // What a unit writes is reserved while what it reads is still alive.
    const used: Partial<Record<MemoryTag, number>> = {};
    for (const block of new Set([...before, ...Object.values(blocks)])) used[bytes.get(block)!.memory] = (used[bytes.get(block)!.memory] ?? 0) + bytes.get(block)!.bytes;
    for (const [tag, count] of Object.entries(used) as [MemoryTag, number][]) assert.ok(count <= (memory[tag] ?? 0), `${tag}: ${count} of ${memory[tag]} at unit ${units} (${turn.loopId})`);
    const alive = new Set(PROGRAM.blocks(state));
    for (const block of bytes.keys()) if (!alive.has(block)) contents.delete(block);
  }
  assert.ok(PROGRAM.finished(state), PROGRAM.describe(state));
  assert.deepEqual(PROGRAM.slots(state), []);
  assert.equal(PROGRAM.blocks(state).length, 3, 'only what the sound would go on from');
  return { events, units };
}

test('whatever the order in which its loops are served, a run gives the same and stays within its reservation', async () => {
  const reference = await results(() => 0);
  assert.equal(reference.events.length, 10 + 60);
  assert.equal(new Set(reference.events.slice(10).map((event) => JSON.stringify(event))).size, 60, 'every frame is another');
  await fc.assert(
    fc.asyncProperty(fc.array(fc.nat(5), { minLength: 20, maxLength: 200 }), async (order) => {
      let at = 0;
      assert.deepEqual(await results((turns) => order[at++ % order.length]! % turns), reference);
    }),
    { numRuns: 30 },
  );
});
