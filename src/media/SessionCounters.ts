import type { Sent } from './Peer.ts';

/** Counts of one session since it began; what it reports in `media.stats` is their sum over sessions. */
export class SessionCounters {
  framesSent = 0;
  framesRepeated = 0;
  keyFrames = 0;
  packetsSent = 0;
  bytesSent = 0;
  stalePackets = 0;
  fences = 0;
  messagesRefused = 0;
  #reportedBytes = 0;
  #lipSyncMaxMs = 0;
  #lateMaxMs = 0;
  #soundLateMs: number | null = null;

  sent({ packets, bytes }: Sent, stale: boolean): void {
    this.packetsSent += packets;
    this.bytesSent += bytes;
    if (stale) this.stalePackets += packets;
  }

  /** Bytes sent in all; null where they are as many as at the last call. */
  takeChangedBytes(): number | null {
    if (this.bytesSent === this.#reportedBytes) return null;
    this.#reportedBytes = this.bytesSent;
    return this.bytesSent;
  }

  pictureLeft(repeat: boolean, keyframe: boolean): void {
    if (repeat) this.framesRepeated++;
    else this.framesSent++;
    if (keyframe) this.keyFrames++;
  }

  soundLateMs(lateMs: number): void {
    this.#soundLateMs = lateMs;
  }

  /**
   * How long after its due time a picture left. Both clocks of RTP run on due times, so the skew between picture and sound at the
   * source is the difference of their latenesses.
   */
  pictureLateMs(lateMs: number): void {
    this.#lateMaxMs = Math.max(this.#lateMaxMs, lateMs);
    if (this.#soundLateMs !== null) this.#lipSyncMaxMs = Math.max(this.#lipSyncMaxMs, Math.abs(lateMs - this.#soundLateMs));
  }

  /** Largest values since the last call, milliseconds. */
  takeMaxima(): { readonly lipSyncMs: number; readonly lateMs: number } {
    const maxima = { lipSyncMs: this.#lipSyncMaxMs, lateMs: this.#lateMaxMs };
    this.#lipSyncMaxMs = 0;
    this.#lateMaxMs = 0;
    return maxima;
  }
}
