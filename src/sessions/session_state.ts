import type { SessionStateName } from '../protocol/rest.ts';

/** What can happen to a session, as far as its state is concerned. */
export type SessionTransition =
  /** Capacity was asked for. */
  | 'open'
  /** The engine has reserved it. */
  | 'opened'
  /** A first (or again a first) connection carries media. */
  | 'connected'
  | 'paused'
  | 'resumed'
  /** The last connection is gone. */
  | 'lost'
  /** Someone, or a time-out, ends it. */
  | 'close'
  /** Streams have ended and reservations are free. */
  | 'closed'
  | 'fail';

type Row = Partial<Record<SessionTransition, SessionStateName>>;

const TABLE: Readonly<Record<SessionStateName, Row>> = {
  created: { open: 'waiting', close: 'closing', fail: 'failed' },
  waiting: { opened: 'connecting', close: 'closing', fail: 'failed' },
  connecting: { connected: 'active', close: 'closing', fail: 'failed' },
  active: { paused: 'paused', lost: 'orphaned', close: 'closing', fail: 'failed' },
  paused: { resumed: 'active', lost: 'orphaned', close: 'closing', fail: 'failed' },
  // A session that was paused before it lost its connection is paused again by its owner after `connected`.
  orphaned: { connected: 'active', close: 'closing', fail: 'failed' },
  closing: { closed: 'closed', fail: 'failed' },
  closed: {},
  failed: {},
};

/**
 * The state that follows, or null where the transition has no meaning in this state (nothing changes then).
 *
 * @example
 * nextSessionState('active', 'lost'); // 'orphaned'
 * nextSessionState('closed', 'connected'); // null: nothing brings a closed session back
 */
export function nextSessionState(state: SessionStateName, transition: SessionTransition): SessionStateName | null {
  return TABLE[state][transition] ?? null;
}

/** No transition leads out. */
export function isFinal(state: SessionStateName): boolean {
  return state === 'closed' || state === 'failed';
}

/** Takes no more requests or connections. */
export function isEnding(state: SessionStateName): boolean {
  return state === 'closing' || isFinal(state);
}
