import { SegueError } from '../../../protocol/errors.ts';
import type { NamedPlan } from '../../../protocol/named_plan.ts';
import type { PromptWarning } from '../../../protocol/prompt_warning.ts';
import { philox4x32 } from '../philox.ts';
import { AuthoringFile } from '../spec/authoring_file.ts';
import type { ModelSpec } from '../spec/model_spec.ts';
import { PhraseMatcher, type PhraseMatch } from './PhraseMatcher.ts';
import { ProcessorFile, VocabularyFile } from './processor_files.ts';

/** Index of the value of each attribute, by attribute name, for example `{ place: 2, time: 3, weather: 1 }`. */
export type Attributes = Readonly<Record<string, number>>;

export interface ParsedPrompt {
  /** What to tell the director, in its own words: one edit for one or two phrases, two for three. Each is a pass of its own. */
  readonly edits: readonly string[];
  /** The attributes that the text names, read without the director. */
  readonly changes: Attributes;
  /** Words and phrases that had no effect: unknown ones, then ones that a later phrase replaced. */
  readonly warnings: readonly PromptWarning[];
}

export interface DirectorPlan {
  readonly attributes: Attributes;
  /** The new state in words. */
  readonly planText: string;
  readonly narration: string;
}

/**
 * Text in and out of the `drive` model: free text → edits that its director knows, its tokens → state and narration, state → prompt ids.
 * Pure and synchronous; made once per model.
 */
export class PromptProcessor {
  readonly #vocabulary: VocabularyFile;
  readonly #rules: ProcessorFile;
  readonly #ids: ReadonlyMap<string, number>;
  readonly #matcher: PhraseMatcher;

  /** @throws {SpecError} a file is missing or malformed, or uses a word that the vocabulary lacks. */
  static load(spec: ModelSpec, processorId = 'prompt'): PromptProcessor {
    const processor = spec.processors[processorId];
    if (processor === undefined) throw new TypeError(`model ${spec.modelId} has no processor ${processorId}`);
    const vocabulary = AuthoringFile.read(spec.modelDir, processor.vocabulary, VocabularyFile);
    const rules = AuthoringFile.read(spec.modelDir, processor.rules, ProcessorFile);
    checkWords(vocabulary, rules);
    const { encoder, director } = processor;
    const lengths = {
      prompt: { of: `${encoder}.ids`, length: spec.components[encoder]!.inputs['ids']?.shape[1] },
      director: { of: `${director}.kv`, length: spec.components[director]!.outputs['kv']?.shape[2] },
      director_prompt: { of: `${director}.ids`, length: spec.components[director]!.inputs['ids']?.shape[1] },
    };
    for (const [key, { of, length }] of Object.entries(lengths) as [keyof typeof lengths, (typeof lengths)['prompt']][]) {
      if (length !== rules.value.max_words[key]) throw rules.fault(['max_words', key], `length of ${of}`, length, rules.value.max_words[key]);
    }
    const longest = longestDirectorInput(rules.value);
    if (longest > rules.value.max_words.director_prompt) throw rules.fault(['max_words', 'director_prompt'], 'room for every state and edit', longest, rules.value.max_words.director_prompt);
    return new PromptProcessor(vocabulary.value, rules.value);
  }

  private constructor(vocabulary: VocabularyFile, rules: ProcessorFile) {
    this.#vocabulary = vocabulary;
    this.#rules = rules;
    this.#ids = new Map(vocabulary.words.map((word, id) => [word, id]));
    this.#matcher = new PhraseMatcher(rules, this.#ids);
  }

  /** Words that a prompt may use with effect: the vocabulary without its special words, and the aliases. */
  get words(): readonly string[] {
    const special = new Set<number>(Object.values(this.#vocabulary.special));
    return [...this.#vocabulary.words.filter((_, id) => !special.has(id)), ...Object.keys(this.#rules.aliases)];
  }

  /** Ends the director's text. */
  get endIds(): readonly number[] {
    return [this.#vocabulary.special.eos];
  }

  /** @throws {SegueError} `prompt_not_understood`: the text names no attribute. */
  parse(text: string): ParsedPrompt {
    const { found, unknown } = this.#matcher.match(text);
    const { kept, replaced, negated } = this.#resolve(found);
    if (kept.length === 0) {
      const problem = negated.length > 0 ? `this says what not to show (${negated.join(', ')}), but not what to show instead` : 'nothing in this prompt is known to the model';
      throw new SegueError('prompt_not_understood', `${problem}; it knows ${this.#examples()}`, { param: 'prompt' });
    }
    const edits: string[] = [];
    for (let at = 0; at < kept.length; at += 2) {
      const [a, b] = [kept[at]!.phrase, kept[at + 1]?.phrase];
      const { one, two } = this.#rules.edit_templates;
      edits.push(b === undefined ? fill(one, { a }) : fill(two, { a, b }));
    }
    return { edits, changes: Object.fromEntries(kept.map(({ attribute, value }) => [attribute, value])), warnings: warningsOf({ unknown, replaced, negated }) };
  }

  /** What the director continues: `<bos> state <sep> edit <eos>`. */
  directorInput(attributes: Attributes, edit: string): readonly number[] {
    const { bos, eos, sep } = this.#vocabulary.special;
    return [bos, ...this.#encode(this.#stateText(attributes)), sep, ...this.#encode(edit), eos];
  }

  /** The director's answer `state <sep> narration <eos>`, or null where it isn't one. */
  readDirector(tokens: readonly number[]): DirectorPlan | null {
    const { sep, eos } = this.#vocabulary.special;
    const middle = tokens.indexOf(sep);
    const end = tokens.indexOf(eos);
    if (middle < 0 || end < middle) return null;
    const planText = this.#decode(tokens.slice(0, middle));
    const attributes = this.#readState(planText);
    return attributes === null ? null : { attributes, planText, narration: this.#decode(tokens.slice(middle + 1, end)) };
  }

  /** What the director has said so far as running text: the state, a full stop in the separator's place, the narration. */
  speech(tokens: readonly number[]): string {
    const { sep, eos, bos, pad } = this.#vocabulary.special;
    return tokens.filter((id) => id !== eos && id !== bos && id !== pad).reduce((text, id) => (id === sep ? `${text}.` : `${text}${text === '' ? '' : ' '}${this.#decode([id])}`), '');
  }

  promptText(attributes: Attributes): string {
    return fill(this.#rules.prompt_template, this.#canonical(attributes));
  }

  /** `<bos>`, words, padding, as the text encoder takes them. */
  promptIds(attributes: Attributes): readonly number[] {
    const { bos, pad } = this.#vocabulary.special;
    const length = this.#rules.max_words.prompt;
    const ids = [bos, ...this.#encode(this.promptText(attributes))].slice(0, length);
    return [...ids, ...Array<number>(length - ids.length).fill(pad)];
  }

  /** A state in words, attribute by attribute. */
  named(attributes: Attributes): NamedPlan {
    return this.#canonical(attributes);
  }

  /** Attributes from words as {@link named} gives them, or any phrase for the same value. @throws {SegueError} `plan_not_usable`, with what there is. */
  fromNamed(plan: NamedPlan): Attributes {
    return Object.fromEntries(
      Object.entries(plan).map(([name, phrase]) => {
        const attribute = this.#rules.attributes.find((candidate) => candidate.name === name);
        const value = attribute?.values.findIndex(({ phrases }) => phrases.includes(phrase)) ?? -1;
        if (value < 0) throw new SegueError('plan_not_usable', `${attribute === undefined ? `no attribute ${name}` : `${name} can't be ${phrase}`}; the model has ${this.#examples()}`, { param: `plan.${name}` });
        return [name, value];
      }),
    );
  }

  /** Entry of the start bank: attributes as digits, the last one fastest. */
  bankIndex(attributes: Attributes): number {
    return this.#rules.attributes.reduce((index, { name, values }) => index * values.length + this.#valueOf(attributes, name), 0);
  }

  /** The attributes of an entry of the start bank: what {@link bankIndex} makes its index from. @throws {RangeError} beyond the bank. */
  attributesOfEntry(index: number): Attributes {
    const attributes: Record<string, number> = {};
    let rest = index;
    for (const { name, values } of this.#rules.attributes.toReversed()) {
      attributes[name] = rest % values.length;
      rest = Math.floor(rest / values.length);
    }
    if (!Number.isInteger(index) || index < 0 || rest !== 0) throw new RangeError(`the start bank has no entry ${index}`);
    return attributes;
  }

  /** A state drawn from a seed; the same seed, the same state. What can be absent is so more often than not: a first look should see far. */
  attributesFromSeed(seed: number): Attributes {
    const words = new Uint32Array(4);
    return Object.fromEntries(
      this.#rules.attributes.map(({ name, values, absent }, index) => {
        philox4x32([index, 0, 0, 0], [seed | 0, 0x5e9e], words);
        return [name, absent !== undefined && words[1]! % 2 === 0 ? absent : words[0]! % values.length];
      }),
    );
  }

  /**
   * What of all that was said counts, in the order said. Of several values of one attribute it is the last; one that is denied after it was said is not
   * said. What is denied and replaced by nothing gives way to the attribute's `absent` value, or has no effect.
   */
  #resolve(found: readonly PhraseMatch[]): { readonly kept: readonly PhraseMatch[]; readonly replaced: readonly string[]; readonly negated: readonly string[] } {
    const kept: { readonly match: PhraseMatch; readonly index: number }[] = [];
    const replaced = new Set<string>();
    const negated = new Set<string>();
    for (const { name, values, absent } of this.#rules.attributes) {
      const said = found.map((match, index) => ({ match, index })).filter(({ match }) => match.attribute === name);
      const denials = said.filter(({ match }) => match.negated);
      const wishes = said.filter(({ match, index }) => !match.negated && !denials.some((denial) => denial.match.value === match.value && denial.index > index));
      const last = wishes.at(-1) ?? null;
      if (last !== null) {
        kept.push(last);
        for (const { match } of wishes) if (match.value !== last.match.value) replaced.add(match.phrase);
        continue;
      }
      const gone = denials.findLast(({ match }) => absent !== undefined && match.value !== absent);
      if (gone !== undefined) kept.push({ index: gone.index, match: { attribute: name, value: absent!, phrase: values[absent!]!.canonical, negated: false } });
      else for (const { match } of denials) negated.add(match.phrase);
    }
    return { kept: kept.sort((a, b) => a.index - b.index).map(({ match }) => match), replaced: [...replaced], negated: [...negated] };
  }

  #stateText(attributes: Attributes): string {
    return Object.values(this.#canonical(attributes)).join(' ');
  }

  /** Reads canonical phrases, one per attribute, in order and with nothing between. */
  #readState(text: string): Attributes | null {
    const attributes: Record<string, number> = {};
    let rest = `${text} `;
    for (const { name, values } of this.#rules.attributes) {
      const value = values.findIndex(({ canonical }) => rest.startsWith(`${canonical} `));
      if (value < 0) return null;
      attributes[name] = value;
      rest = rest.slice(values[value]!.canonical.length + 1);
    }
    return rest === '' ? attributes : null;
  }

  #canonical(attributes: Attributes): Record<string, string> {
    return Object.fromEntries(this.#rules.attributes.map(({ name, values }) => [name, values[this.#valueOf(attributes, name)]!.canonical]));
  }

  #valueOf(attributes: Attributes, name: string): number {
    const value = attributes[name];
    const count = this.#rules.attributes.find((attribute) => attribute.name === name)!.values.length;
    if (value === undefined || !Number.isInteger(value) || value < 0 || value >= count) throw new TypeError(`attribute ${name} is 0 to ${count - 1}, got ${value}`);
    return value;
  }

  #encode(text: string): number[] {
    return text.split(' ').filter((word) => word !== '').map((word) => {
      const id = this.#ids.get(word);
      if (id === undefined) throw new TypeError(`the model doesn't know the word "${word}"`);
      return id;
    });
  }

  #decode(ids: readonly number[]): string {
    return ids.map((id) => this.#vocabulary.words[id] ?? '').join(' ');
  }

  #examples(): string {
    return this.#rules.attributes.map(({ name, values }) => `${name} (${values.map(({ canonical }) => canonical).join(', ')})`).join(', ');
  }
}

function warningsOf({ unknown, replaced, negated }: Readonly<Record<'unknown' | 'replaced' | 'negated', readonly string[]>>): PromptWarning[] {
  const warnings: PromptWarning[] = [];
  if (unknown.length > 0) warnings.push({ code: 'unknown_words', words: [...unknown], message: `Not known to the model: ${unknown.join(', ')}.` });
  if (replaced.length > 0) warnings.push({ code: 'replaced', words: [...replaced], message: `Replaced by something said later: ${replaced.join(', ')}.` });
  if (negated.length > 0) warnings.push({ code: 'negated', words: [...negated], message: `Not wanted, but nothing was said to be there instead: ${negated.join(', ')}.` });
  return warnings;
}

function fill(template: string, values: Readonly<Record<string, string>>): string {
  return template.replace(/\{(\w+)\}/g, (_, name: string) => values[name] ?? '');
}

/** Words of `<bos> state <sep> edit <eos>` for the longest state and the longest edit that the rules can produce. */
function longestDirectorInput({ attributes, edit_templates: { one, two } }: ProcessorFile): number {
  const count = (text: string): number => text.split(' ').filter((word) => word !== '').length;
  const state = attributes.reduce((sum, { values }) => sum + Math.max(...values.map(({ canonical }) => count(canonical))), 0);
  const longest = attributes.map(({ values }) => Math.max(...values.flatMap(({ phrases }) => phrases.map(count)))).sort((a, b) => b - a);
  // Of two phrases in one edit none names the other's attribute.
  const edits = [count(fill(one, {})) + longest[0]!, count(fill(two, {})) + longest[0]! + (longest[1] ?? 0)];
  return 3 + state + Math.max(...edits);
}

/** Every word that the rules can produce must have an id. */
function checkWords(vocabulary: AuthoringFile<VocabularyFile>, rules: AuthoringFile<ProcessorFile>): void {
  const words = new Set(vocabulary.value.words);
  const check = (path: readonly (string | number)[], text: string) => {
    const missing = text.split(' ').find((word) => !/^\{\w+\}$/.test(word) && !words.has(word));
    if (missing !== undefined) throw rules.fault(path, 'word is not in the vocabulary', vocabulary.name, missing);
  };
  const phrases = new Set<string>();
  for (const [index, { values }] of rules.value.attributes.entries()) {
    for (const [at, value] of values.entries()) {
      for (const [which, phrase] of value.phrases.entries()) {
        check(['attributes', index, 'values', at, 'phrases', which], phrase);
        phrases.add(phrase);
      }
      if (!value.phrases.includes(value.canonical)) throw rules.fault(['attributes', index, 'values', at, 'canonical'], 'canonical phrase is not among the phrases', value.phrases, value.canonical);
    }
  }
  for (const [alias, phrase] of Object.entries(rules.value.aliases)) {
    if (!phrases.has(phrase)) throw rules.fault(['aliases', alias], 'alias of an unknown phrase', [...phrases], phrase);
  }
  check(['prompt_template'], rules.value.prompt_template);
  check(['edit_templates', 'one'], rules.value.edit_templates.one);
  check(['edit_templates', 'two'], rules.value.edit_templates.two);
}
