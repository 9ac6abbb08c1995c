import { Type, type Static } from 'typebox';

/** A processor turns what people say into what graphs take, and back: a vocabulary and the rules over it. */
export const ProcessorSpec = Type.Object(
  {
    kind: Type.Literal('attribute_prompt'),
    vocabulary: Type.String({ minLength: 1 }),
    rules: Type.String({ minLength: 1 }),
    /** Component whose word ids it makes; their lengths are checked against each other. */
    encoder: Type.String(),
    /** Component that reads what the director is to continue. */
    director: Type.String(),
    bank: Type.String(),
  },
  { additionalProperties: false },
);
export type ProcessorSpec = Static<typeof ProcessorSpec>;
