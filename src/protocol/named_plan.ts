import { Type, type Static } from 'typebox';

/**
 * What the picture should show, in the model's own words: the value of each attribute, by attribute name, for example `{ place: 'forest', time: 'night' }`. Which there
 * are is the model's business: what it doesn't have is refused with `plan_not_usable` and a list, not by the schema.
 */
export const NamedPlan = Type.Record(Type.String({ minLength: 1, maxLength: 32 }), Type.String({ minLength: 1, maxLength: 64 }), {
  minProperties: 1,
  maxProperties: 32,
  description: 'Values of attributes, by name, as a plan of this model has them. Attributes that are left out stay as they are.',
});
export type NamedPlan = Static<typeof NamedPlan>;
