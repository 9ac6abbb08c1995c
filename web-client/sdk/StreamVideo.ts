import type { Presenter } from './Presenter.ts';
import { rtpDifference } from './rtp_time.ts';
import type { MediaChunk } from './stream_framing.ts';

/** Frames in the decoder past which the tab can't keep up: everything up to the next keyframe is dropped. */
const MAX_QUEUED_FRAMES = 12;

/** Pictures that come over the WebSocket: VP8 through WebCodecs. */
export class StreamVideo {
  readonly #presenter: Presenter;
  readonly #trouble: (error: Error) => void;
  #decoder: VideoDecoder;
  #needsKey = true;
  /** Timestamps of the decoder must not wrap: RTP time, unwrapped. */
  #unwrapped: number | null = null;
  #dropped = 0;
  #closed = false;

  constructor(presenter: Presenter, trouble: (error: Error) => void) {
    this.#presenter = presenter;
    this.#trouble = trouble;
    this.#decoder = this.#open();
  }

  get framesDropped(): number {
    return this.#dropped;
  }

  decode(chunk: MediaChunk): void {
    if (this.#closed) return;
    this.#unwrapped = this.#unwrapped === null ? chunk.rtp : this.#unwrapped + rtpDifference(chunk.rtp, this.#unwrapped >>> 0);
    if (this.#decoder.decodeQueueSize > MAX_QUEUED_FRAMES) this.#needsKey = true;
    if (this.#needsKey && !chunk.key) {
      this.#dropped += 1;
      return;
    }
    this.#needsKey = false;
    this.#decoder.decode(new EncodedVideoChunk({ type: chunk.key ? 'key' : 'delta', timestamp: this.#unwrapped, data: chunk.payload }));
  }

  close(): void {
    this.#closed = true;
    if (this.#decoder.state !== 'closed') this.#decoder.close();
  }

  #open(): VideoDecoder {
    const decoder = new VideoDecoder({
      output: (frame) => {
        if (this.#closed) {
          frame.close();
          return;
        }
        // `% 2 ** 32` and not `>>> 0`: after hours the unwrapped time has more than 32 bits.
        this.#presenter.offer({ rtp: frame.timestamp % 2 ** 32, image: frame, width: frame.displayWidth, height: frame.displayHeight, release: () => frame.close() });
      },
      error: (error) => {
        // An error closes the decoder for good; a new one goes on from the next keyframe.
        this.#needsKey = true;
        this.#trouble(error);
        if (!this.#closed) this.#decoder = this.#open();
      },
    });
    decoder.configure({ codec: 'vp8', optimizeForLatency: true });
    return decoder;
  }
}
