import { Type, type Static } from 'typebox';

/**
 * What of a prompt had no effect, although the prompt as a whole was understood. `unknown_words`: the model never learnt them.
 * `replaced`: understood, but something said later in the same prompt stands in its place ("forest, no, city": forest).
 * `negated`: understood as not wanted, but nothing was said to be there instead ("night, not the city": city).
 */
export const PromptWarning = Type.Object({
  code: Type.Enum(['unknown_words', 'replaced', 'negated']),
  /** Words or phrases, once each, in the order of the prompt. */
  words: Type.Array(Type.String(), { minItems: 1 }),
  /** One English sentence for people. */
  message: Type.String(),
});
export type PromptWarning = Static<typeof PromptWarning>;
