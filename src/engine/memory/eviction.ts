/**
 * What may be given up under pressure, by class, in the order in which it goes: drafts are made again while somebody types, the past only takes longer to go back
 * to. A live session's state is in no class: it is never given up for somebody else.
 */
export const EVICTION_ORDER = ['draft', 'past'] as const;
export type EvictionClass = (typeof EVICTION_ORDER)[number];

/** Somebody who can give memory up. */
export interface Evictable {
  /** Gives up all that it holds of its class; false where that is nothing. */
  yieldMemory(): boolean;
}

/**
 * Makes room: class after class, one holder after the other, and no further than it takes.
 *
 * @param holders of each class, who goes first first.
 * @param fits whether there is room now.
 * @returns how many gave something up.
 */
export function evict(holders: Readonly<Record<EvictionClass, Iterable<Evictable>>>, fits: () => boolean): number {
  let evicted = 0;
  for (const cls of EVICTION_ORDER) {
    for (const holder of holders[cls]) {
      if (fits()) return evicted;
      if (holder.yieldMemory()) evicted++;
    }
  }
  return evicted;
}
