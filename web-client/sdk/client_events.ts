import type { ClientError } from './ClientError.ts';
import type { Accepted, Activity, Applied, BudgetWarning, DraftPreview, Forked, Goaway, HoldExpired, IdleWarning, Ready, ReplayGap, RequestCompleted, SessionRequest, StateUpdate, StoryRewound, TextDelta } from './messages.ts';
import type { PaintedFrame } from './PaintedFrame.ts';
import type { RequestMeasure } from './RequestMeasures.ts';
import type { ClientStats } from './StatsSampler.ts';

export interface JoinOptions {
  /** Where the server is: `https://host/`, with any path prefix. */
  readonly baseUrl: string;
  readonly sessionId: string;
  readonly clientToken: string;
  /** Painted by the client; its bitmap takes the size of the picture. */
  readonly canvas: HTMLCanvasElement;
  /** `false` for a silent client; an AudioContext made in a user gesture where the browser asks for one. Default: one of its own. */
  readonly audio?: boolean | AudioContext;
  /** `webrtc` never falls back, `websocket` doesn't try WebRTC. Default `auto`: WebRTC, then WebSocket. */
  readonly transport?: 'auto' | 'webrtc' | 'websocket';
  readonly graceMs?: number;
  /** What a session that takes a video in is made of (`drive_transform`). The track stays the caller's. */
  readonly camera?: MediaStreamTrack;
}

/**
 * `connecting` → `live` ⇄ `redirecting` (frozen until the first new frame), `held` (interrupted), `holding` (perhaps interrupted: see
 * `SegueClient.hold`), `paused`; `reconnecting` after a lost connection; `closed` at the end.
 */
export type ClientState = 'connecting' | 'live' | 'redirecting' | 'held' | 'holding' | 'paused' | 'reconnecting' | 'closed';

export type ClientEvents = {
  /** The second argument says why, where there is a reason to tell. */
  state: [state: ClientState, reason: string | null];
  ready: [ready: Ready];
  /** A frame was painted. */
  frame: [frame: PaintedFrame];
  text: [text: TextDelta];
  accepted: [answer: Accepted];
  applied: [answer: Applied];
  /** A blend is done: the picture is wholly of the new scene. */
  completed: [notice: RequestCompleted];
  /** Nobody released the hold, and nothing was made of it: the server has released it. */
  holdExpired: [notice: HoldExpired];
  /** A fork of this client's was made. */
  forked: [answer: Forked];
  /** The story went back, by whoever drives: what was presented from there on is no part of it any more. */
  rewound: [notice: StoryRewound];
  /** A replay passes over what of its story is not kept. */
  gap: [gap: ReplayGap];
  /** A measure of a request has become known. */
  measure: [measure: RequestMeasure];
  /** Whose turn it is: who speaks, and what the session does about it. */
  activity: [activity: Activity];
  /** What the server says of the session. */
  session: [update: StateUpdate];
  /** A request failed (`request` tells which), or the client met trouble that it survives. */
  error: [error: ClientError, request: SessionRequest | null];
  /** What the newest draft would come to. */
  draft: [preview: DraftPreview];
  goaway: [notice: Goaway];
  idle: [warning: IdleWarning];
  /** Four fifths of what the session may use up of something are gone. */
  budget: [warning: BudgetWarning];
  stats: [stats: ClientStats];
  closed: [reason: string, error: ClientError | null];
};
