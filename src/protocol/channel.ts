/**
 * Messages of the data channels (and, framed as `{channel, …}`, of the WebSocket): what the browser and the server say to each other.
 * Times named `…90k` are media time; `rtp…` are RTP timestamps as the browser reports them.
 */
import { Type, type Static } from 'typebox';
import { ErrorBody, type ErrorCode } from './errors.ts';
import { PromptWarning } from './prompt_warning.ts';
import { Degraded } from './degraded.ts';
import { APPLIED_HOWS } from './applied_how.ts';
import { AdapterInForce, AdapterOffer, SessionAdapter } from './session_adapter.ts';
import { NamedPlan } from './named_plan.ts';
import { RESOURCES } from './session_usage.ts';

export const PROTOCOL_VERSION = 1;

const Id = Type.String({ minLength: 1, maxLength: 64, pattern: '^[A-Za-z0-9_.:-]+$' });
const Rtp = Type.Integer({ minimum: 0, maximum: 0xffffffff });
const Prompt = Type.String({ minLength: 1, maxLength: 1000 });

/** The driver's last presented picture and sound, as it froze them. */
const Held = {
  heldVideoRtp: Type.Optional(Rtp),
  heldAudioRtp: Type.Optional(Rtp),
};

// ---------------------------------------------------------------- client → server, `control`

export const Hello = Type.Object({ type: Type.Literal('hello'), id: Id, protocol: Type.Integer(), client: Type.Optional(Type.String({ maxLength: 128 })) }, { additionalProperties: false });

export const InterruptRequest = Type.Object({ type: Type.Literal('interrupt'), id: Id, ...Held }, { additionalProperties: false });

/** What a redirect can ask for, at least one of them. What it doesn't name stays as it was last asked for; `adapter: null` takes the adapter away.
 * A `plan` sets attributes by name, without the director; a prompt beside it edits what they make. */
export const Wish = {
  prompt: Type.Optional(Type.String({ minLength: 1, maxLength: 1000 })),
  plan: Type.Optional(NamedPlan),
  adapter: Type.Optional(Type.Union([SessionAdapter, Type.Null()])),
};
export const WISHES_FOR_SOMETHING = { anyOf: [{ required: ['prompt'] }, { required: ['plan'] }, { required: ['adapter'] }] };

export const RedirectRequest = Type.Object(
  { type: Type.Literal('redirect'), id: Id, ...Wish, seamless: Type.Optional(Type.Boolean()), ...Held },
  { additionalProperties: false, ...WISHES_FOR_SOMETHING },
);

/** As a redirect that fences, but a new shot: nothing of the picture before is carried over. What was asked before is. */
export const CutRequest = Type.Object({ type: Type.Literal('cut'), id: Id, prompt: Prompt, ...Held }, { additionalProperties: false });

/** Chunks over which a scene goes over into another. The most is 20 s of two frames at 12 frames/s. */
export const BLEND_CHUNKS = { minimum: 2, maximum: 120, default: 12 } as const;

/** Doesn't fence: the picture flows on and goes over into the new scene by degrees. */
export const BlendRequest = Type.Object(
  { type: Type.Literal('blend'), id: Id, prompt: Prompt, chunks: Type.Optional(Type.Integer({ minimum: BLEND_CHUNKS.minimum, maximum: BLEND_CHUNKS.maximum })) },
  { additionalProperties: false },
);

/** Perhaps an interruption: picture and sound stop, and nothing is lost. Ends with `release`, with anything that interrupts, or by itself after 2 s. */
export const HoldRequest = Type.Object({ type: Type.Literal('hold'), id: Id }, { additionalProperties: false });
/** It was none: goes on exactly where it stopped. Without a hold in force it changes nothing. */
export const ReleaseRequest = Type.Object({ type: Type.Literal('release'), id: Id }, { additionalProperties: false });

const Media90k = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });

/**
 * Fences like a redirect: the story goes on from a frame at or before `media90k` of it, as another future; what was presented after that is no part of it any more.
 * Goes back at most to what was presented. `exact`: where only the latents are kept, the window is computed again from the nearest snapshot, so that it has the
 * same bits; else from the latents of the last chunks, which is quicker and looks the same.
 */
export const RewindRequest = Type.Object({ type: Type.Literal('rewind'), id: Id, media90k: Media90k, exact: Type.Optional(Type.Boolean()), ...Held }, { additionalProperties: false });

/** Another session that begins with the same past, up to `media90k` (where it is left out: up to what was presented). This one goes on undisturbed. Answered `accepted`, then `forked`. */
export const ForkRequest = Type.Object(
  {
    type: Type.Literal('fork'),
    id: Id,
    media90k: Type.Optional(Media90k),
    /** From an earlier `at_capacity` answer: keeps the place in the queue. */
    ticket: Type.Optional(Type.String({ minLength: 1, maxLength: 64 })),
  },
  { additionalProperties: false },
);

export const PauseRequest = Type.Object({ type: Type.Literal('pause'), id: Id }, { additionalProperties: false });
export const ResumeRequest = Type.Object({ type: Type.Literal('resume'), id: Id }, { additionalProperties: false });
/** Round trip on the channel; answered `accepted`. */
export const PingRequest = Type.Object({ type: Type.Literal('ping'), id: Id }, { additionalProperties: false });

/**
 * What is being typed, before it is sent: the server may work on it ahead, and tells what it would come to. No request: it changes nothing, has no
 * answer but `draft.preview`, and the newest takes the place of any before. Null drops it; a `redirect` with words, a `cut` or a `blend` ends it.
 */
export const DraftMessage = Type.Object(
  { type: Type.Literal('draft'), id: Id, prompt: Type.Union([Type.String({ maxLength: 1000 }), Type.Null()]), seamless: Type.Optional(Type.Boolean()) },
  { additionalProperties: false },
);

export const SessionRequest = Type.Union([InterruptRequest, HoldRequest, ReleaseRequest, RedirectRequest, CutRequest, BlendRequest, RewindRequest, ForkRequest, PauseRequest, ResumeRequest]);
export type SessionRequest = Static<typeof SessionRequest>;

export const ControlMessage = Type.Union([Hello, InterruptRequest, HoldRequest, ReleaseRequest, RedirectRequest, CutRequest, BlendRequest, RewindRequest, ForkRequest, PauseRequest, ResumeRequest, PingRequest, DraftMessage]);
export type ControlMessage = Static<typeof ControlMessage>;

/** Requests for another scene; a session shows one, so the newest of them counts. */
export type SceneRequest = Extract<SessionRequest, { readonly type: 'redirect' | 'cut' | 'blend' }>;

export function asksForScene(request: SessionRequest): request is SceneRequest {
  return request.type === 'redirect' || request.type === 'cut' || request.type === 'blend';
}

/** Requests that raise the epoch where they arrive. A `redirect` with `seamless` doesn't. */
export function fences(message: { readonly type: string; readonly seamless?: boolean | undefined }): boolean {
  return message.type === 'interrupt' || message.type === 'cut' || message.type === 'rewind' || (message.type === 'redirect' && message.seamless !== true);
}

// ---------------------------------------------------------------- client → server, `input` (unordered, no retransmit)

/** Full held state, every 50 ms and on change. Neutral after {@link INPUT_SILENCE_MS} of silence. */
export const ActionInput = Type.Object(
  {
    type: Type.Literal('action'),
    sequence: Type.Integer({ minimum: 0, maximum: 0x7fffffff }),
    steer: Type.Integer({ minimum: -1, maximum: 1 }),
    speed: Type.Integer({ minimum: 0, maximum: 3 }),
    leftPresses: Type.Integer({ minimum: 0, maximum: 0x7fffffff }),
    rightPresses: Type.Integer({ minimum: 0, maximum: 0x7fffffff }),
  },
  { additionalProperties: false },
);
export type ActionInput = Static<typeof ActionInput>;
export const INPUT_INTERVAL_MS = 50;
export const INPUT_SILENCE_MS = 250;

/** What was painted and played last; every 100 ms while media flows. */
export const PositionInput = Type.Object({ type: Type.Literal('position'), videoRtp: Type.Optional(Rtp), audioRtp: Type.Optional(Rtp) }, { additionalProperties: false });
export type PositionInput = Static<typeof PositionInput>;

/** Fencing requests are repeated here, so that a lost packet doesn't cost a retransmission time-out. */
export const InputMessage = Type.Union([ActionInput, PositionInput, InterruptRequest, RedirectRequest, CutRequest, RewindRequest]);
export type InputMessage = Static<typeof InputMessage>;

// ---------------------------------------------------------------- server → client, `control`

export const Ready = Type.Object({
  type: Type.Literal('ready'),
  re: Id,
  protocol: Type.Literal(PROTOCOL_VERSION),
  session: Type.String(),
  epoch: Type.Integer(),
  model: Type.String(),
  format: Type.Object({ width: Type.Integer(), height: Type.Integer(), framesPerSecond: Type.Number(), audioSampleRate: Type.Integer() }),
  framesPerChunk: Type.Integer(),
  vocabulary: Type.Array(Type.String()),
  /** Absent where the model has none. */
  adapters: Type.Optional(Type.Array(AdapterOffer)),
  /** The session makes anew what its driver's camera sends; until something comes, it shows nothing. */
  takesVideo: Type.Optional(Type.Literal(true)),
});

export const Accepted = Type.Object({
  type: Type.Literal('accepted'),
  re: Id,
  epoch: Type.Integer(),
  conditioningVersion: Type.Integer(),
  /** The position held, where the request fences; of a rewind, the one that it goes back to at most: `applied` tells the frame. Of a fork, the one that it is made at, at most. */
  held90k: Type.Optional(Type.Integer()),
  /** Of a rewind or fork: more was asked for than was presented. */
  clamped: Type.Optional(Type.Literal(true)),
  /** Of a redirect: what of its prompt has no effect. Absent where all of it has. */
  warnings: Type.Optional(Type.Array(PromptWarning)),
});

export const Applied = Type.Object({
  type: Type.Literal('applied'),
  re: Id,
  how: Type.Enum([...APPLIED_HOWS]),
  epoch: Type.Integer(),
  conditioningVersion: Type.Integer(),
  chunk: Type.Integer(),
  step: Type.Integer(),
  media90k: Type.Integer(),
  predictedMs: Type.Union([Type.Number(), Type.Null()]),
  elapsedMs: Type.Number(),
  warnings: Type.Array(PromptWarning),
  /** Of a redirect: the adapter that its media is made with. */
  adapter: Type.Optional(Type.Union([AdapterInForce, Type.Null()])),
});

/** Of a fork, in the place of `applied`: the session that begins there, and a token for it with the roles of whoever asked. */
export const Forked = Type.Object({ type: Type.Literal('forked'), re: Id, session: Type.String(), clientToken: Type.String(), expiresAt: Type.String(), media90k: Type.Integer() });

export const Superseded = Type.Object({ type: Type.Literal('superseded'), re: Id, by: Id });
export const RequestError = Type.Object({ type: Type.Literal('error'), re: Type.Optional(Id), error: ErrorBody });
/** The server drains: streams end within `deadlineMs`. */
export const Goaway = Type.Object({ type: Type.Literal('goaway'), deadlineMs: Type.Integer(), reason: Type.String() });
/** `code`: of the error that ended the session; absent where none did. */
export const Closed = Type.Object({ type: Type.Literal('closed'), reason: Type.String(), code: Type.Optional(Type.Unsafe<ErrorCode>(Type.String())) });
export const IdleWarning = Type.Object({ type: Type.Literal('idle'), closesInMs: Type.Integer() });
/** Four fifths of a limit are used up. At the limit the session ends with `budget_exhausted`. */
export const BudgetWarning = Type.Object({ type: Type.Literal('budget'), resource: Type.Enum([...RESOURCES]), used: Type.Number(), limit: Type.Number() });

/** Of the draft `re`: at once whether its words are understood, and once more with the model's plan where there was time to make one. */
export const DraftPreview = Type.Object({
  type: Type.Literal('draft.preview'),
  re: Id,
  understood: Type.Boolean(),
  /** What it would show, in the model's words; null while that isn't known. */
  plan: Type.Union([Type.String(), Type.Null()]),
  warnings: Type.Array(PromptWarning),
});

/** To whoever sends its camera over the WebSocket: the next frame must be a keyframe. */
export const KeyframeWanted = Type.Object({ type: Type.Literal('keyframe') });

export const ServerControlMessage = Type.Union([KeyframeWanted, Ready, Accepted, Applied, Forked, Superseded, RequestError, Goaway, Closed, IdleWarning, DraftPreview, BudgetWarning]);
export type ServerControlMessage = Static<typeof ServerControlMessage>;

// ---------------------------------------------------------------- server → client, `state`

/**
 * Sent by the media thread just before a frame whose epoch, conditioning version or action sequence differs from the frame before it,
 * and for every 12th frame besides. The client paints nothing between a fence and the first `rtp` of the new epoch.
 */
export const FrameNotice = Type.Object({
  type: Type.Literal('frame'),
  rtp: Rtp,
  audioRtp: Rtp,
  epoch: Type.Integer(),
  conditioningVersion: Type.Integer(),
  actionSequence: Type.Integer(),
  chunk: Type.Integer(),
  frameInChunk: Type.Integer(),
  step: Type.Integer(),
  media90k: Type.Integer(),
  origin: Type.Enum(['seed', 'generated']),
  /** `<checksum>@<scale>` of the adapter that it was made with, by id; absent without one. */
  adapterVersions: Type.Optional(Type.Record(Type.String(), Type.String())),
  /** Requests whose effect begins or ends with this frame, and all that it shows; absent where none begins or ends. */
  requests: Type.Optional(Type.Object({ started: Type.Array(Type.String()), active: Type.Array(Type.String()), completed: Type.Array(Type.String()) })),
  /** With the first frame of an epoch: the request that fenced for it. Whoever froze for that request may go on from here, whether it was answered yet or not. */
  re: Type.Optional(Id),
});
export type FrameNotice = Static<typeof FrameNotice>;

/** A blend is done: from this chunk on the picture is wholly of the new scene. Not an answer: `applied` was, with the first chunk of it. */
export const RequestCompleted = Type.Object({
  type: Type.Literal('request.completed'),
  re: Id,
  epoch: Type.Integer(),
  conditioningVersion: Type.Integer(),
  chunk: Type.Integer(),
  media90k: Type.Integer(),
});
export type RequestCompleted = Static<typeof RequestCompleted>;

/** Nobody said what a hold was to become: it was released. */
export const HoldExpired = Type.Object({ type: Type.Literal('hold.expired'), re: Id });
export type HoldExpired = Static<typeof HoldExpired>;

/** The story goes on from an earlier frame, told to everybody who watches: what was presented from `media90k` on is no part of it any more. */
export const StoryRewound = Type.Object({
  type: Type.Literal('session.rewound'),
  re: Id,
  epoch: Type.Integer(),
  media90k: Type.Integer(),
  /** What had been presented. */
  presented90k: Type.Integer(),
  /** Branch of the story that begins there; the first is 0. `segue replay --branch` shows the others. */
  branch: Type.Integer(),
});
export type StoryRewound = Static<typeof StoryRewound>;

/** A replay passes over what of its story is not kept: the picture goes on at `to90k`, in the epoch that follows. */
export const ReplayGap = Type.Object({ type: Type.Literal('replay.gap'), from90k: Type.Integer(), to90k: Type.Integer() });
export type ReplayGap = Static<typeof ReplayGap>;

/** The model's words: a delta goes on with what the same request has said so far, a complete text is whole. Who joins is told the last ones again. */
export const TextDelta = Type.Object({
  type: Type.Enum(['text.delta', 'text.complete']),
  stream: Type.Enum(['plan', 'narration']),
  text: Type.String(),
  re: Type.Optional(Id),
  /** This delta is all that was said so far, for who has just joined: it replaces what was shown, and goes on. */
  soFar: Type.Optional(Type.Literal(true)),
});
export type TextDelta = Static<typeof TextDelta>;

/**
 * Whose turn it is. `user`: `speaking` into a microphone that is listened to; `away` is nobody connected, or nobody who spoke, asked or pressed anything for 15 s.
 * `session`: `thinking` until what was asked for shows; `holding`: perhaps interrupted.
 */
export const Activity = Type.Object({
  type: Type.Literal('activity'),
  user: Type.Enum(['speaking', 'listening', 'away']),
  session: Type.Enum(['idle', 'thinking', 'generating', 'holding', 'interrupted', 'paused']),
});
export type Activity = Static<typeof Activity>;

export const StateUpdate = Type.Object({
  type: Type.Literal('session.updated'),
  state: Type.String(),
  epoch: Type.Integer(),
  conditioningVersion: Type.Integer(),
  sent90k: Type.Integer(),
  presented90k: Type.Integer(),
  committed90k: Type.Integer(),
  prompt: Type.Union([Type.String(), Type.Null()]),
  adapter: Type.Optional(Type.Union([AdapterInForce, Type.Null()])),
  /** What the session goes without because its device can't hold all deadlines; absent where nothing is. */
  degraded: Type.Optional(Degraded),
});
export type StateUpdate = Static<typeof StateUpdate>;

export const ServerStateMessage = Type.Union([FrameNotice, TextDelta, StateUpdate, RequestCompleted, HoldExpired, StoryRewound, ReplayGap, Activity]);
export type ServerStateMessage = Static<typeof ServerStateMessage>;
