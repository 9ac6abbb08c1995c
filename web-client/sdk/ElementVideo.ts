import type { FrameImage, Presenter } from './Presenter.ts';

/** Pictures of a peer connection by a `<video>` that is never shown: its frame callbacks tell the RTP timestamp of what it holds. */
export class ElementVideo {
  readonly #receiver: RTCRtpReceiver;
  readonly #element: HTMLVideoElement;
  readonly #presenter: Presenter;
  #callback = 0;
  #closed = false;

  constructor(receiver: RTCRtpReceiver, presenter: Presenter) {
    this.#receiver = receiver;
    this.#presenter = presenter;
    this.#element = document.createElement('video');
    this.#element.muted = true;
    this.#element.playsInline = true;
    this.#element.srcObject = new MediaStream([receiver.track]);
    // Muted playback is always allowed; it fails only when close() comes first, which is no fault.
    this.#element.play().catch(() => undefined);
    this.#next();
  }

  /** Idempotent. */
  close(): void {
    this.#closed = true;
    this.#element.cancelVideoFrameCallback(this.#callback);
    this.#element.pause();
    this.#element.srcObject = null;
  }

  /** Pages that aren't a secure context have no VideoFrame; there a kept frame may turn out to be its successor. */
  #keep(shown: FrameImage): FrameImage {
    if (typeof VideoFrame === 'undefined') return shown;
    const frame = new VideoFrame(this.#element);
    return { rtp: shown.rtp, image: frame, width: shown.width, height: shown.height, release: () => frame.close() };
  }

  #next(): void {
    this.#callback = this.#element.requestVideoFrameCallback((_now, metadata) => {
      if (this.#closed) return;
      this.#next();
      // Firefox tells no rtpTimestamp here; its receiver knows that of the newest frame handed to the track.
      const rtp = metadata.rtpTimestamp ?? this.#receiver.getSynchronizationSources()[0]?.rtpTimestamp;
      if (rtp === undefined) return;
      const shown: FrameImage = { rtp, image: this.#element, width: metadata.width, height: metadata.height, keep: () => this.#keep(shown), release: () => undefined };
      this.#presenter.offer(shown);
    });
  }
}
