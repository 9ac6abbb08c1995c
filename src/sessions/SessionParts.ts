import type { Logger } from '../observe/log.ts';
import { SegueError } from '../protocol/errors.ts';
import { NO_USAGE, type Resource } from '../protocol/session_usage.ts';
import type { SessionChannels } from '../streams/messages.ts';
import { SessionWords } from '../streams/session_words.ts';
import { EngineReservation } from './EngineReservation.ts';
import { IdleWatch } from './IdleWatch.ts';
import { SessionActivity } from './SessionActivity.ts';
import { ReplayGaps } from './ReplayGaps.ts';
import { createId } from './session_ids.ts';
import { PromptMemory } from './PromptMemory.ts';
import { createSessionChannels } from './session_channels.ts';
import type { SessionOptions } from './session_options.ts';
import { SessionBudget } from './SessionBudget.ts';
import { SessionConnections } from './SessionConnections.ts';
import { SessionConversation } from './SessionConversation.ts';
import { SessionEventLog } from './SessionEventLog.ts';
import { SessionFlow } from './SessionFlow.ts';
import type { SessionKeeper } from './SessionKeeper.ts';
import { SessionReport } from './SessionReport.ts';
import { SessionStatus } from './SessionStatus.ts';
import { SessionStory } from './SessionStory.ts';
import { StoryPosition } from './StoryPosition.ts';

/** What a session does about itself, when a part of it says so. */
export interface SessionEnds {
  /** Its state has changed. */
  moved(): void;
  close(reason: string): Promise<void>;
  fail(error: SegueError): Promise<void>;
  endWith(transition: 'close' | 'fail', error: SegueError): Promise<void>;
}

/** What a session is made of, and what each part needs of the others. */
export class SessionParts {
  readonly words = new SessionWords();
  readonly channels: SessionChannels;
  readonly position = new StoryPosition();
  readonly events: SessionEventLog;
  readonly memory: PromptMemory;
  readonly keeper: SessionKeeper | null;
  readonly status: SessionStatus;
  readonly connections: SessionConnections;
  readonly report: SessionReport;
  readonly reservation: EngineReservation;
  readonly flow: SessionFlow;
  readonly conversation: SessionConversation;
  readonly story: SessionStory;
  readonly idle: IdleWatch;
  readonly budget: SessionBudget;
  readonly activity: SessionActivity;
  readonly gaps: ReplayGaps;

  constructor(options: SessionOptions, session: SessionEnds) {
    const { id, card, clock, log, media, limits, archive, returning } = options;
    this.channels = createSessionChannels(this.words, card);
    // Committed is what survives: where the story is kept, that is what has reached the disk.
    const keeper = archive?.keeper(id, ({ media90k, branch }) => this.position.commit(media90k, branch)) ?? null;
    this.keeper = keeper;
    this.events = new SessionEventLog(clock, readerFailed(log), keeper && ((event, told) => keeper.event(event, told)));
    this.memory = new PromptMemory({
      turn: (ordinal, turn) => keeper?.turn(ordinal, turn),
      turns: (changes) => keeper?.turns(changes),
      condensed: (turn, { standsFor }) => this.events.append('memory.condensed', { turn, standsFor }),
    });
    if (returning !== null) {
      const { epoch, position90k, branch, events, turns, gone } = returning.from;
      this.words.restoreEpoch(epoch);
      this.position.restore(position90k, branch);
      this.events.restore(events);
      this.memory.restore(turns);
      if (gone !== null) this.memory.goBack(gone.from90k, gone.epoch);
      this.memory.rewind(position90k);
    }
    this.status = new SessionStatus(() => session.moved());
    this.connections = new SessionConnections({
      sessionId: id,
      media,
      clock,
      log,
      onPresence: () => {
        this.flow.presence(this.connections.present);
        this.activity.refresh();
      },
    });
    this.report = new SessionReport(options, {
      words: this.words,
      status: this.status,
      position: this.position,
      memory: this.memory,
      connections: this.connections,
      conditioningVersion: () => this.conversation.conditioningVersion,
      usage: () => this.budget.usage,
    });
    this.reservation = new EngineReservation({ ...options, channels: this.channels, onLost: (error) => void session.fail(error) });
    this.idle = new IdleWatch({
      clock,
      idleMs: limits.idleMs,
      warningMs: limits.idleWarningMs,
      action: () => this.words.action.sequence,
      warn: (closesInMs) => {
        this.connections.broadcast('control', { type: 'idle', closesInMs });
        this.events.append('session.idle', { closesInMs });
      },
      expire: () => void session.close(`idle for ${Math.round(limits.idleMs / 1000)} s`),
    });
    this.budget = new SessionBudget({
      clock,
      budget: limits.budget,
      used: returning?.from.usage ?? NO_USAGE,
      warn: (resource, used, limit) => {
        this.connections.broadcast('control', { type: 'budget', resource, used, limit });
        this.events.append('session.budget', { resource, used, limit, usage: this.budget.usage });
      },
      exhausted: (resource, limit) => void session.endWith('close', new SegueError('budget_exhausted', exhaustedMessage(resource, limit), { param: `limits.${resource}` })),
      note: (usage) => this.events.append('session.usage', { usage }),
    });
    this.flow = new SessionFlow({
      clock,
      status: this.status,
      orphanMs: limits.orphanMs,
      hold: (request) => this.reservation.hold(request, { epoch: this.words.epoch, conditioningVersion: this.conversation.conditioningVersion }),
      onJoined: () => this.idle.touch(),
      expire: (reason) => void session.close(reason),
    });
    this.activity = new SessionActivity({
      clock,
      present: () => this.connections.present,
      state: () => this.status.state,
      interrupted: () => this.flow.interrupted,
      action: () => this.words.action.sequence,
      tell: (activity) => {
        this.connections.broadcast('state', activity);
        this.events.append('activity', { user: activity.user, session: activity.session });
      },
    });
    this.conversation = new SessionConversation(options, {
      words: this.words,
      status: this.status,
      position: this.position,
      connections: this.connections,
      flow: this.flow,
      events: this.events,
      memory: this.memory,
      report: this.report,
      activity: this.activity,
      onActivity: () => {
        this.idle.touch();
        this.activity.sign();
      },
      keeper,
    });
    this.story = new SessionStory({ sessionId: id, engine: options.engine, archive, status: this.status, position: this.position, memory: this.memory, connections: this.connections, conversation: this.conversation, events: this.events, report: this.report });
    this.gaps = new ReplayGaps({
      clock,
      gaps: options.replay?.gaps ?? [],
      flows: () => this.status.state === 'active' && !this.flow.interrupted,
      tell: ({ from90k, to90k }) => {
        this.connections.broadcast('state', { type: 'replay.gap', from90k, to90k });
        this.events.append('replay.gap', { from90k, to90k });
      },
      goTo: async (media90k) => {
        const answer = await this.conversation.request({ type: 'rewind', id: createId('req'), media90k }, 'settled');
        if (answer.type === 'error') throw SegueError.from(answer.error);
      },
    });
    if (returning !== null) this.conversation.restore(returning.from);
  }
}

const BUDGET_NAMES: Readonly<Record<Resource, (limit: number) => string>> = {
  deviceMs: (limit) => `device time (${limit / 1000} s)`,
  wallMs: (limit) => `time (${limit / 1000} s)`,
  sentBytes: (limit) => `volume (${limit} bytes)`,
};

function exhaustedMessage(resource: Resource, limit: number): string {
  return `the session has used up its ${BUDGET_NAMES[resource](limit)}`;
}

/** Outside of the session: its events are kept when it has ended, and must not keep it. */
function readerFailed(log: Logger): (error: unknown) => void {
  return (error) => log.error({ err: error }, 'a reader of session events failed');
}
