import { Type, type Static } from 'typebox';

/** How an engine runs the model: what may differ between machines without changing what is generated. */
export const DeploymentSpec = Type.Object(
  {
    variant: Type.String(),
    parallelPlan: Type.String(),
    /** Executor threads, one device share each. More than one per core slows every one of them down. */
    devices: Type.Integer({ minimum: 1, maximum: 64 }),
    /** Pads single rows to 2 so that a unit's bits don't depend on who shares its batch; doubles the cost of a lone unit. */
    batchInvariant: Type.Boolean(),
    executor: Type.Object(
      {
        provider: Type.Enum(['cpu', 'cuda']),
        intraOpThreads: Type.Integer({ minimum: 1 }),
        /** Batches handed to one executor at once: the second waits in its queue, so that the hop between threads is hidden. */
        maxInFlight: Type.Integer({ minimum: 1, maximum: 8 }),
        /** Measured runs per component and batch size at load. */
        calibrationRuns: Type.Integer({ minimum: 1, maximum: 1000 }),
        /** A second thread per device share, loaded and idle, that takes over when the first stops answering. Costs the weights' memory once more. */
        spare: Type.Boolean(),
      },
      { additionalProperties: false },
    ),
    programs: Type.Array(Type.String(), { minItems: 1 }),
  },
  { additionalProperties: false },
);
export type DeploymentSpec = Static<typeof DeploymentSpec>;
