import type { SessionReader } from '../storage/SessionReader.ts';

/** Chunks without a gap that can be computed again, from the story's beginning or from a snapshot. */
export interface Stretch {
  readonly from: number;
  readonly to: number;
  /** Chunk at whose end the snapshot lies that it starts from; null: the story's beginning. */
  readonly snapshot: number | null;
}

/**
 * What of a kept story can be computed again. A story has gaps where the storage didn't follow, and no beginning where retention has cut it; after
 * either, it can be computed from the next snapshot on.
 * @param frameChunk only what leads to this chunk, from as near as possible. Empty: it isn't kept, or nothing leads to it.
 */
export function stretchesOf({ chunks, snapshots }: ReturnType<SessionReader['extent']>, frameChunk: number | null = null): Stretch[] {
  const starts = snapshots.map(({ chunk, data }) => ({ snapshot: chunk, from: (JSON.parse(data) as { next: number }).next }));
  const runs: { from: number; to: number }[] = [];
  for (const chunk of chunks) {
    const run = runs.at(-1);
    if (run?.to === chunk - 1) run.to = chunk;
    else runs.push({ from: chunk, to: chunk });
  }
  if (frameChunk !== null) {
    const run = runs.find(({ from, to }) => from <= frameChunk && frameChunk <= to);
    if (run === undefined) return [];
    const nearest = starts.findLast(({ from }) => from >= run.from && from <= frameChunk);
    if (nearest !== undefined) return [{ ...nearest, to: frameChunk }];
    return run.from === 0 ? [{ from: 0, to: frameChunk, snapshot: null }] : [];
  }
  return runs.flatMap(({ from, to }): Stretch[] => {
    if (from === 0) return [{ from, to, snapshot: null }];
    const first = starts.find((start) => start.from >= from && start.from <= to);
    return first === undefined ? [] : [{ ...first, to }];
  });
}
