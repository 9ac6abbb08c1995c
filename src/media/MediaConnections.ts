import { BitrateControl } from './BitrateControl.ts';
import type { MediaConnection } from './media_session_deps.ts';
import type { MediaOptions } from './options.ts';
import type { Peer } from './Peer.ts';

export interface MediaConnectionsParts {
  readonly bitrate: MediaOptions['bitrate'];
  /** The picture is encoded once for all: at a rate that the slowest can take. */
  readonly tune: (bitsPerSecond: number) => void;
  /** Whether anybody is connected has changed. */
  readonly watched: (watched: boolean) => void;
}

/** Who a session's media goes to, and what all of them together can take. */
export class MediaConnections {
  readonly all = new Map<string, MediaConnection>();
  readonly #parts: MediaConnectionsParts;
  readonly #bitrate: BitrateControl;
  #watched = false;

  constructor(parts: MediaConnectionsParts) {
    this.#parts = parts;
    this.#bitrate = new BitrateControl(parts.bitrate);
  }

  get watched(): boolean {
    return this.#watched;
  }

  attach(peer: Peer, drives: boolean, speaks: boolean): void {
    this.all.set(peer.connectionId, { peer, drives, speaks });
  }

  estimated(connectionId: string, bitsPerSecond: number): void {
    this.#tune(this.#bitrate.estimated(connectionId, bitsPerSecond));
  }

  lost(connectionId: string, fraction: number): void {
    this.#tune(this.#bitrate.lost(connectionId, fraction));
  }

  gone(connectionId: string): void {
    this.all.delete(connectionId);
    this.#tune(this.#bitrate.remove(connectionId));
  }

  /** The state of one has changed. */
  refresh(): void {
    const watched = [...this.all.values()].some(({ peer }) => peer.state === 'connected');
    if (watched === this.#watched) return;
    this.#watched = watched;
    this.#parts.watched(watched);
  }

  #tune(bitsPerSecond: number | null): void {
    if (bitsPerSecond !== null) this.#parts.tune(bitsPerSecond);
  }
}
