/** A place that sessions can be put on; loads are device milliseconds per second of media. */
export interface Place {
  readonly workerId: string;
  /** Taken by admitted sessions, as a share of the device. */
  readonly load: number;
  readonly usable: boolean;
}

/**
 * Chooses the worker of a new session: the least loaded that can be used. A session stays where it was placed, because its blocks
 * live there: moving one would mean computing its window anew.
 */
export class PlacementScheduler {
  /** Places in the order in which they should be tried; unusable ones left out. Pure. */
  rank<P extends Place>(places: readonly P[]): P[] {
    const usable = places.filter((place) => place.usable).map((place) => ({ place, load: place.load }));
    return usable.sort((a, b) => a.load - b.load || (a.place.workerId < b.place.workerId ? -1 : 1)).map(({ place }) => place);
  }
}
