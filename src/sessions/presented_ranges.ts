import type { MediaTime90k } from '../streams/media_time.ts';
import type { Turn } from './memory_turn.ts';

interface Cut<T> {
  readonly turn: T;
  readonly from90k: MediaTime90k | null;
  readonly presented: Turn['presented'];
}

type Ranged = Pick<Turn, 'from90k' | 'presented' | 'imported'>;

/**
 * What of each turn has been presented, when all of the story up to `presented90k` has: from its first frame to the next turn's first frame, or to there.
 * Returns the turns whose range is another than before, newest first.
 */
export function presentThrough<T extends Ranged>(turns: readonly T[], presented90k: MediaTime90k): { readonly turn: T; readonly presented: Turn['presented'] }[] {
  const changed: { readonly turn: T; readonly presented: Turn['presented'] }[] = [];
  let end90k = presented90k;
  for (let index = turns.length - 1; index >= 0; index--) {
    const turn = turns[index]!;
    if (turn.imported || turn.from90k === null || turn.from90k >= end90k) continue;
    // What lies before a turn whose range has its end already was settled with it.
    if (turn.presented?.end90k === end90k) break;
    changed.push({ turn, presented: { start90k: turn.from90k, end90k } });
    end90k = turn.from90k;
  }
  return changed;
}

/** The story goes on from `to90k`: what came after is no part of it. Returns what is left of the turns that this concerns. */
export function cutBack<T extends Ranged>(turns: readonly T[], to90k: MediaTime90k): Cut<T>[] {
  return turns.flatMap((turn): Cut<T>[] => {
    const { from90k, presented, imported } = turn;
    if (imported || from90k === null) return [];
    // The opening's first frame is where every story begins.
    if (from90k >= to90k && from90k > 0) return [{ turn, from90k: null, presented: null }];
    if (presented === null || presented.end90k <= to90k) return [];
    return [{ turn, from90k, presented: to90k <= from90k ? null : { start90k: presented.start90k, end90k: to90k } }];
  });
}
