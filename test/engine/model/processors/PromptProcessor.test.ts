import { after, before, test } from 'node:test';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { PromptProcessor, type Attributes } from '../../../../src/engine/model/processors/PromptProcessor.ts';
import { SegueError } from '../../../../src/protocol/errors.ts';
import { contextOf, ExecutorBench } from '../ExecutorBench.ts';

let bench: ExecutorBench;
let processor: PromptProcessor;
before(async () => {
  bench = await ExecutorBench.open();
  processor = PromptProcessor.load(bench.spec);
});
after(() => bench.close());

const states = fc.record({ place: fc.integer({ min: 0, max: 4 }), time: fc.integer({ min: 0, max: 3 }), weather: fc.integer({ min: 0, max: 3 }) });

test('one phrase is one edit, two are one, three are two passes', () => {
  assert.deepEqual(processor.parse('make it night'), { edits: ['make it night'], changes: { time: 3 }, warnings: [] });
  assert.deepEqual(processor.parse('dunes and fog').edits, ['change to dunes and fog']);
  assert.deepEqual(processor.parse('A snowy mountains road, at NIGHT... with rain!').edits, ['change to snowy mountains and night', 'make it rain']);
});

test('the longest phrase wins over its words', () => {
  assert.deepEqual(processor.parse('snowy mountains').changes, { place: 4 });
  assert.deepEqual(processor.parse('snowy forest').changes, { weather: 3, place: 0 });
  assert.deepEqual(processor.parse('early morning').changes, { time: 0 });
});

test('words the model never saw stand for ones it knows; others are reported, once each', () => {
  const parsed = processor.parse('seashore at twilight with unicorns, unicorns and dragons');
  assert.deepEqual(parsed.changes, { place: 3, time: 2 });
  assert.deepEqual(parsed.warnings, [{ code: 'unknown_words', words: ['unicorns', 'dragons'], message: 'Not known to the model: unicorns, dragons.' }]);
});

test('of two values of one attribute the later counts and the earlier is reported', () => {
  const parsed = processor.parse('forest, no, city at night');
  assert.deepEqual(parsed.changes, { place: 2, time: 3 });
  assert.deepEqual(
    parsed.warnings.map(({ code, words }) => [code, words]),
    [
      ['unknown_words', ['no']],
      ['replaced', ['forest']],
    ],
  );
});

test('what is not wanted is not shown: weather clears, a place that nothing replaces stays and is reported', () => {
  for (const text of ['no fog', 'stop raining', 'without any rain or snow', 'don’t want snow', 'rain, no rain', 'clear the fog', 'no more snow', 'sunny, not foggy']) {
    assert.deepEqual([text, processor.parse(text).changes, processor.parse(text).warnings], [text, { weather: 0 }, []]);
  }
  assert.deepEqual(processor.parse('clear night over the city, no rain').changes, { weather: 0, time: 3, place: 2 });
  assert.deepEqual(processor.parse('not foggy but snowing').changes, { weather: 3 });
  assert.deepEqual(processor.parse('no rain, rain').changes, { weather: 1 });
  assert.deepEqual(processor.parse('stop at the beach').changes, { place: 3 });
  assert.deepEqual(processor.parse('same place but dawn'), { edits: ['make it dawn'], changes: { time: 0 }, warnings: [] });
  const { changes, warnings } = processor.parse('night, not the city');
  assert.deepEqual([changes, warnings.map(({ code, words }) => [code, words])], [{ time: 3 }, [['negated', ['city']]]]);
  assert.throws(() => processor.parse('not the city'), (error: SegueError) => error.code === 'prompt_not_understood' && /what not to show \(city\)/.test(error.message));
});

test('every example of the reference is read as the reference reads it', () => {
  interface Example {
    readonly text: string;
    readonly state: readonly number[];
    readonly error?: string;
    readonly edits: readonly string[];
    readonly unknown_words: readonly string[];
    readonly new_state: readonly number[];
  }
  const examples = JSON.parse(readFileSync(new URL('../../../oracle/processor_examples.json', import.meta.url), 'utf8')) as readonly Example[];
  assert.ok(examples.length >= 30);
  for (const { text, state, error, edits, unknown_words: unknown, new_state: next } of examples) {
    if (error !== undefined) {
      assert.throws(() => processor.parse(text), { code: error }, text);
      continue;
    }
    const parsed = processor.parse(text);
    assert.deepEqual(parsed.edits, edits, text);
    assert.deepEqual(parsed.warnings.find(({ code }) => code === 'unknown_words')?.words ?? [], unknown, text);
    const names = ['place', 'time', 'weather'];
    assert.deepEqual(names.map((name, at) => parsed.changes[name] ?? state[at]), next, text);
  }
});

test('unknown words and replaced words are told apart', () => {
  const { warnings } = processor.parse('forest with unicorns, no: city at night');
  assert.deepEqual(Object.fromEntries(warnings.map(({ code, words }) => [code, words])), { unknown_words: ['unicorns', 'no'], replaced: ['forest'] });
});

test('a prompt that names nothing known is not understood, and the error says what is', () => {
  for (const text of ['unicorns', 'constructor __proto__ toString', '', '   ', '!!!', 'the']) {
    assert.throws(() => processor.parse(text), (error: SegueError) => error.code === 'prompt_not_understood' && /forest/.test(error.message));
  }
});

test('any text parses or is refused by that one error, and what parses is in the vocabulary', () => {
  const longest = bench.kernels.ar_decode.longestPrompt;
  fc.assert(
    fc.property(states, fc.oneof(fc.string({ maxLength: 200 }), fc.array(fc.constantFrom(...processor.words, 'zzz', ','), { maxLength: 30 }).map((words) => words.join(' '))), (state, text) => {
      try {
        const { edits, changes } = processor.parse(text);
        assert.ok(edits.length >= 1 && edits.length <= 2 && Object.keys(changes).length >= 1);
        for (const edit of edits) assert.ok(processor.directorInput(state, edit).length <= longest, 'the director can read it');
      } catch (error) {
        assert.ok(error instanceof SegueError && error.code === 'prompt_not_understood', String(error));
      }
    }),
  );
});

test('prompt ids are as long as the encoder takes, and distinct states give distinct prompts and bank entries', () => {
  const prompts = new Set<string>();
  const entries = new Set<number>();
  for (let place = 0; place < 5; place++) {
    for (let time = 0; time < 4; time++) {
      for (let weather = 0; weather < 4; weather++) {
        const ids = processor.promptIds({ place, time, weather });
        assert.equal(ids.length, 12);
        prompts.add(ids.join(','));
        entries.add(processor.bankIndex({ place, time, weather }));
        assert.deepEqual(processor.attributesOfEntry(processor.bankIndex({ place, time, weather })), { place, time, weather });
      }
    }
  }
  assert.equal(prompts.size, 80);
  assert.deepEqual([...entries], Array.from({ length: 80 }, (_, index) => index));
});

test('a state by name is read back, by canonical words or any phrase for the same; what there is not is refused with what there is', () => {
  const state = processor.attributesOfEntry(37);
  assert.deepEqual(processor.fromNamed(processor.named(state)), state);
  assert.deepEqual(processor.fromNamed({ time: processor.named(state)['time']! }), { time: state['time'] });
  assert.throws(() => processor.fromNamed({ mood: 'sad' }), { code: 'plan_not_usable', message: /no attribute mood; the model has place/ });
  assert.throws(() => processor.fromNamed({ place: 'moon' }), { code: 'plan_not_usable', message: /place can't be moon/ });
});

test('a state out of range is a TypeError', () => {
  assert.throws(() => processor.promptIds({ place: 5, time: 0, weather: 0 }), TypeError);
  assert.throws(() => processor.bankIndex({ place: 0, time: 0 }), TypeError);
  for (const entry of [-1, 80, 0.5, Number.NaN]) assert.throws(() => processor.attributesOfEntry(entry), RangeError);
});

test('a seed always gives the same state, and seeds reach all of them', () => {
  const seen = new Set<number>();
  for (let seed = 0; seed < 1500; seed++) {
    assert.deepEqual(processor.attributesFromSeed(seed), processor.attributesFromSeed(seed));
    seen.add(processor.bankIndex(processor.attributesFromSeed(seed)));
  }
  assert.equal(seen.size, 80);
});

test('what is no answer of the director reads as null', () => {
  fc.assert(fc.property(fc.array(fc.integer({ min: -5, max: 100 }), { maxLength: 40 }), (tokens) => {
    const plan = processor.readDirector(tokens);
    if (plan !== null) assert.ok(processor.bankIndex(plan.attributes) >= 0);
  }));
  assert.equal(processor.readDirector([]), null);
  assert.equal(processor.readDirector([3, 2]), null);
});

test('the trained director applies the edits: its plan is what the words say, in ≥ 38 of 40 cases', async () => {
  const kernel = bench.kernels.ar_decode;
  const ctx = contextOf({ seed: 0 });
  const vocabulary = [['forest', 'dunes', 'downtown', 'beach', 'alps'], ['sunrise', 'noon', 'evening', 'midnight'], ['sunny', 'storm', 'foggy', 'snowing']] as const;
  let exact = 0;
  for (let seed = 0; seed < 40; seed++) {
    const from: Attributes = processor.attributesFromSeed(seed);
    const target = processor.attributesFromSeed(1000 + seed);
    const words = [vocabulary[0][target['place']!]!, vocabulary[1][target['time']!]!, vocabulary[2][target['weather']!]!].slice(0, 1 + (seed % 3));
    const { edits, changes } = processor.parse(words.join(' '));
    let state = from;
    for (const edit of edits) {
      const loop = kernel.initState({ ids: processor.directorInput(state, edit), endIds: processor.endIds, maxTokens: 30 }, ctx);
      const plan = processor.readDirector(kernel.finalize(await bench.runToEnd(kernel, 'a', loop, ctx), ctx));
      if (plan === null) break;
      assert.ok(plan.narration.length > 5);
      state = plan.attributes;
    }
    if (JSON.stringify(state) === JSON.stringify({ ...from, ...changes })) exact++;
  }
  console.log(`director: ${exact} of 40 plans exact`);
  assert.ok(exact >= 38, `${exact} of 40`);
});
