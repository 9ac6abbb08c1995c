import { ClientError } from './ClientError.ts';
import type { ConnectTo } from './connect.ts';
import type { ControlMessage, InputMessage } from './messages.ts';
import type { Presenter } from './Presenter.ts';
import type { SoundOutput } from './SoundOutput.ts';
import { readMediaChunk, readText, writeText, writeVideo, writeVoice } from './stream_framing.ts';
import { StreamCamera } from './StreamCamera.ts';
import { StreamSound } from './StreamSound.ts';
import { StreamVideo } from './StreamVideo.ts';
import { StreamVoice } from './StreamVoice.ts';
import type { Transport, TransportEvents, TransportStats } from './Transport.ts';

/** The server takes a normal close for a farewell, and any other for a lost connection whose session is worth keeping. */
const CLOSE_LEAVING = 1000;
const CLOSE_REPLACED = 4000;
const OPEN_TIMEOUT_MS = 5_000;
/** Input behind this much unsent is old by the time it would arrive. */
const MAX_INPUT_BUFFERED_BYTES = 16_384;
/** A second of a camera. */
const MAX_VIDEO_BUFFERED_BYTES = 65_536;

/** A session's connection over one WebSocket: the same messages, media as encoded frames. For networks that block UDP. */
export class StreamTransport implements Transport {
  readonly kind = 'websocket';
  readonly connectionId = null;
  readonly #socket: WebSocket;
  readonly #events: TransportEvents;
  readonly #video: StreamVideo;
  readonly #sound: StreamSound | null;
  #voice: StreamVoice | null = null;
  #camera: StreamCamera | null = null;
  #bytesReceived = 0;
  #opened = false;
  #closed = false;

  /** Throws ClientError: `network`, `timed_out`, or `unsupported_browser` without WebCodecs (also on pages that aren't a secure context). */
  static async open(url: string, { presenter, sound, camera, signal }: ConnectTo, events: TransportEvents): Promise<StreamTransport> {
    if (typeof VideoDecoder === 'undefined' || typeof AudioDecoder === 'undefined') throw new ClientError('unsupported_browser', 'WebCodecs is missing: the page must come over HTTPS or from localhost');
    const socket = new WebSocket(url);
    socket.binaryType = 'arraybuffer';
    const transport = new StreamTransport(socket, presenter, sound, events);
    try {
      await transport.#untilOpen(signal);
    } catch (error) {
      await transport.close();
      throw error;
    }
    if (transport.#sound) sound?.setSource(transport.#sound);
    if (camera !== null) transport.#send(camera);
    return transport;
  }

  private constructor(socket: WebSocket, presenter: Presenter, sound: SoundOutput | null, events: TransportEvents) {
    this.#socket = socket;
    this.#events = events;
    this.#video = new StreamVideo(presenter, (error) => events.trouble(error));
    this.#sound = sound ? new StreamSound(sound, (error) => events.trouble(error)) : null;
    socket.addEventListener('message', (event: MessageEvent<string | ArrayBuffer>) => this.#received(event.data));
    socket.addEventListener('close', (event) => this.#lost(event.reason || `the WebSocket closed (${event.code})`));
  }

  sendControl(message: ControlMessage): boolean {
    if (this.#socket.readyState !== WebSocket.OPEN) return false;
    this.#socket.send(writeText('control', message));
    return true;
  }

  sendInput(message: InputMessage): boolean {
    // Copies are for lost packets; a stream loses none, and `control` carries fencing requests already.
    if (message.type !== 'action' && message.type !== 'position') return true;
    if (this.#socket.readyState !== WebSocket.OPEN || this.#socket.bufferedAmount > MAX_INPUT_BUFFERED_BYTES) return false;
    this.#socket.send(writeText('input', message));
    return true;
  }

  async setMicrophone(track: MediaStreamTrack | null): Promise<void> {
    const before = this.#voice;
    this.#voice = null;
    await before?.close();
    if (track === null || this.#closed) return;
    const voice = await StreamVoice.open(track, (samples) => this.#sendVoice(samples));
    if (this.#closed || this.#voice !== null) await voice.close();
    else this.#voice = voice;
  }

  #send(camera: MediaStreamTrack): void {
    try {
      this.#camera = new StreamCamera(camera, (frame, key) => this.#sendVideo(frame, key), (error) => this.#events.trouble(error));
    } catch (error) {
      this.#events.trouble(new ClientError('unsupported_browser', error instanceof Error ? error.message : String(error), null, error));
    }
  }

  #sendVideo(frame: Uint8Array, key: boolean): void {
    if (this.#socket.readyState !== WebSocket.OPEN) return;
    // What waits is old by the time it arrives; the next one must not refer to it.
    if (this.#socket.bufferedAmount > MAX_VIDEO_BUFFERED_BYTES) this.#camera?.keyframe();
    else this.#socket.send(writeVideo(frame, key));
  }

  #sendVoice(samples: Int16Array): void {
    // What waits is too old to interrupt anything.
    if (this.#socket.readyState === WebSocket.OPEN && this.#socket.bufferedAmount <= MAX_INPUT_BUFFERED_BYTES) this.#socket.send(writeVoice(samples));
  }

  stats(): Promise<TransportStats> {
    return Promise.resolve({ bytesReceived: this.#bytesReceived, roundTripMs: null, jitterBufferMs: null, packetsLost: 0, framesDropped: this.#video.framesDropped });
  }

  async close(leaving = false): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#video.close();
    this.#sound?.close();
    void this.#voice?.close();
    void this.#camera?.close();
    this.#socket.close(leaving ? CLOSE_LEAVING : CLOSE_REPLACED);
  }

  #received(data: string | ArrayBuffer): void {
    if (this.#closed) return;
    this.#bytesReceived += typeof data === 'string' ? data.length : data.byteLength;
    try {
      if (typeof data === 'string') {
        const { message } = readText(data);
        if (message.type === 'keyframe') this.#camera?.keyframe();
        else this.#events.message(message);
        return;
      }
      const chunk = readMediaChunk(data);
      if (chunk.kind === 'video') this.#video.decode(chunk);
      else this.#sound?.decode(chunk);
    } catch (cause) {
      this.#events.trouble(new Error('unreadable frame on the WebSocket', { cause }));
    }
  }

  #untilOpen(signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const done = (error: ClientError | null): void => {
        clearTimeout(watchdog);
        signal.removeEventListener('abort', aborted);
        this.#opened = error === null;
        if (error) reject(error);
        else resolve();
      };
      const watchdog = setTimeout(() => done(new ClientError('timed_out', `the WebSocket did not open within ${OPEN_TIMEOUT_MS} ms`)), OPEN_TIMEOUT_MS);
      const aborted = (): void => done(new ClientError('closed', 'closed while connecting'));
      signal.addEventListener('abort', aborted);
      this.#socket.addEventListener('open', () => done(null), { once: true });
      this.#socket.addEventListener('close', (event) => done(new ClientError('network', event.reason || 'the WebSocket was refused')), { once: true });
    });
  }

  #lost(reason: string): void {
    if (this.#closed || !this.#opened) return;
    void this.close();
    this.#events.lost(reason);
  }
}
