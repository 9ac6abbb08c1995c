/** A session as it was kept, read for opening it again. */
import { asksForScene, type SessionRequest } from '../protocol/channel.ts';
import type { NamedPlan } from '../protocol/named_plan.ts';
import { NO_USAGE, type SessionUsage } from '../protocol/session_usage.ts';
import type { VoiceOptions } from '../protocol/session_voice.ts';
import type { MediaTime90k } from '../streams/media_time.ts';
import type { KeptWorld } from '../streams/storage_messages.ts';
import type { NumberedTurn, Turn } from './memory_turn.ts';
import { MAX_OPEN, type LedgerEntry, type RequestAnswer, type RequestKind } from './RequestLedger.ts';
import type { Budget } from './SessionBudget.ts';
import type { SessionEvent } from './SessionEventLog.ts';

/** Options of a session that only the control side knows. */
export interface KeptOptions {
  readonly tenant: string;
  readonly stamp: boolean;
  readonly endsOnLeave: boolean;
  readonly idleMs: number;
  readonly orphanMs: number;
  /** What it may use up, where that has a limit. */
  readonly budget?: Partial<Budget>;
  /** What it began with, where a memory said it. */
  readonly plan?: NamedPlan;
  readonly voice?: VoiceOptions;
}

export interface ReturnedRequest {
  readonly entry: Pick<LedgerEntry, 'id' | 'kind' | 'epoch' | 'answers' | 'done'>;
  readonly body: SessionRequest;
  readonly conditioningVersion: number;
}

/** What a session that comes back starts from. */
export interface SessionReturn {
  readonly createdAt: string;
  readonly options: KeptOptions;
  /** As it was last written down: half a minute of it may be missing. */
  readonly usage: SessionUsage;
  readonly events: readonly SessionEvent[];
  readonly turns: readonly NumberedTurn[];
  readonly requests: readonly ReturnedRequest[];
  /** Higher than any that was in force: whoever still has media of an old one knows it for old. */
  readonly epoch: number;
  readonly conditioningVersion: number;
  /** Where the story goes on, and in which branch. */
  readonly position90k: MediaTime90k;
  readonly branch: number;
  /** The rewind that the story was last gone back by: turns of before it may not have been written down since. */
  readonly gone: { readonly from90k: MediaTime90k; readonly epoch: number } | null;
  /** The last rewind, and the last redirect, cut or blend after it, whose effect isn't part of what is kept: asked for again, in order and under their own ids. */
  readonly again: readonly ReturnedRequest[];
  /** How its driver had left it. */
  readonly flow: 'running' | 'paused' | 'interrupted';
}

/** Epochs that may have been raised and not been written down: no more than requests can be open. */
const EPOCH_GAP = MAX_OPEN;

/** @throws {SyntaxError} for what isn't JSON. */
export function readReturn({ session, events, requests, turns, branches, story }: KeptWorld): SessionReturn {
  const returned = requests.map(({ requestId, kind, body, epoch, conditioningVersion, answers, done }): ReturnedRequest => ({
    entry: { id: requestId, kind: kind as RequestKind, epoch, answers: JSON.parse(answers) as RequestAnswer[], done },
    body: JSON.parse(body) as SessionRequest,
    conditioningVersion,
  }));
  const position90k = story.chunks.at(-1)?.end90k ?? 0;
  const epochs = [...branches.map(({ epoch }) => epoch), ...story.chunks.map(({ epoch }) => epoch), ...requests.map(({ epoch }) => epoch)];
  // A hold ends with the process, and what was in force before it is again.
  const last = returned.findLast(({ body }) => body.type !== 'hold' && body.type !== 'release' && body.type !== 'fork')?.body.type;
  // What was asked for before a rewind was undone by it.
  const back = returned.findLastIndex((request) => request.body.type === 'rewind' && (isMade(request, branches) || isStanding(request)));
  const lostRewind = back >= 0 && !isMade(returned[back]!, branches) ? [returned[back]!] : [];
  const lostScene = returned.slice(back + 1).findLast((request) => isLost(request, lostRewind.length > 0 ? 0 : position90k));
  const again = [...lostRewind, ...(lostScene === undefined ? [] : [lostScene])];
  const gone = branches.find(({ branch }) => branch === story.branch) ?? null;
  return {
    createdAt: session.createdAt,
    options: JSON.parse(session.options) as KeptOptions,
    usage: usageOf(events),
    events: events.map(({ sequence, type, at, data }) => ({ sequence, type, at, atMs: 0, data: JSON.parse(data) as SessionEvent['data'] })),
    turns: turns.map(({ ordinal, turn }) => ({ ordinal, turn: JSON.parse(turn) as Turn })),
    requests: returned,
    epoch: Math.max(0, ...epochs) + EPOCH_GAP,
    conditioningVersion: Math.max(0, ...requests.map(({ conditioningVersion }) => conditioningVersion)),
    position90k,
    branch: story.branch ?? 0,
    gone: gone === null ? null : { from90k: gone.from90k, epoch: gone.epoch },
    again,
    flow: last === 'pause' ? 'paused' : last === 'interrupt' && again.length === 0 ? 'interrupted' : 'running',
  };
}

function usageOf(events: KeptWorld['events']): SessionUsage {
  for (const { data } of events.toReversed()) {
    const { usage } = JSON.parse(data) as { readonly usage?: SessionUsage };
    if (usage !== undefined) return usage;
  }
  return NO_USAGE;
}

function isMade({ entry }: ReturnedRequest, branches: KeptWorld['branches']): boolean {
  return branches.some(({ requestId }) => requestId === entry.id);
}

/** It was accepted, and neither failed nor gave way to another. */
function isStanding({ entry }: ReturnedRequest): boolean {
  return entry.answers.every(({ type }) => type === 'accepted' || type === 'applied');
}

/** A redirect, cut or blend that was accepted, and either never answered or shown only in media that is not kept. */
function isLost({ entry, body }: ReturnedRequest, position90k: MediaTime90k): boolean {
  if (!asksForScene(body)) return false;
  const answer = entry.answers.find(({ type }) => type !== 'accepted');
  return answer === undefined || (answer.type === 'applied' && answer.media90k >= position90k);
}
