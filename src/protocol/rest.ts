/** Bodies of the REST calls. */
import { Type, type Static } from 'typebox';
import { Degraded } from './degraded.ts';
import { MemoryImport } from './prompt_memory.ts';
import { PromptWarning } from './prompt_warning.ts';
import { AdapterInForce, SessionAdapter } from './session_adapter.ts';
import { SessionImage } from './session_image.ts';
import { SessionUsage } from './session_usage.ts';
import { SessionVoice } from './session_voice.ts';

export const SESSION_STATES = ['created', 'waiting', 'connecting', 'active', 'paused', 'orphaned', 'closing', 'closed', 'failed'] as const;
export type SessionStateName = (typeof SESSION_STATES)[number];

export const CreateSession = Type.Object(
  {
    model: Type.Optional(Type.String({ maxLength: 64 })),
    program: Type.Optional(Type.String({ maxLength: 64 })),
    prompt: Type.Optional(Type.String({ minLength: 1, maxLength: 1000 })),
    image: Type.Optional(SessionImage),
    adapter: Type.Optional(SessionAdapter),
    /** An export of another session: begins with what was in force there. A prompt beside it edits that. */
    memory: Type.Optional(MemoryImport),
    seed: Type.Optional(Type.Integer({ minimum: 0, maximum: 0x7fffffff })),
    /** How voices that come in over it are taken. */
    voice: Type.Optional(SessionVoice),
    /** Of a program that takes a video in: how much of it is made anew. At 0.5 and below only the last step is taken. */
    transform: Type.Optional(Type.Object({ strength: Type.Number({ exclusiveMinimum: 0, maximum: 1 }) }, { additionalProperties: false })),
    limits: Type.Optional(
      Type.Object(
        {
          idleMs: Type.Optional(Type.Integer({ minimum: 1000 })),
          orphanMs: Type.Optional(Type.Integer({ minimum: 0 })),
          /** Used up, the session ends with `budget_exhausted`; see `usage`. */
          deviceMs: Type.Optional(Type.Integer({ minimum: 1 })),
          wallMs: Type.Optional(Type.Integer({ minimum: 1000 })),
          sentBytes: Type.Optional(Type.Integer({ minimum: 1 })),
        },
        { additionalProperties: false },
      ),
    ),
    /** From an earlier `at_capacity` answer: keeps the place in the queue. Expires when it isn't used for 15 s. */
    ticket: Type.Optional(Type.String({ minLength: 1, maxLength: 64 })),
    /** Test mode only: stamps epoch and frame number into picture and sound before they are encoded. */
    stamp: Type.Optional(Type.Boolean()),
  },
  { additionalProperties: false, $id: 'CreateSession' },
);
export type CreateSession = Static<typeof CreateSession>;

export const SessionView = Type.Object(
  {
    id: Type.String(),
    state: Type.Enum([...SESSION_STATES]),
    model: Type.String(),
    program: Type.String(),
    seed: Type.Integer(),
    createdAt: Type.String(),
    epoch: Type.Integer(),
    conditioningVersion: Type.Integer(),
    sent90k: Type.Integer(),
    presented90k: Type.Integer(),
    committed90k: Type.Integer(),
    prompt: Type.Union([Type.String(), Type.Null()]),
    adapter: Type.Optional(Type.Union([AdapterInForce, Type.Null()])),
    connections: Type.Integer(),
    /** Absent while nobody has come back to it after a restart. */
    usage: Type.Optional(SessionUsage),
    /** Absent where the session goes without nothing. */
    degraded: Type.Optional(Degraded),
    /** Of a replay: what it plays. */
    replay: Type.Optional(Type.Object({ session: Type.String(), from90k: Type.Integer(), to90k: Type.Integer() })),
    /** What its story was made with, oldest first; where a session is read by itself and its story is kept. Null: still going on. */
    weightVersions: Type.Optional(
      Type.Array(Type.Object({ from90k: Type.Integer(), to90k: Type.Union([Type.Integer(), Type.Null()]), weightsVersion: Type.String(), adapterVersions: Type.Record(Type.String(), Type.String()) })),
    ),
    reason: Type.Optional(Type.String()),
    /** With `reason`, where an error ended it: its code. */
    code: Type.Optional(Type.String()),
  },
  { $id: 'Session' },
);
export type SessionView = Static<typeof SessionView>;

export const CreatedSession = Type.Object(
  {
    id: Type.String(),
    state: Type.Enum([...SESSION_STATES]),
    clientToken: Type.String(),
    expiresAt: Type.String(),
    estimate: Type.Object({ costPerSecond: Type.Number(), position: Type.Optional(Type.Integer()) }),
    /** What of the prompt has no effect. Absent where all of it has. */
    warnings: Type.Optional(Type.Array(PromptWarning)),
  },
  { $id: 'CreatedSession' },
);
export type CreatedSession = Static<typeof CreatedSession>;

/** Where a fork's past comes from. */
export const ForkedFrom = Type.Object({ session: Type.String(), media90k: Type.Integer() });
export type ForkedFrom = Static<typeof ForkedFrom>;

export const ForkedSession = Type.Object({ ...CreatedSession.properties, from: ForkedFrom }, { $id: 'ForkedSession' });
export type ForkedSession = Static<typeof ForkedSession>;

/** Instead of an `at_capacity` error, for whoever prefers to wait (`Prefer: respond-async`, RFC 7240): the same call with this ticket keeps the place. */
export const WaitingPlace = Type.Object(
  {
    /** Absent where the queue is full, too. */
    ticket: Type.Optional(Type.String()),
    /** 1 = next. */
    position: Type.Optional(Type.Integer({ minimum: 1 })),
    estimateMs: Type.Optional(Type.Integer({ minimum: 0 })),
    retryAfterMs: Type.Integer({ minimum: 0 }),
  },
  { $id: 'WaitingPlace' },
);
export type WaitingPlace = Static<typeof WaitingPlace>;

export const ShareRequest = Type.Object(
  {
    expiresInMs: Type.Optional(Type.Integer({ minimum: 1_000, maximum: 30 * 86_400_000, description: 'Default: 7 days. It ends earlier where the session is deleted or not kept any more.' })),
    from90k: Type.Optional(Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER, description: 'Default: where what is kept begins.' })),
    to90k: Type.Optional(Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER, description: 'Default: what has been presented.' })),
  },
  { additionalProperties: false },
);
export const Share = Type.Object({
  url: Type.String({ description: 'Path of the page that plays it. The token is behind #, so that it reaches no log.' }),
  token: Type.String({ description: 'For POST /v1/replays, and nothing else.' }),
  expiresAt: Type.String(),
  from90k: Type.Integer(),
  to90k: Type.Integer(),
});
export type Share = Static<typeof Share>;

export const CreatedReplay = Type.Object({
  ...CreatedSession.properties,
  from90k: Type.Integer(),
  to90k: Type.Integer(),
  gaps: Type.Optional(Type.Array(Type.Object({ from90k: Type.Integer(), to90k: Type.Integer() }), { description: 'What of it is not kept, and is passed over (`replay.gap`). Absent: nothing is missing.' })),
});
export type CreatedReplay = Static<typeof CreatedReplay>;

export const SessionDescription = Type.Object({ type: Type.Enum(['offer', 'answer']), sdp: Type.String({ minLength: 1, maxLength: 64_000 }) }, { additionalProperties: false });
export const ConnectionAnswer = Type.Object({ id: Type.String(), type: Type.Literal('answer'), sdp: Type.String() });
export const TrickleCandidate = Type.Object(
  { candidate: Type.Union([Type.Null(), Type.Object({ candidate: Type.String({ maxLength: 1024 }), sdpMid: Type.Union([Type.String(), Type.Null()]), sdpMLineIndex: Type.Union([Type.Integer(), Type.Null()]) })]) },
  { additionalProperties: false },
);
export const IceServers = Type.Object({ iceServers: Type.Array(Type.Object({ urls: Type.Array(Type.String()), username: Type.Optional(Type.String()), credential: Type.Optional(Type.String()) })) });

export const ReloadedModel = Type.Object(
  {
    id: Type.String(),
    weightsVersion: Type.String({ description: 'That serves now.' }),
    previousWeightsVersion: Type.String(),
    changed: Type.Boolean({ description: 'False where the directory holds the weights that served already.' }),
    sessions: Type.Integer({ minimum: 0, description: 'Live sessions that went on with the new weights.' }),
    heldMs: Type.Integer({ minimum: 0, description: 'For how long at most one of them waited between two chunks.' }),
  },
  { $id: 'ReloadedModel' },
);
export type ReloadedModel = Static<typeof ReloadedModel>;
