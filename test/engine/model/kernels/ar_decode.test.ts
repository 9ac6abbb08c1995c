import { readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import type { ArDecodeState } from '../../../../src/engine/model/kernels/ar_decode.ts';
import { createKernels } from '../../../../src/engine/model/kernels/create_kernels.ts';
import type { DeviceModel } from '../../../../src/engine/model/loop_kernel.ts';
import { PromptProcessor, type Attributes } from '../../../../src/engine/model/processors/PromptProcessor.ts';
import { loadModelSpec } from '../../../../src/engine/model/spec/load_model_spec.ts';
import type { PlannedUnit, StepResult, UnitInput, WorkPlan } from '../../../../src/engine/model/work.ts';
import { contextOf, ExecutorBench, MODEL_DIR, outputsOf, type RanUnit } from '../ExecutorBench.ts';

const CONTEXT = 40;
const LONGEST_PROMPT = 15;
const END = 2;
const ctx = contextOf({ seed: 0 });
const spec = loadModelSpec(MODEL_DIR, { verifyChecksums: false });
const kernel = createKernels(spec).ar_decode!;

let bench: ExecutorBench;
before(async () => {
  bench = await ExecutorBench.open();
});
after(() => bench.close());

// ------------------------------------------------------------------ what is planned

let nextBlock = 1;

/** Runs a step as if the model had said `token`. */
async function said(state: ArDecodeState, token: number): Promise<{ state: ArDecodeState; plan: WorkPlan }> {
  const plan = kernel.planStep(state, ctx)!;
  const outputs = Object.fromEntries(Object.entries(plan.outputs).map(([name, output]) => [name, output.kind === 'block' ? ({ kind: 'block', block: nextBlock++, bytes: output.bytes } as const) : ({ kind: 'value' } as const)]));
  const unit: PlannedUnit = { unitId: 1, sessionId: 's', loopId: 'director', kernel: kernel.kind, modelId: spec.modelId, plan, outputs, epoch: 0 };
  const logits = new Float32Array(76);
  logits[token] = 1;
  const device: DeviceModel = { modelId: spec.modelId, run: () => Promise.resolve({ values: [{ logits }], deviceMs: 1 }) };
  const [result] = (await kernel.runStep({ batchId: 1, modelId: spec.modelId, component: plan.component, kernel: kernel.kind, units: [unit] }, device)) as [StepResult];
  return { state: kernel.advance(state, unit, outputsOf({ unit, result })), plan };
}

function ints(input: UnitInput | undefined): readonly number[] {
  assert.ok(input?.kind === 'ints');
  return input.values;
}

function prompt(length: number): number[] {
  return Array.from({ length }, (_, index) => 10 + index);
}

test('the prompt is read in one unit, then each token in one, at the position after the words before it', async () => {
  let state = kernel.initState({ ids: prompt(9), endIds: [END], maxTokens: 24 }, ctx);
  assert.deepEqual([state.kv, state.blocks], [null, []]);
  const first = await said(state, 30);
  assert.deepEqual([first.plan.kind, first.plan.component, first.plan.step], ['ar_prefill', 'director_prefill', 0]);
  assert.deepEqual(ints(first.plan.inputs['ids']), [...prompt(9), 0, 0, 0, 0, 0, 0]);
  assert.deepEqual(ints(first.plan.inputs['position']), [8]);
  ({ state } = first);
  for (const [index, token] of [31, 32, 33].entries()) {
    const kv = state.kv!;
    assert.deepEqual(state.blocks, [kv], 'the state holds its one block');
    const next = await said(state, token);
    assert.deepEqual([next.plan.kind, next.plan.component, next.plan.step], ['ar_token', 'director_step', index + 1]);
    assert.deepEqual(ints(next.plan.inputs['word']), [29 + index + 1], 'the token made last');
    assert.deepEqual(ints(next.plan.inputs['position']), [9 + index]);
    assert.deepEqual(next.plan.inputs['kv'], { kind: 'block', block: kv });
    ({ state } = next);
    assert.notEqual(state.kv, kv, 'blocks are immutable: the row is in a new one');
  }
  assert.deepEqual(kernel.finalize(state, ctx), [30, 31, 32, 33]);
});

test('an end id ends the text and is kept; so does the most that was asked for', async () => {
  let state = kernel.initState({ ids: prompt(5), endIds: [END, 7], maxTokens: 24 }, ctx);
  for (const token of [20, 7]) ({ state } = await said(state, token));
  assert.equal(kernel.planStep(state, ctx), null);
  assert.deepEqual(kernel.finalize(state, ctx), [20, 7]);
  let short = kernel.initState({ ids: prompt(5), endIds: [END], maxTokens: 1 }, ctx);
  ({ state: short } = await said(short, 20));
  assert.equal(kernel.planStep(short, ctx), null, 'one token is the prefill\'s');
});

test('a text that fills the context ends there, and no unit writes beyond it', async () => {
  let state = kernel.initState({ ids: prompt(LONGEST_PROMPT), endIds: [END], maxTokens: 100 }, ctx);
  let last: WorkPlan | null = null;
  while (kernel.planStep(state, ctx) !== null) ({ state, plan: last } = await said(state, 20));
  assert.equal(state.plan.tokens.length, CONTEXT - LONGEST_PROMPT);
  assert.deepEqual(ints(last!.inputs['position']), [CONTEXT - 2], 'the last word is made, not read');
});

test('a text longer than the prefill reads, an empty one and no tokens at all are TypeErrors', () => {
  assert.throws(() => kernel.initState({ ids: prompt(LONGEST_PROMPT + 1), endIds: [END], maxTokens: 1 }, ctx), TypeError);
  assert.throws(() => kernel.initState({ ids: [], endIds: [END], maxTokens: 1 }, ctx), TypeError);
  assert.throws(() => kernel.initState({ ids: prompt(3), endIds: [END], maxTokens: 0 }, ctx), TypeError);
});

// ------------------------------------------------------------------ what the trained director makes of it

test('sessions at different positions share a batch: each gets what it gets alone', async () => {
  const lengths = [15, 9, 11, 1];
  const alone: RanUnit[] = [];
  for (const [index, length] of lengths.entries()) {
    let state = kernel.initState({ ids: [1, 30, 19, 15, 55, 3, 38, 36, 43, 2, 8, 49, 18, 20, 2].slice(0, length), endIds: [], maxTokens: 30 }, ctx);
    let ran: RanUnit | null = null;
    for (let step = 0; step <= 1 + index * 5; step++) ({ state, ran } = (await bench.step(bench.kernels.ar_decode, 'a', state, ctx, { keep: true }))!);
    alone.push(ran!);
  }
  const positions = alone.map(({ unit }) => ints(unit.plan.inputs['position'])[0]);
  assert.deepEqual(positions, [15, 14, 21, 16]);
  const together = await bench.runUnits(alone.map(({ unit }) => bench.unitOf(unit.kernel, unit.sessionId, unit.plan)));
  const tolerance = spec.loops['ar_decode']!.step.batchTolerance;
  for (const [index, ran] of together.entries()) {
    const [own, joined] = [await bench.readOutputs(alone[index]!), await bench.readOutputs(ran)];
    assert.deepEqual(joined['token'], own['token']);
    const difference = Math.max(...own['kv_next']!.map((value, at) => Math.abs(value - joined['kv_next']![at]!)));
    assert.ok(difference <= tolerance, `position ${positions[index]}: ${difference}`);
  }
});

test('plans and narrations are those of the reference that computed every word anew', async () => {
  const processor = PromptProcessor.load(bench.spec);
  interface Example {
    readonly text: string;
    readonly state: readonly number[];
    readonly edits?: readonly string[];
    readonly new_state?: readonly number[];
    readonly narration?: string;
  }
  const examples = JSON.parse(readFileSync(new URL('../../../oracle/processor_examples.json', import.meta.url), 'utf8')) as readonly Example[];
  const attributes = ([place, time, weather]: readonly number[]): Attributes => ({ place: place!, time: time!, weather: weather! });
  let passes = 0;
  for (const { text, state, edits = [], new_state: expected, narration } of examples) {
    let plan = { attributes: attributes(state), narration: '' };
    for (const edit of edits) {
      const loop = kernel.initState({ ids: processor.directorInput(plan.attributes, edit), endIds: processor.endIds, maxTokens: 24 }, ctx);
      const answer = processor.readDirector(kernel.finalize(await bench.runToEnd(bench.kernels.ar_decode, 'b', loop, ctx), ctx));
      assert.ok(answer !== null, text);
      plan = answer;
      passes++;
    }
    if (expected === undefined) continue;
    assert.deepEqual(plan.attributes, attributes(expected), text);
    assert.equal(plan.narration, narration, text);
  }
  assert.ok(passes >= 20, `${passes} passes`);
});
