import { Type, type Static } from 'typebox';

/** What a session uses up, and can be given a limit of. Keys of `usage` and of `limits` alike. */
export const RESOURCES = ['deviceMs', 'wallMs', 'sentBytes'] as const;
export type Resource = (typeof RESOURCES)[number];

/** Since the session began, over restarts of the server. */
export const SessionUsage = Type.Object({
  /** Device milliseconds of its units, those of drafts and of units whose result was void included. */
  deviceMs: Type.Number(),
  /** Milliseconds that it was open. */
  wallMs: Type.Number(),
  /** Bytes of RTP, or of pictures and sound by WebSocket, over all its connections. */
  sentBytes: Type.Number(),
  /** Pictures that were ready later than they were due. */
  lateFrames: Type.Integer(),
});
export type SessionUsage = Static<typeof SessionUsage>;

export const NO_USAGE: SessionUsage = { deviceMs: 0, wallMs: 0, sentBytes: 0, lateFrames: 0 };
