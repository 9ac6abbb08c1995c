/** A turn that could join, or would have to wait: what joining is decided on. */
export interface BatchCandidate {
  readonly deadlineMs: number;
}

export interface JoinQuestion {
  readonly nowMs: number;
  /** Leads the batch: the most urgent turn of all. */
  readonly first: BatchCandidate;
  /** Compatible turns, most urgent first. */
  readonly peers: readonly BatchCandidate[];
  /** Most urgent turn of every other component, and what it costs alone. */
  readonly waiting: readonly { readonly deadlineMs: number; readonly costMs: number }[];
  readonly maxBatch: number;
  /** Predicted milliseconds of a batch of that many units. */
  readonly costMs: (batch: number) => number;
}

/**
 * Joins compatible units. A unit can't be pre-empted, so a batch blocks everybody for its whole cost: it grows only while that is
 * cheaper than running its units one by one and makes nobody late who would have been in time.
 */
export class BatchScheduler {
  /** How many of `peers` join `first`: 0 … maxBatch − 1. Pure. */
  join({ nowMs, first, peers, waiting, maxBatch, costMs }: JoinQuestion): number {
    let joined = 0;
    for (const peer of peers) {
      const size = joined + 2;
      if (size > maxBatch) break;
      const before = costMs(size - 1);
      const after = costMs(size);
      if (after >= before + costMs(1)) break;
      const members = [first, ...peers.slice(0, joined)];
      const newlyLate = members.some(({ deadlineMs }) => nowMs + before <= deadlineMs && nowMs + after > deadlineMs);
      const delayed = waiting.some((other) => nowMs + before + other.costMs <= other.deadlineMs && nowMs + after + other.costMs > other.deadlineMs);
      const peerLate = nowMs + after > peer.deadlineMs && nowMs + before + costMs(1) <= peer.deadlineMs;
      if (newlyLate || delayed || peerLate) break;
      joined++;
    }
    return joined;
  }
}
