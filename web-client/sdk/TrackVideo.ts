import type { Presenter } from './Presenter.ts';
import { Processor } from './track_processor.ts';

/** Of the WebCodecs metadata registry: the RTP timestamp of the encoded frame. */
type DescribedFrame = VideoFrame & { metadata(): { readonly rtpTimestamp?: number } };

/** Decoded frames as they leave the jitter buffer. The browser keeps one for a page that is busy, the newest. */
export class TrackVideo {
  readonly #reader: ReadableStreamDefaultReader<VideoFrame>;
  readonly #presenter: Presenter;
  readonly #unsuitable: () => void;
  #closed = false;

  /** Chromium; elsewhere frames of a track come to workers only, or without their RTP timestamps. */
  static get isSupported(): boolean {
    return Processor !== undefined && typeof VideoFrame !== 'undefined' && 'metadata' in VideoFrame.prototype;
  }

  /** `unsuitable`: the browser doesn't tell the frames' RTP timestamps after all; told once, and this source has closed itself. */
  constructor(track: MediaStreamTrack, presenter: Presenter, unsuitable: () => void) {
    if (Processor === undefined) throw new TypeError('this browser has no MediaStreamTrackProcessor');
    this.#reader = new Processor({ track }).readable.getReader();
    this.#presenter = presenter;
    this.#unsuitable = unsuitable;
    void this.#read();
  }

  /** Idempotent. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    // Rejects where the track has failed already, which is an end as well.
    this.#reader.cancel().catch(() => undefined);
  }

  async #read(): Promise<void> {
    try {
      for (;;) {
        const { value: frame, done } = await this.#reader.read();
        if (done) return;
        if (!this.#take(frame)) return;
      }
    } catch {
      if (!this.#closed) this.#giveUp();
    }
  }

  /** Returns whether to go on. */
  #take(frame: VideoFrame): boolean {
    const rtp = this.#closed ? undefined : (frame as DescribedFrame).metadata().rtpTimestamp;
    if (rtp === undefined) {
      frame.close();
      if (!this.#closed) this.#giveUp();
      return false;
    }
    this.#presenter.offer({ rtp, image: frame, width: frame.displayWidth, height: frame.displayHeight, release: () => frame.close() });
    return true;
  }

  #giveUp(): void {
    this.close();
    this.#unsuitable();
  }
}
