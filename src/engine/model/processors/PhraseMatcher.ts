import type { ProcessorFile } from './processor_files.ts';

export interface PhraseMatch {
  readonly attribute: string;
  readonly value: number;
  /** In the model's words. */
  readonly phrase: string;
}

export interface MatchedText {
  /** In the order of the text. */
  readonly found: readonly PhraseMatch[];
  /** Words that neither the vocabulary nor the aliases know, once each, as written. */
  readonly unknown: readonly string[];
}

/** Finds attribute phrases in free text: the longest phrase first, then aliases of single words. */
export class PhraseMatcher {
  readonly #phrases = new Map<string, PhraseMatch>();
  readonly #aliases: ReadonlyMap<string, string>;
  readonly #known: ReadonlyMap<string, number>;
  readonly #longest: number;

  constructor(rules: ProcessorFile, known: ReadonlyMap<string, number>) {
    for (const { name, values } of rules.attributes) {
      for (const [value, { phrases }] of values.entries()) for (const phrase of phrases) this.#phrases.set(phrase, { attribute: name, value, phrase });
    }
    this.#aliases = new Map(Object.entries(rules.aliases));
    this.#known = known;
    this.#longest = Math.max(...[...this.#phrases.keys()].map((phrase) => phrase.split(' ').length));
  }

  match(text: string): MatchedText {
    const words = text.toLowerCase().match(/[\p{L}\p{N}'’-]+/gu) ?? [];
    const found: PhraseMatch[] = [];
    const unknown = new Set<string>();
    for (let at = 0; at < words.length; ) {
      const { match, length } = this.#at(words, at);
      if (match !== undefined) found.push(match);
      else if (!this.#known.has(words[at]!)) unknown.add(words[at]!);
      at += length;
    }
    return { found, unknown: [...unknown] };
  }

  #at(words: readonly string[], at: number): { match?: PhraseMatch; length: number } {
    for (let length = Math.min(this.#longest, words.length - at); length >= 1; length--) {
      const match = this.#phrases.get(words.slice(at, at + length).join(' '));
      if (match !== undefined) return { match, length };
    }
    const alias = this.#aliases.get(words[at]!);
    const match = alias === undefined ? undefined : this.#phrases.get(alias);
    return match === undefined ? { length: 1 } : { match, length: 1 };
  }
}
