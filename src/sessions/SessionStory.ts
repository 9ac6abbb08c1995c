import { SegueError } from '../protocol/errors.ts';
import type { EngineToControl } from '../streams/messages.ts';
import type { PromptMemory } from './PromptMemory.ts';
import type { EnginePort } from './ports.ts';
import type { SessionArchive } from './SessionArchive.ts';
import type { SessionConnections } from './SessionConnections.ts';
import type { SessionConversation } from './SessionConversation.ts';
import type { SessionEventLog } from './SessionEventLog.ts';
import type { SessionReport } from './SessionReport.ts';
import type { SessionStatus } from './SessionStatus.ts';
import type { StoryPosition } from './StoryPosition.ts';

export interface SessionStoryParts {
  readonly sessionId: string;
  readonly engine: EnginePort;
  readonly archive: SessionArchive | null;
  readonly status: SessionStatus;
  readonly position: StoryPosition;
  readonly memory: PromptMemory;
  readonly connections: SessionConnections;
  readonly conversation: SessionConversation;
  readonly events: SessionEventLog;
  readonly report: SessionReport;
}

/** A session's story going back: what is read of it for the engine, and what the rest of the session makes of where it stands then. */
export class SessionStory {
  readonly #parts: SessionStoryParts;

  constructor(parts: SessionStoryParts) {
    this.#parts = parts;
  }

  /** The engine's question is always answered, while the session lives. */
  async read({ requestId, to90k, exact }: Extract<EngineToControl, { type: 'story.wanted' }>): Promise<void> {
    const { sessionId, engine, archive, status } = this.#parts;
    try {
      if (archive === null) throw new SegueError('not_kept', 'sessions are not kept on disk', { param: 'media90k' });
      const story = await archive.story(sessionId, to90k, exact);
      if (!status.ending) engine.send({ type: 'session.story', sessionId, requestId, story });
    } catch (error) {
      const fault = error instanceof SegueError ? error : new SegueError('internal', 'the story could not be read', { cause: error });
      if (!status.ending) engine.send({ type: 'session.story', sessionId, requestId, story: null, error: fault.toBody() });
    }
  }

  /** Everything that was shown after it is part of another branch. */
  onRewound({ requestId: re, epoch, media90k, presented90k, branch, whole90k }: Extract<EngineToControl, { type: 'session.rewound' }>): void {
    const { position, memory, connections, conversation, events, report } = this.#parts;
    position.returnTo(media90k, branch, whole90k);
    memory.goBack(media90k, epoch);
    const notice = { re, epoch, media90k, presented90k, branch };
    connections.broadcast('state', { type: 'session.rewound', ...notice });
    events.append('session.rewound', notice);
    conversation.sayAgain();
    report.tell();
  }
}
