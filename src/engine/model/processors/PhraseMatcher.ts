import type { ProcessorFile } from './processor_files.ts';

export interface PhraseMatch {
  readonly attribute: string;
  readonly value: number;
  /** In the model's words. */
  readonly phrase: string;
  /** Said to be not wanted: "no rain". */
  readonly negated: boolean;
}

export interface MatchedText {
  /** In the order of the text. */
  readonly found: readonly PhraseMatch[];
  /** Words that nothing knows, once each. */
  readonly unknown: readonly string[];
}

type Meaning = Omit<PhraseMatch, 'negated'>;

interface Word {
  readonly text: string;
  /** Punctuation stands before it: what was said to be not wanted ends there ("forest, no, city"). */
  readonly apart: boolean;
}

/** Finds attribute phrases in free text: at each word the longest phrase or alias that starts there, a phrase before an alias of equal length. */
export class PhraseMatcher {
  readonly #meanings = new Map<string, Meaning>();
  readonly #known: ReadonlySet<string>;
  readonly #negation: ProcessorFile['negation'];
  /** Attributes of which something can be absent. */
  readonly #endable: ReadonlySet<string>;
  readonly #longest: number;

  constructor(rules: ProcessorFile, known: ReadonlyMap<string, number>) {
    for (const { name, values } of rules.attributes) {
      for (const [value, { phrases }] of values.entries()) for (const phrase of phrases) this.#meanings.set(phrase, { attribute: name, value, phrase });
    }
    for (const [alias, phrase] of Object.entries(rules.aliases)) {
      const meaning = this.#meanings.get(phrase);
      if (meaning !== undefined && !this.#meanings.has(alias)) this.#meanings.set(alias, meaning);
    }
    this.#known = new Set([...known.keys(), ...rules.small_words]);
    this.#negation = rules.negation;
    this.#endable = new Set(rules.attributes.flatMap(({ name, absent }) => (absent === undefined ? [] : [name])));
    this.#longest = Math.max(...[...this.#meanings.keys()].map((phrase) => phrase.split(' ').length));
  }

  match(text: string): MatchedText {
    const words = wordsOf(text);
    const found: PhraseMatch[] = [];
    const unknown = new Set<string>();
    for (let at = 0; at < words.length; ) {
      const here = this.#at(words, at);
      const denied = here === null ? this.#denied(words, at) : null;
      if (here !== null) found.push({ ...here.meaning, negated: false });
      else if (denied !== null) found.push(...denied.meanings.map((meaning) => ({ ...meaning, negated: true })));
      else if (!this.#known.has(words[at]!.text)) unknown.add(words[at]!.text);
      at += here?.length ?? denied?.length ?? 1;
    }
    return { found, unknown: [...unknown] };
  }

  #at(words: readonly Word[], at: number): { readonly meaning: Meaning; readonly length: number } | null {
    for (let length = Math.min(this.#longest, words.length - at); length >= 1; length--) {
      const meaning = this.#meanings.get(words.slice(at, at + length).map(({ text }) => text).join(' '));
      if (meaning !== undefined) return { meaning, length };
    }
    return null;
  }

  /** A word that denies, and what it denies, with nothing but small words between: "without any rain or snow". */
  #denied(words: readonly Word[], at: number): { readonly meanings: readonly Meaning[]; readonly length: number } | null {
    const { words: deny, ends } = this.#negation;
    const word = words[at]!.text;
    if (!deny.includes(word) && !ends.includes(word)) return null;
    const meanings: Meaning[] = [];
    let end = at + 1;
    for (let next = end; ; ) {
      const phrase = this.#beyondFillers(words, next);
      if (phrase === null || (!deny.includes(word) && !this.#endable.has(phrase.meaning.attribute))) break;
      meanings.push(phrase.meaning);
      end = phrase.end;
      if (!this.#negation.joins.includes(words[end]?.text ?? '') || words[end]!.apart) break;
      next = end + 1;
    }
    return meanings.length === 0 ? null : { meanings, length: end - at };
  }

  #beyondFillers(words: readonly Word[], from: number): { readonly meaning: Meaning; readonly end: number } | null {
    const { fillers, most_fillers: most } = this.#negation;
    for (let at = from; at < words.length && at <= from + most && !words[at]!.apart; at++) {
      const here = this.#at(words, at);
      if (here !== null) return { meaning: here.meaning, end: at + here.length };
      if (!fillers.includes(words[at]!.text)) return null;
    }
    return null;
  }
}

function wordsOf(text: string): Word[] {
  const words: Word[] = [];
  let apart = false;
  for (const [token] of text.toLowerCase().replaceAll('’', "'").matchAll(/[\p{L}\p{N}']+|[.,;:!?…–—]/gu)) {
    if (/^[\p{L}\p{N}']/u.test(token)) {
      words.push({ text: token, apart });
      apart = false;
    } else apart = true;
  }
  return words;
}
