import { Processor } from './track_processor.ts';

/** Bits a second of a small picture; the model's own is smaller. */
const BITRATE = 400_000;
/** Frames in the encoder past which it can't keep up: newer ones are left out. */
const MAX_QUEUED_FRAMES = 2;
/** A keyframe comes by itself this often, so that whatever was lost doesn't last. */
const KEYFRAME_INTERVAL_FRAMES = 60;

/** A camera on its way over the WebSocket: VP8 through WebCodecs, frames straight from the track. */
export class StreamCamera {
  readonly #encoder: VideoEncoder;
  readonly #reader: ReadableStreamDefaultReader<VideoFrame>;
  #size: string | null = null;
  #sinceKey = Infinity;
  #closed = false;

  /** @param failed told once, when nothing more is sent. @throws {TypeError} where the browser gives out no frames. */
  constructor(track: MediaStreamTrack, send: (frame: Uint8Array, key: boolean) => void, failed: (error: Error) => void) {
    if (Processor === undefined || typeof VideoEncoder === 'undefined') throw new TypeError('this browser can’t send a camera over a WebSocket');
    this.#reader = new Processor({ track }).readable.getReader();
    this.#encoder = new VideoEncoder({
      output: (chunk) => {
        if (this.#closed) return;
        const data = new Uint8Array(chunk.byteLength);
        chunk.copyTo(data);
        send(data, chunk.type === 'key');
      },
      error: (error) => {
        void this.close();
        failed(error);
      },
    });
    void this.#run(failed);
  }

  keyframe(): void {
    this.#sinceKey = Infinity;
  }

  /** Idempotent. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#reader.cancel().catch(() => undefined); // a track that has ended
    if (this.#encoder.state !== 'closed') this.#encoder.close();
  }

  async #run(failed: (error: Error) => void): Promise<void> {
    try {
      for (;;) {
        const { value: frame, done } = await this.#reader.read();
        if (done || this.#closed) {
          frame?.close();
          return;
        }
        this.#encode(frame);
        frame.close();
      }
    } catch (error) {
      if (!this.#closed) failed(error instanceof Error ? error : new Error(String(error)));
    }
  }

  #encode(frame: VideoFrame): void {
    if (this.#encoder.encodeQueueSize >= MAX_QUEUED_FRAMES) return;
    const size = `${frame.displayWidth} ${frame.displayHeight}`;
    if (size !== this.#size) {
      this.#encoder.configure({ codec: 'vp8', width: frame.displayWidth, height: frame.displayHeight, bitrate: BITRATE, latencyMode: 'realtime' });
      this.#size = size;
      this.#sinceKey = Infinity;
    }
    const keyFrame = ++this.#sinceKey >= KEYFRAME_INTERVAL_FRAMES;
    if (keyFrame) this.#sinceKey = 0;
    this.#encoder.encode(frame, { keyFrame });
  }
}
