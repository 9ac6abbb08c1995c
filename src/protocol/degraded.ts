import { Type, type Static } from 'typebox';

/**
 * What a session goes without, rung by rung, where its device can't hold all deadlines: nothing is made ahead of what is asked for; chunks are begun as early as can be, so that keys
 * land later; chunks that begin are made in fewer denoise steps; the story runs slower than time. Only `steps` changes what is generated, and only a model that declares how far
 * (`denoise.reducedSteps` in loops.yaml) has it: chunks of it are recorded as such.
 */
export const DEGRADE_RUNGS = ['speculation', 'look_ahead', 'steps', 'pace'] as const;
export type DegradeRung = (typeof DEGRADE_RUNGS)[number];

export const Degraded = Type.Object({
  /** How many rungs down, of those that the session's model and program have; 1 is the first of {@link DEGRADE_RUNGS}. */
  level: Type.Integer({ minimum: 1, maximum: DEGRADE_RUNGS.length }),
  rung: Type.Enum([...DEGRADE_RUNGS]),
  /** Why, in words for whoever operates the server. */
  reason: Type.String(),
});
export type Degraded = Static<typeof Degraded>;
