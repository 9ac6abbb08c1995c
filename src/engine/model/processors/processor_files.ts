import { Type, type Static } from 'typebox';

/** `vocabulary.json`: a word's id is its place in the list. */
export const VocabularyFile = Type.Object({
  words: Type.Array(Type.String({ minLength: 1 }), { minItems: 1, uniqueItems: true }),
  special: Type.Object({ pad: Type.Integer({ minimum: 0 }), bos: Type.Integer({ minimum: 0 }), eos: Type.Integer({ minimum: 0 }), sep: Type.Integer({ minimum: 0 }) }),
});
export type VocabularyFile = Static<typeof VocabularyFile>;

/** The part of `processor.json` that turns text into ids; written by the conversion, beside the weights it was trained with. */
export const ProcessorFile = Type.Object({
  attributes: Type.Array(
    Type.Object({
      name: Type.String({ minLength: 1 }),
      /** Index of the value that is there when another is not wanted; left out where nothing follows from that. */
      absent: Type.Optional(Type.Integer({ minimum: 0 })),
      values: Type.Array(Type.Object({ canonical: Type.String({ minLength: 1 }), phrases: Type.Array(Type.String({ minLength: 1 }), { minItems: 1 }) }), { minItems: 1 }),
    }),
    { minItems: 1 },
  ),
  /** Words that people use and the model never saw → the phrase that each stands for. */
  aliases: Type.Record(Type.String(), Type.String()),
  /** How people say what they don't want. `words` deny any phrase, `ends` only phrases of attributes with an `absent` value; `joins` go on denying. */
  negation: Type.Object({
    words: Type.Array(Type.String()),
    ends: Type.Array(Type.String()),
    joins: Type.Array(Type.String()),
    /** May stand between, at most `most_fillers` of them. */
    fillers: Type.Array(Type.String()),
    most_fillers: Type.Integer({ minimum: 0 }),
  }),
  /** Carry nothing of a wish, and are no news: not reported as unknown. */
  small_words: Type.Array(Type.String()),
  prompt_template: Type.String(),
  edit_templates: Type.Object({ one: Type.String(), two: Type.String() }),
  /** Words of the encoder's prompt, of the director's whole context, and of the longest text that it is given to continue. */
  max_words: Type.Object({ prompt: Type.Integer({ minimum: 1 }), director: Type.Integer({ minimum: 1 }), director_prompt: Type.Integer({ minimum: 1 }) }),
});
export type ProcessorFile = Static<typeof ProcessorFile>;
