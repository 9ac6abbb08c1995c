import { frameDuration90k, type MediaTime90k } from '../../streams/media_time.ts';
import type { ActionState, SessionWords } from '../../streams/session_words.ts';
import type { Conditioning } from '../model/loop_kernel.ts';
import type { RealtimeProgram } from '../programs/RealtimeProgram.ts';
import type { ActionLatch } from '../scheduler/ActionLatch.ts';
import type { BandwidthServer } from '../scheduler/BandwidthServer.ts';
import type { CostModel } from '../scheduler/CostModel.ts';
import type { PresentationTimeline } from '../scheduler/PresentationTimeline.ts';
import type { SessionStreams } from './SessionStreams.ts';
import type { Story } from './Story.ts';

/** Frames are made anew only where that is done so long before they are due: room for the way to the media thread and for what a prediction gets wrong. */
const RECALL_MARGIN_MS = 15;

export interface MediaRecallParts {
  readonly program: RealtimeProgram;
  readonly story: Story;
  readonly words: SessionWords;
  readonly timeline: PresentationTimeline;
  readonly reserve: BandwidthServer;
  readonly latch: ActionLatch;
  readonly streams: SessionStreams;
  readonly device: { readonly costs: CostModel; readonly busy: boolean };
}

export interface Recalled {
  readonly media90k: MediaTime90k;
  /** Frames that are made for the second time. */
  readonly frames: number;
  /** How long before its first frame was due. */
  readonly aheadMs: number;
  readonly makeMs: number;
}

/**
 * Takes back what was made but not sent, so that a change shows in the next frame that can still be made anew in time and not only in
 * the next chunk. Nothing fences: what has been claimed for sending stays, what comes follows it without a gap.
 */
export class MediaRecall {
  readonly #parts: MediaRecallParts;
  readonly #frame90k: number;
  /** Of the latest denoise step. */
  #madeUnder: Pick<Conditioning, 'steer' | 'speed'> | null = null;
  #until90k: MediaTime90k = 0;

  constructor(parts: MediaRecallParts) {
    this.#parts = parts;
    this.#frame90k = frameDuration90k(parts.program.format);
  }

  /** Frames before this are made for the second time, with little time left: how late they are says nothing of the look-ahead. */
  get until90k(): MediaTime90k {
    return this.#until90k;
  }

  /** A denoise step was committed. */
  madeUnder(conditioning: Conditioning): void {
    this.#madeUnder = conditioning;
  }

  /** The story has gone back further than any recall: how late its frames are counts again. */
  reset(): void {
    this.#until90k = 0;
  }

  /** Whether the newest media was made under other input than is held now. */
  isOutdated(held: ActionState): boolean {
    const { steer, speed } = this.#parts.latch.read(held);
    return this.#madeUnder !== null && (this.#madeUnder.steer !== steer || this.#madeUnder.speed !== speed);
  }

  /** Goes back to the first frame that nobody has claimed and that can be made anew before it is due. Null where there is none, or the session's reserve can't pay for it. */
  take(cause: 'action' | 'redirect', nowMs: number): Recalled | null {
    const { program, story, words, timeline, reserve, streams, device } = this.#parts;
    const predict = (component: string): number => device.costs.component(component);
    const marginMs = RECALL_MARGIN_MS + (device.busy ? device.costs.longest(program.demand.chunkComponents) : 0);
    for (const version of story.from(words.outgoing.claimed90k)) {
      const media90k = version.position90k;
      const dueMs = timeline.presentationMs(media90k);
      const makeMs = program.remakeMs(version, story.state, predict);
      if (dueMs === null || makeMs === null || dueMs - nowMs < makeMs + marginMs) continue;
      const { state } = story;
      // Nothing of it was made yet, or what is left of it is made under what is held then.
      if (media90k === state.position90k && (program.betweenChunks(state) || program.steerable(state))) return null;
      // What a redirect makes is charged as it is made, like all that is done for it: the reserve has just paid for its words, and may owe for its picture.
      if (reserve.available(nowMs) + (cause === 'redirect' ? reserve.budgetMs : 0) < makeMs) return null;
      const revision = words.outgoing.recall(media90k);
      if (revision === null) continue;
      if (cause === 'action') reserve.charge(nowMs, makeMs);
      this.#until90k = state.position90k;
      streams.recall(revision, media90k);
      story.replace(program.revised(story.rewindTo(media90k), state));
      return { media90k, frames: Math.round((state.position90k - media90k) / this.#frame90k), aheadMs: dueMs - nowMs, makeMs };
    }
    return null;
  }
}
