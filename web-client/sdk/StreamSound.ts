import type { SoundOutput, SoundSource } from './SoundOutput.ts';
import { AUDIO_CLOCK_HZ, rtpAdd } from './rtp_time.ts';
import type { MediaChunk } from './stream_framing.ts';

/** Play-out delay: covers the jitter of a TCP stream on a healthy network. */
const TARGET_DELAY_S = 0.08;
/** Past this the sound lags the picture audibly: it is cut back to the target. */
const MAX_DELAY_S = 0.3;

interface Scheduled {
  readonly node: AudioBufferSourceNode;
  readonly startsAt: number;
  readonly endsAt: number;
  readonly rtp: number;
}

/** Sound that comes over the WebSocket: Opus through WebCodecs, each packet scheduled behind the one before it. Bounded by {@link MAX_DELAY_S}. */
export class StreamSound implements SoundSource {
  readonly #output: SoundOutput;
  readonly #decoder: AudioDecoder;
  #scheduled: Scheduled[] = [];
  #nextAt = 0;
  #closed = false;

  constructor(output: SoundOutput, trouble: (error: Error) => void) {
    this.#output = output;
    this.#decoder = new AudioDecoder({
      output: (data) => this.#play(data),
      error: (error) => {
        this.close();
        trouble(error);
      },
    });
    this.#decoder.configure({ codec: 'opus', sampleRate: AUDIO_CLOCK_HZ, numberOfChannels: 1 });
  }

  decode(chunk: MediaChunk): void {
    if (this.#closed) return;
    // The decoder counts output timestamps on from the first by itself; each packet keeps its own, as key frames all.
    this.#decoder.decode(new EncodedAudioChunk({ type: 'key', timestamp: chunk.rtp, data: chunk.payload }));
  }

  playedRtp(): number | null {
    const now = this.#output.context.currentTime;
    while (this.#scheduled.length > 1 && this.#scheduled[1]!.startsAt <= now) this.#scheduled.shift();
    const current = this.#scheduled[0];
    if (!current || current.startsAt > now) return null;
    return rtpAdd(current.rtp, Math.round((Math.min(now, current.endsAt) - current.startsAt) * AUDIO_CLOCK_HZ));
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    if (this.#decoder.state !== 'closed') this.#decoder.close();
    for (const { node } of this.#scheduled) node.stop();
    this.#scheduled = [];
  }

  #play(data: AudioData): void {
    if (this.#closed) {
      data.close();
      return;
    }
    const { context } = this.#output;
    const samples = new Float32Array(data.numberOfFrames);
    data.copyTo(samples, { planeIndex: 0, format: 'f32-planar' });
    const rtp = data.timestamp % 2 ** 32;
    const buffer = context.createBuffer(1, data.numberOfFrames, data.sampleRate);
    data.close();
    buffer.copyToChannel(samples, 0);

    const now = context.currentTime;
    if (this.#nextAt < now) this.#nextAt = now + TARGET_DELAY_S;
    if (this.#nextAt > now + MAX_DELAY_S) {
      for (const { node, startsAt } of this.#scheduled) if (startsAt > now) node.stop();
      this.#scheduled = this.#scheduled.filter(({ startsAt }) => startsAt <= now);
      this.#nextAt = now + TARGET_DELAY_S;
    }
    const node = new AudioBufferSourceNode(context, { buffer });
    node.connect(this.#output.input);
    node.start(this.#nextAt);
    const endsAt = this.#nextAt + buffer.duration;
    this.#scheduled.push({ node, startsAt: this.#nextAt, endsAt, rtp });
    this.#nextAt = endsAt;
    // Forgets what has been played, also while nobody asks for the position.
    this.playedRtp();
  }
}
