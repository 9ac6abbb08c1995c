import type { Clock, Timer } from '../../observe/clock.ts';
import { SegueError } from '../../protocol/errors.ts';
import type { ControlToEngine, EngineRequest, EngineToControl } from '../../streams/messages.ts';
import type { ProgramState, RealtimeProgram } from '../programs/RealtimeProgram.ts';
import type { HaltedBy, SessionHalt } from './SessionHalt.ts';
import type { Story } from './Story.ts';
import type { StoryProgress } from './StoryProgress.ts';
import type { ChunkWrite, StoryRecorder } from './StoryRecorder.ts';
import type { ResumedStory } from './resume_story.ts';

export type RewindRequest = Extract<EngineRequest, { readonly request: 'rewind' }>;
export type DeliveredStory = Extract<ControlToEngine, { readonly type: 'session.story' }>;

export interface StoryRewindsParts {
  readonly sessionId: string;
  readonly program: RealtimeProgram;
  readonly story: Story;
  readonly progress: StoryProgress;
  readonly halt: SessionHalt;
  readonly recorder: StoryRecorder | null;
  readonly clock: Clock;
  /** A story that was kept, back with the executor. @throws {SegueError} */
  readonly resume: (story: NonNullable<DeliveredStory['story']>) => ResumedStory;
  /** The session's beginning, as it was opened. */
  readonly begin: () => ProgramState;
  readonly epoch: () => number;
  readonly toControl: (message: EngineToControl) => void;
  readonly applied: (requestId: string) => void;
  readonly failed: (requestId: string, error: SegueError) => void;
  readonly superseded: (requestId: string, by: string) => void;
  /** The story has gone back, or hasn't after all; what waited for that comes now, in order. */
  readonly settled: (waited: readonly EngineRequest[]) => void;
}

/** What waits for a story that is being read: more than a person can ask for in that time. What comes beyond is refused. */
const MAX_WAITING = 64;
/** Under the 5 s that a request has: whoever asked is told what the session does. */
const STORY_WATCHDOG_MS = 4_500;

interface Awaited {
  readonly request: RewindRequest;
  readonly was: HaltedBy;
  readonly seen: ChunkWrite | null;
  readonly watchdog: Timer;
}

/**
 * A session going back in its story: at once where the version is held in memory, else once its chunks have been read from where they are kept. While
 * they are, nothing steps, and whatever else is asked waits, so that it lands on the story that was gone back to however long that takes; another rewind takes its place.
 */
export class StoryRewinds {
  readonly #parts: StoryRewindsParts;
  #awaited: Awaited | null = null;
  #waiting: EngineRequest[] = [];
  #resumed: ResumedStory | null = null;

  constructor(parts: StoryRewindsParts) {
    this.#parts = parts;
  }

  /** @param request has been accepted. */
  begin(request: RewindRequest): void {
    const { program, story, progress, halt, recorder } = this.#parts;
    const seen = this.#seenChunk(request.presented90k);
    story.replace(program.withdraw(story.state));
    const was = halt.by;
    const version = story.at(request.to90k);
    halt.go();
    if (version !== null) return this.#goBackTo(version, request, seen);
    // Until it is known better, the story stands at what was seen.
    progress.backTo(request.presented90k);
    if (recorder === null) return this.#fail(request, was, new SegueError('not_kept', 'that moment is no longer in memory, and sessions are not kept on disk', { param: 'media90k' }));
    const { sessionId, clock, toControl } = this.#parts;
    halt.awaitStory(true);
    const watchdog = clock.schedule(clock.now() + STORY_WATCHDOG_MS, () => this.#settle(() => this.#fail(request, was, new SegueError('timed_out', 'what is kept of the story was not read in time'))));
    this.#awaited = { request, was, seen, watchdog };
    toControl({ type: 'story.wanted', sessionId, requestId: request.requestId, to90k: request.to90k, exact: request.exact });
  }

  /** Whether a request waits for the story that is being read: then it is taken care of. Another rewind doesn't wait. */
  takes(request: EngineRequest): boolean {
    const awaited = this.#awaited;
    if (awaited === null) return false;
    if (request.request === 'rewind') {
      this.#settle(() => {
        this.#parts.halt.restore(awaited.was);
        this.#parts.superseded(awaited.request.requestId, request.requestId);
      });
      return false;
    }
    if (this.#waiting.length < MAX_WAITING) this.#waiting.push(request);
    else if (request.request !== 'adopt') this.#parts.failed(request.requestId, new SegueError('rate_limited', `${MAX_WAITING} requests wait for a rewind`, { retryAfterMs: 1_000 }));
    return true;
  }

  /** What was read. Comes to nothing where nobody waits for it any more. */
  deliver({ requestId, story, error }: DeliveredStory): void {
    const awaited = this.#awaited;
    if (awaited?.request.requestId !== requestId) return;
    const { request, was, seen } = awaited;
    this.#settle(() => {
      if (error !== undefined) return this.#fail(request, was, SegueError.from(error));
      try {
        if (story === null) return this.#goBackTo(this.#parts.begin(), request, seen);
        this.#goOnFrom(story, request, seen);
      } catch (fault) {
        this.#fail(request, was, fault instanceof SegueError ? fault : new SegueError('internal', 'the story could not be gone back on', { cause: fault }));
      }
    });
  }

  /** A frame of the story has come: what was needed only to bring it back is given up. */
  flowing(): void {
    this.#resumed?.settle();
    this.#resumed = null;
  }

  /** Nobody waits any more. Returns what waited, unanswered; idempotent. */
  close(): readonly EngineRequest[] {
    this.#awaited?.watchdog.cancel();
    this.#awaited = null;
    this.flowing();
    return this.#waiting.splice(0);
  }

  #goOnFrom(story: NonNullable<DeliveredStory['story']>, request: RewindRequest, seen: ChunkWrite | null): void {
    const resumed = this.#parts.resume(story);
    try {
      if (request.exact && !resumed.exact) throw new SegueError('not_kept', 'no snapshot leads to that moment without a gap, or it was made on another machine: it can only be gone back to without `exact`', { param: 'exact' });
      this.#goBackTo(resumed.initial, request, seen);
      this.flowing();
      this.#resumed = resumed;
    } finally {
      resumed.held();
      if (this.#resumed !== resumed) resumed.settle();
    }
  }

  #goBackTo(version: ProgramState, { requestId, conditioningVersion, presented90k }: RewindRequest, seen: ChunkWrite | null): void {
    const { sessionId, program, story, progress, recorder, epoch, toControl, applied } = this.#parts;
    const state = program.returned(version, story.state, conditioningVersion);
    progress.returnTo(state);
    const { position90k: media90k, chunk, lineage } = state;
    const whole90k = recorder?.wholeUpTo(version) ?? media90k;
    if (seen !== null) recorder?.put(seen);
    const branch = recorder?.branchOff({ fromChunk: chunk, from90k: media90k, left90k: presented90k, requestId, epoch: epoch(), lineage }) ?? 0;
    toControl({ type: 'session.rewound', sessionId, requestId, epoch: epoch(), media90k, presented90k, whole90k, branch });
    applied(requestId);
  }

  #fail({ requestId }: RewindRequest, was: HaltedBy, error: SegueError): void {
    this.#parts.halt.restore(was);
    this.#parts.failed(requestId, error);
  }

  #settle(run: () => void): void {
    this.#awaited?.watchdog.cancel();
    this.#awaited = null;
    this.#parts.halt.awaitStory(false);
    run();
    this.#parts.settled(this.#waiting.splice(0));
  }

  /** What was seen of a chunk that isn't committed is part of no future: it is kept with what came before it, so that it can still be computed again. */
  #seenChunk(presented90k: number): ChunkWrite | null {
    const { story, program, recorder, epoch } = this.#parts;
    if (recorder === null) return null;
    const end = story.from(story.committed.position90k + 1).find((version) => program.keeping?.chunk(version) != null);
    if (end !== undefined && program.keeping!.chunk(end)!.start90k < presented90k) return recorder.copyOf(end, epoch());
    const last = story.at(presented90k);
    return last === null ? null : recorder.partOf(last, epoch());
  }
}
