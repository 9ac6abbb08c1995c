import type { KeptBranch } from '../streams/storage_messages.ts';

/** A stretch of a story that is of one branch: chunks from `from` to before `below`. */
export interface PathSegment {
  readonly branch: number;
  readonly from: number;
  readonly below: number;
}

/**
 * Where the chunks of a branch's story are: its own from where it leaves its parent, the parent's before that, and so on.
 * Oldest first; each chunk number is in one segment at most.
 *
 * @example
 * // 1 leaves 0 at chunk 10, 2 leaves 1 at chunk 4: nothing of 1 is part of 2.
 * storyPath(branches, 2); // [{ branch: 0, from: 0, below: 4 }, { branch: 2, from: 4, below: Infinity }]
 */
export function storyPath(branches: readonly Pick<KeptBranch, 'branch' | 'parent' | 'fromChunk'>[], branch: number): PathSegment[] {
  const segments: PathSegment[] = [];
  let below = Infinity;
  for (let at: number | null = branch; at !== null; ) {
    const known: Pick<KeptBranch, 'parent' | 'fromChunk'> | undefined = branches.find((candidate) => candidate.branch === at);
    const from = known?.fromChunk ?? 0;
    if (from < below) segments.unshift({ branch: at, from, below });
    below = Math.min(below, from);
    at = known?.parent ?? null;
  }
  return segments;
}

/** Segments with their chunks from `from` to `to`, both included; without those that have none. */
export function clipped(path: readonly PathSegment[], from: number, to: number): { readonly branch: number; readonly from: number; readonly to: number }[] {
  return path.map((segment) => ({ branch: segment.branch, from: Math.max(from, segment.from), to: Math.min(to, segment.below - 1) })).filter((segment) => segment.from <= segment.to);
}
