import { Type, type Static } from 'typebox';

export const PARALLEL_AXES = ['dp', 'tp', 'sp', 'cp', 'cfgp', 'pp', 'vae', 'ep', 'fsdp', 'role', 'replica'] as const;
export type ParallelAxis = (typeof PARALLEL_AXES)[number];

/** A pattern of plans that loops may name. Axes left out are 1; a range is `[smallest, largest]`. */
export const ParallelPlanPattern = Type.Object(
  {
    axes: Type.Partial(Type.Object(Object.fromEntries(PARALLEL_AXES.map((axis) => [axis, range()])) as Record<ParallelAxis, ReturnType<typeof range>>), { additionalProperties: false }),
    meshOrder: Type.Array(Type.Enum([...PARALLEL_AXES]), { uniqueItems: true }),
  },
  { additionalProperties: false },
);
export type ParallelPlanPattern = Static<typeof ParallelPlanPattern>;

export const ParallelFile = Type.Object({ plans: Type.Record(Type.String(), ParallelPlanPattern) }, { additionalProperties: false });

function range() {
  return Type.Tuple([Type.Integer({ minimum: 1 }), Type.Integer({ minimum: 1 })]);
}
