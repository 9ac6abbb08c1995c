import type { LoopTurn } from '../scheduler/LoopTurn.ts';
import type { WorkSource } from './WorkSource.ts';

/** Work without a frame is due this long after it began to wait: it fills slack, and starves for no longer than this. */
const SLACK_MS = 1000;

/** Not before this time, monotonic ms; `Infinity`: not before something else happens. */
export function turnReleaseMs(session: WorkSource, turn: LoopTurn): number {
  return turn.opensMedia && turn.leadsTo !== null ? session.timeline.releaseMs(turn.leadsTo) : -Infinity;
}

/** When the step of a turn should be finished, monotonic ms: a frame's time less what must still run before it, a reserve's promise, or the end of patience. */
export function turnDeadlineMs(session: WorkSource, turn: LoopTurn, nowMs: number): number {
  const { costs } = session.device;
  if (turn.restores === true && session.share !== undefined) return session.share.deadline(nowMs, nowMs, costs.component(turn.component));
  let deadlineMs: number;
  if (turn.leadsTo === null) {
    session.slackSinceMs ??= nowMs;
    deadlineMs = session.slackSinceMs + SLACK_MS;
  } else {
    deadlineMs = session.timeline.deadlineMs(turn.leadsTo);
    for (const component of turn.after) deadlineMs -= costs.component(component);
  }
  const since = session.boostedSinceMs;
  return turn.boosted && since !== null ? Math.min(deadlineMs, session.reserve.deadline(nowMs, since, costs.component(turn.component))) : deadlineMs;
}
