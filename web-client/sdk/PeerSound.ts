import type { SoundOutput, SoundSource } from './SoundOutput.ts';

/** Sound of a peer connection. Chromium feeds WebAudio from a remote track only while a media element plays it, hence the muted one. */
export class PeerSound implements SoundSource {
  readonly #receiver: RTCRtpReceiver;
  readonly #element: HTMLAudioElement;
  readonly #node: MediaStreamAudioSourceNode;
  #played: number | null = null;

  constructor(receiver: RTCRtpReceiver, output: SoundOutput) {
    this.#receiver = receiver;
    const stream = new MediaStream([receiver.track]);
    this.#element = new Audio();
    this.#element.muted = true;
    this.#element.srcObject = stream;
    // Muted playback is always allowed; it fails only when close() comes first, which is no fault.
    this.#element.play().catch(() => undefined);
    this.#node = output.context.createMediaStreamSource(stream);
    this.#node.connect(output.input);
  }

  playedRtp(): number | null {
    const [source] = this.#receiver.getSynchronizationSources();
    if (source) this.#played = source.rtpTimestamp;
    return this.#played;
  }

  close(): void {
    this.#node.disconnect();
    this.#element.pause();
    this.#element.srcObject = null;
  }
}
