import type { NativeCodecs, OpusDecoder } from '../native.ts';
import { FRAME_SAMPLES, SpeechMemory, VOICE_SAMPLE_RATE, type SpeechModel } from './SpeechModel.ts';
import type { VoiceCodec } from './voice_messages.ts';

/** One voice on its way to the model: packets in, a probability for every full frame out. */
export class SpeechStream {
  readonly #model: SpeechModel;
  readonly #codecs: NativeCodecs;
  readonly #memory = new SpeechMemory();
  readonly #frame = new Float32Array(FRAME_SAMPLES);
  #filled = 0;
  #decoder: OpusDecoder | null = null;

  constructor(model: SpeechModel, codecs: NativeCodecs) {
    this.#model = model;
    this.#codecs = codecs;
  }

  /** A packet that can't be decoded counts as lost, and is judged by what concealment makes of it. */
  async take(codec: VoiceCodec, data: Uint8Array): Promise<number[]> {
    const samples = codec === 'opus' ? this.#decode(data) : samplesOf(data);
    const probabilities: number[] = [];
    for (const sample of samples) {
      this.#frame[this.#filled++] = sample / 32_768;
      if (this.#filled < FRAME_SAMPLES) continue;
      this.#filled = 0;
      probabilities.push(await this.#model.judge(this.#memory, this.#frame));
    }
    return probabilities;
  }

  close(): void {
    this.#decoder?.close();
    this.#decoder = null;
  }

  #decode(packet: Uint8Array): Int16Array {
    // libopus resamples and mixes down by itself.
    this.#decoder ??= new this.#codecs.OpusDecoder({ sampleRate: VOICE_SAMPLE_RATE, channels: 1 });
    try {
      return this.#decoder.decode(packet);
    } catch {
      return this.#decoder.decode(null);
    }
  }
}

function samplesOf(data: Uint8Array): Int16Array {
  const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
  return Int16Array.from({ length: data.byteLength >> 1 }, (_, at) => view.getInt16(at * 2, true));
}
