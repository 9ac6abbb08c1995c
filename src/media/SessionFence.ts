import type { Clock } from '../observe/clock.ts';
import type { HeldPosition } from '../streams/messages.ts';
import type { SessionWords } from '../streams/session_words.ts';
import type { FencingRequest } from './ChannelGate.ts';
import type { ClientPosition, PresentedTracker } from './PresentedTracker.ts';
import type { SessionCounters } from './SessionCounters.ts';
import type { SessionNotices } from './SessionNotices.ts';

export interface SessionFenceParts {
  readonly clock: Clock;
  readonly words: SessionWords;
  readonly presented: PresentedTracker;
  readonly counters: SessionCounters;
  readonly notices: SessionNotices;
  /** What is held of the epoch before goes. */
  readonly stopped: () => void;
}

/** Ids of requests that were acted on here and are remembered, per session. */
const IDS_KEPT = 1024;

/** The fence of a session where its media leaves: raises the epoch word, and stops what is of an older epoch, whoever raised it. */
export class SessionFence {
  readonly #parts: SessionFenceParts;
  /** Requests that fenced, held or released: the same id does so once. */
  readonly #actedIds = new Set<string>();

  constructor(parts: SessionFenceParts) {
    this.#parts = parts;
  }

  /** False for an id that was acted on before. */
  actsFor(id: string): boolean {
    if (this.#actedIds.has(id)) return false;
    this.#actedIds.add(id);
    if (this.#actedIds.size > IDS_KEPT) this.#actedIds.delete(this.#actedIds.values().next().value!);
    return true;
  }

  /** Raises the word before anyone is told. Returns the new epoch, and what was in front of the driver. */
  raise({ id, heldVideoRtp, heldAudioRtp }: FencingRequest): { readonly epoch: number; readonly held: HeldPosition } {
    const epoch = this.#parts.words.raiseEpoch();
    this.#parts.notices.fenced(epoch, id);
    return { epoch, held: this.#stop(epoch, { videoRtp: heldVideoRtp, audioRtp: heldAudioRtp }) };
  }

  /** Somebody else may have raised the word (a request that doesn't pass here): the same stop then. */
  observe(): void {
    const { words, presented } = this.#parts;
    const { epoch } = words;
    if (epoch !== presented.epoch) this.#stop(epoch, {});
  }

  #stop(epoch: number, held: ClientPosition): HeldPosition {
    const { presented, clock, counters, stopped } = this.#parts;
    const position = presented.fence(epoch, held, clock.now());
    counters.fences++;
    stopped();
    return position;
  }
}
