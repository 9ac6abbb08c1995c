/** What the server listens at: 16 bits, mono. */
const SAMPLE_RATE = 16_000;
/** 32 ms: what is judged at once. */
const FRAME_SAMPLES = 512;

/** Runs in the audio thread; posts frames of samples. */
const WORKLET = `registerProcessor('segue-voice', class extends AudioWorkletProcessor {
  constructor() { super(); this.frame = new Int16Array(${FRAME_SAMPLES}); this.filled = 0; }
  process([[samples]]) {
    for (const sample of samples ?? []) {
      this.frame[this.filled++] = Math.max(-1, Math.min(1, sample)) * 32767;
      if (this.filled === ${FRAME_SAMPLES}) { this.port.postMessage(this.frame.slice()); this.filled = 0; }
    }
    return true;
  }
});`;

/** A microphone on its way over the WebSocket, as samples. */
export class StreamVoice {
  readonly #context = new AudioContext({ sampleRate: SAMPLE_RATE });
  #closed = false;

  /** Rejects where the browser has no audio worklets. */
  static async open(track: MediaStreamTrack, send: (samples: Int16Array) => void): Promise<StreamVoice> {
    const voice = new StreamVoice();
    const url = URL.createObjectURL(new Blob([WORKLET], { type: 'text/javascript' }));
    try {
      await voice.#context.audioWorklet.addModule(url);
      const node = new AudioWorkletNode(voice.#context, 'segue-voice', { numberOfOutputs: 0 });
      node.port.onmessage = ({ data }: MessageEvent<Int16Array>) => {
        if (!voice.#closed) send(data);
      };
      voice.#context.createMediaStreamSource(new MediaStream([track])).connect(node);
      return voice;
    } catch (error) {
      await voice.close();
      throw error;
    } finally {
      URL.revokeObjectURL(url);
    }
  }

  /** Idempotent. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#context.close();
  }
}
