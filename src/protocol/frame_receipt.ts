/** What made a picture that was presented. */
import { Type, type Static } from 'typebox';
import { NamedPlan } from './named_plan.ts';
import { AdapterInForce } from './session_adapter.ts';

const Count = Type.Integer({ minimum: 0 });
const Ids = Type.Array(Type.String());
const Plan = { words: Type.String(), attributes: NamedPlan };

export const FrameReceipt = Type.Object(
  {
    session: Type.String(),
    branch: Type.Integer({ minimum: 0, description: 'Of the session’s story: 0 until it goes back for the first time.' }),
    media90k: Type.Integer({ minimum: 0, description: 'Media time at which the frame begins, and behind its end.' }),
    end90k: Count,
    epoch: Type.Integer({ minimum: 0, description: 'In which it went out.' }),
    chunk: Count,
    frameInChunk: Count,
    origin: Type.Enum(['seed', 'generated'], { description: '`seed`: start frames, from the model’s bank or a picture that was given.' }),
    model: Type.String(),
    weightsVersion: Type.String(),
    fingerprint: Type.String({ description: 'Machine and runtime on which the same bits come of it.' }),
    adapter: Type.Union([AdapterInForce, Type.Null()]),
    adapterVersions: Type.Record(Type.String(), Type.String()),
    seed: Type.Integer(),
    lineage: Type.Integer({ minimum: 0, description: 'Which future of the story: with seed, chunk and step all noise follows from it.' }),
    conditioningVersion: Count,
    action: Type.Union([Type.Object({ sequence: Count, steer: Type.Integer(), speed: Type.Integer() }), Type.Null()], { description: 'Held input that its last step ran under; null where no step did.' }),
    steps: Type.Optional(Type.Integer({ minimum: 1, description: 'Denoise steps of its chunk, where they were fewer than its model declares; absent: all of them, or none for start frames.' })),
    plan: Type.Object(Plan, { description: 'In force.' }),
    mix: Type.Array(Type.Object({ ...Plan, weight: Type.Number() }), { description: 'What was left of other plans, in a blend; the rest is the plan’s.' }),
    requests: Type.Object({ started: Ids, active: Ids, completed: Ids }, { description: 'Whose effect began, held and ended in its chunk.' }),
    latents: Type.Object({ sha256: Type.String(), shape: Type.Array(Count) }, { description: 'The clean latents of its chunk that it was decoded from: float32, little-endian, rows first.' }),
  },
  { $id: 'FrameReceipt' },
);
export type FrameReceipt = Static<typeof FrameReceipt>;
