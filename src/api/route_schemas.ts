/** Schemas of the HTTP surface that are not part of the session protocol: paths, queries, envelopes, discovery. */
import { Type } from 'typebox';
import { ActionInput, BLEND_CHUNKS, Wish, WISHES_FOR_SOMETHING } from '../protocol/channel.ts';
import { ErrorBody } from '../protocol/errors.ts';
import { ROLES } from '../sessions/ports.ts';

const Id = Type.String({ minLength: 1, maxLength: 64 });
/** A request's id: the same again gets the same answer. Made by the server where it is left out. */
const RequestId = Type.Optional(Type.String({ minLength: 1, maxLength: 64, pattern: '^[A-Za-z0-9_.:-]+$' }));
const Rtp = Type.Optional(Type.Integer({ minimum: 0, maximum: 0xffffffff }));

export const ErrorEnvelope = Type.Object({ error: ErrorBody }, { description: 'Every error of every call.' });
export const ERROR_RESPONSES = { '4xx': ErrorEnvelope, '5xx': ErrorEnvelope } as const;

export const SessionPath = Type.Object({ id: Id });
export const TurnPath = Type.Object({ id: Id, turn: Type.Integer({ minimum: 0 }) });
/** Media time anywhere within the frame. */
export const FramePath = Type.Object({ id: Id, media90k: Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }) });
const Branch = Type.Optional(Type.Integer({ minimum: 0, maximum: 1_000_000_000, description: 'A future that was left, by its number. Default: the story in force.' }));
export const BranchQuery = Type.Object({ branch: Branch });
export const PictureQuery = Type.Object({ branch: Branch, width: Type.Optional(Type.Integer({ minimum: 16, maximum: 2_048, description: 'Pixels; the height follows. Default: as it was made.' })), format: Type.Optional(Type.Enum(['png', 'jpeg'], { description: 'Default png: every pixel as it was.' })) });
export const ConnectionPath = Type.Object({ id: Id, connectionId: Id });
export const WaitQuery = Type.Object({ wait: Type.Optional(Type.Enum(['accepted', 'applied'], { description: 'Answer when the request is accepted (default), or when it has its last answer.' })) });
export const EventsQuery = Type.Object({ token: Type.Optional(Type.String({ maxLength: 4096 })), since: Type.Optional(Type.Integer({ minimum: 0 })) });
export const TokenRequest = Type.Object({ roles: Type.Optional(Type.Array(Type.Enum([...ROLES]), { minItems: 1, maxItems: ROLES.length })) }, { additionalProperties: false });
export const TokenAnswer = Type.Object({ clientToken: Type.String(), expiresAt: Type.String() });

export const InterruptBody = Type.Object({ id: RequestId, heldVideoRtp: Rtp, heldAudioRtp: Rtp }, { additionalProperties: false });
export const RedirectBody = Type.Object({ id: RequestId, ...Wish, seamless: Type.Optional(Type.Boolean()), heldVideoRtp: Rtp, heldAudioRtp: Rtp }, { additionalProperties: false, ...WISHES_FOR_SOMETHING });
export const CutBody = Type.Object({ id: RequestId, prompt: Type.String({ minLength: 1, maxLength: 1000 }), heldVideoRtp: Rtp, heldAudioRtp: Rtp }, { additionalProperties: false });
export const BlendBody = Type.Object(
  { id: RequestId, prompt: Type.String({ minLength: 1, maxLength: 1000 }), chunks: Type.Optional(Type.Integer({ minimum: BLEND_CHUNKS.minimum, maximum: BLEND_CHUNKS.maximum, default: BLEND_CHUNKS.default })) },
  { additionalProperties: false },
);
const Media90k = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER });
export const RewindBody = Type.Object({ id: RequestId, media90k: Media90k, exact: Type.Optional(Type.Boolean()), heldVideoRtp: Rtp, heldAudioRtp: Rtp }, { additionalProperties: false });
export const ForkBody = Type.Object({ media90k: Type.Optional(Media90k), ticket: Type.Optional(Type.String({ minLength: 1, maxLength: 64 })) }, { additionalProperties: false });
export const FlowBody = Type.Object({ id: RequestId }, { additionalProperties: false });
export const InputBody = Type.Union([ActionInput, Type.Object({ type: Type.Literal('text'), id: RequestId, text: Type.String({ minLength: 1, maxLength: 1000 }), adapter: Wish.adapter, seamless: Type.Optional(Type.Boolean()) }, { additionalProperties: false })]);

export const FaultBody = Type.Object({ session: Id, fault: Type.Enum(['kernel_exception', 'runtime_error', 'executor_hang']) }, { additionalProperties: false });
export const BlockBody = Type.Object({ ms: Type.Integer({ minimum: 0, maximum: 5_000 }) }, { additionalProperties: false });
