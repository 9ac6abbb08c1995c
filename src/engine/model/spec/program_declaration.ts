import { Type, type Static } from 'typebox';
import { CAPABILITIES } from './capability_matrix.ts';

/** What `programs.yaml` says of a program: enough to check it against the model before anything runs. */
export const ProgramDeclaration = Type.Object(
  {
    kind: Type.Enum(['inline', 'realtime', 'disaggregated', 'workflow', 'training']),
    requires: Type.Array(Type.Enum([...CAPABILITIES])),
    /** Role in the program → loop that plays it. */
    loops: Type.Record(Type.String(), Type.String()),
    /** Processors of the model that the program uses, by role. */
    processors: Type.Record(Type.String(), Type.String()),
  },
  { additionalProperties: false },
);
export type ProgramDeclaration = Static<typeof ProgramDeclaration>;

export const ProgramsFile = Type.Object({ programs: Type.Record(Type.String(), ProgramDeclaration) }, { additionalProperties: false });
