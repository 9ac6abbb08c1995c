import type { SegueClient } from '../sdk/index.ts';

/** How often the level is drawn. */
const LEVEL_MS = 60;
/** Loudness from which on the ring is full: speech close to a microphone. */
const FULL_RMS = 0.15;

/** The microphone button: off until it is pressed, asks then, shows how loud it is, and lets the device go when it is off. */
export class Microphone {
  readonly #button: HTMLButtonElement;
  readonly #failed: (reason: string) => void;
  #client: SegueClient | null = null;
  #stream: MediaStream | null = null;
  #meter: { readonly context: AudioContext; readonly timer: ReturnType<typeof setInterval> } | null = null;
  #asking = false;

  /** @param failed told why there is none, in words for a person. */
  constructor(button: HTMLButtonElement, failed: (reason: string) => void) {
    this.#button = button;
    this.#failed = failed;
    button.addEventListener('click', () => void this.toggle());
    // Without a secure context browsers have none to ask for.
    button.hidden = !('mediaDevices' in navigator);
  }

  /** The session that it is for; null: none any more. */
  follow(client: SegueClient | null): void {
    this.#client = client;
    if (client === null) this.#off();
  }

  async toggle(): Promise<void> {
    if (this.#asking || this.#client === null) return;
    if (this.#stream !== null) return this.#off();
    this.#asking = true;
    const client = this.#client;
    try {
      // Without the echo of the world's own sound, which must not interrupt it.
      const stream = await navigator.mediaDevices.getUserMedia({ audio: { echoCancellation: true, noiseSuppression: true, autoGainControl: true, channelCount: 1 } });
      if (this.#client !== client) return stop(stream);
      this.#stream = stream;
      const [track] = stream.getAudioTracks();
      track?.addEventListener('ended', () => this.#off());
      await client.setMicrophone(track ?? null);
      this.#show(true);
      this.#measure(stream);
    } catch (error) {
      this.#off();
      this.#failed(error instanceof DOMException && error.name === 'NotAllowedError' ? 'The browser was not allowed to use it.' : error instanceof Error ? error.message : String(error));
    } finally {
      this.#asking = false;
    }
  }

  #off(): void {
    if (this.#meter !== null) {
      clearInterval(this.#meter.timer);
      void this.#meter.context.close();
      this.#meter = null;
    }
    if (this.#stream !== null) stop(this.#stream);
    this.#stream = null;
    this.#client?.setMicrophone(null).catch(() => undefined); // a client that has closed
    this.#show(false);
  }

  #show(on: boolean): void {
    this.#button.ariaPressed = String(on);
    this.#button.ariaLabel = this.#button.title = on ? 'Turn the microphone off' : 'Interrupt by voice';
    this.#button.style.removeProperty('--level');
  }

  #measure(stream: MediaStream): void {
    const context = new AudioContext();
    const analyser = new AnalyserNode(context, { fftSize: 1024 });
    const samples = new Float32Array(analyser.fftSize);
    context.createMediaStreamSource(stream).connect(analyser);
    const timer = setInterval(() => {
      analyser.getFloatTimeDomainData(samples);
      const rms = Math.sqrt(samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length);
      this.#button.style.setProperty('--level', Math.min(1, rms / FULL_RMS).toFixed(2));
    }, LEVEL_MS);
    this.#meter = { context, timer };
  }
}

function stop(stream: MediaStream): void {
  for (const track of stream.getTracks()) track.stop();
}
