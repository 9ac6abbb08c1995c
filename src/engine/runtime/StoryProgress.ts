import type { Clock } from '../../observe/clock.ts';
import type { EngineToControl, PresentedIn } from '../../streams/messages.ts';
import type { MediaTime90k } from '../../streams/media_time.ts';
import type { ProgramState, RealtimeProgram } from '../programs/RealtimeProgram.ts';
import type { PresentationTimeline } from '../scheduler/PresentationTimeline.ts';
import type { SessionTrace } from './SessionTrace.ts';
import type { Story } from './Story.ts';
import type { StoryRecorder } from './StoryRecorder.ts';

export interface StoryProgressParts {
  readonly sessionId: string;
  readonly program: RealtimeProgram;
  readonly story: Story;
  readonly timeline: PresentationTimeline;
  readonly recorder: StoryRecorder | null;
  readonly clock: Clock;
  readonly epoch: () => number;
  readonly toControl: (message: EngineToControl) => void;
  readonly trace: SessionTrace;
}

/** How far a session's story counts: seen, committed, gone back on. */
export class StoryProgress {
  readonly #parts: StoryProgressParts;

  constructor(parts: StoryProgressParts) {
    this.#parts = parts;
  }

  /** Seen up to there. */
  seen(media90k: MediaTime90k): void {
    this.#parts.story.seen(media90k);
    this.commit();
  }

  /** Nothing comes any more: what was seen is kept, also of a chunk that will not be whole. Never throws. */
  end(presented?: PresentedIn): void {
    const { story, recorder, epoch } = this.#parts;
    if (recorder === null) return;
    try {
      if (presented?.epoch === epoch()) this.seen(Math.min(presented.media90k, story.newest.position90k));
      const part = recorder.partOf(story.committed, epoch());
      if (part !== null) recorder.put(part);
    } catch {
      // The executor's memory is gone with it: what is on disk already stays.
    }
  }

  /** Back to what was seen: everything later is dropped, and the story goes on from there as another future. */
  backTo(presented90k: MediaTime90k): void {
    const { story, program, trace } = this.#parts;
    const version = story.rewindTo(story.clamp(presented90k));
    story.replace(program.rewound(version, story.state));
    this.reachedBy(version.position90k);
    trace.tell('session.rewound', { media90k: version.position90k });
  }

  /** Back to a state of the past, however far: all that came after it is no part of the story any more. */
  returnTo(state: ProgramState): void {
    const { story, trace } = this.#parts;
    story.goBackTo(state);
    this.reachedBy(state.position90k);
    trace.tell('session.rewound', { media90k: state.position90k });
  }

  /** A fence: seen up to there and no further; media goes on from there, on an anchor that is yet to come. */
  reachedBy(position90k: MediaTime90k): void {
    const { story, timeline, clock } = this.#parts;
    story.seenOnlyTo(position90k);
    timeline.detach(clock.now(), position90k);
    this.commit();
  }

  commit(): void {
    const { story, recorder, epoch, sessionId, toControl } = this.#parts;
    const committed = story.commit(recorder === null ? undefined : (version) => recorder.committed(version, epoch()));
    if (committed === null) return;
    toControl({ type: 'session.committed', sessionId, epoch: epoch(), media90k: committed.position90k, chunk: committed.chunk });
  }
}
