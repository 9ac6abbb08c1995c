import { SegueError } from '../../protocol/errors.ts';
import type { MediaTime90k } from '../../streams/media_time.ts';
import type { ProgramState, StoryTape } from '../programs/RealtimeProgram.ts';
import type { ChunkReader } from './ChunkReader.ts';
import type { Story } from './Story.ts';

export interface TapeFeedParts {
  readonly tape: StoryTape<ProgramState>;
  readonly story: Story;
  readonly reader: ChunkReader;
  /** What may step has changed, and nobody else will look. */
  readonly fed: () => void;
  readonly failed: (error: SegueError) => void;
}

/** Sees to it that a session which plays a kept story has the next chunks of it at hand: one question at a time, for as many as it says. */
export class TapeFeed {
  readonly #parts: TapeFeedParts;
  #takeBack: (() => void) | null = null;

  constructor(parts: TapeFeedParts) {
    this.#parts = parts;
  }

  /** The state has changed: asks for what it wants now. */
  pull(): void {
    const { tape, story, reader, fed, failed } = this.#parts;
    const wanted = this.#takeBack === null ? tape.wants(story.state) : null;
    if (wanted === null) return;
    this.#takeBack = reader.read({ sessionId: tape.source(story.state), ...wanted }, (chunks) => {
      this.#takeBack = null;
      if (chunks === null) return failed(new SegueError('timed_out', 'the storage did not answer', { retryAfterMs: 1_000 }));
      story.replace(tape.feed(story.state, chunks));
      this.pull();
      fed();
    });
  }

  /** Goes on from another moment; what was asked for before is not wanted any more. Returns where. */
  seek(to90k: MediaTime90k, requestId: string): MediaTime90k {
    const { tape, story } = this.#parts;
    this.close();
    story.goBackTo(tape.seek(story.state, to90k, requestId));
    this.pull();
    return story.state.position90k;
  }

  /** Idempotent. */
  close(): void {
    this.#takeBack?.();
    this.#takeBack = null;
  }
}
