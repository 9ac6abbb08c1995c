import type { Clock, Timer } from '../observe/clock.ts';
import type { MediaTime90k } from '../streams/media_time.ts';
import type { Outgoing } from '../streams/outgoing.ts';
import type { SessionWords } from '../streams/session_words.ts';
import type { OpusEncoder } from './native.ts';
import type { RtpClock } from './RtpClock.ts';
import { SoundTrack } from './SoundTrack.ts';
import { StampTone } from './stamp.ts';
import type { Timeline } from './Timeline.ts';
import type { FenceEpoch } from './FenceEpoch.ts';

export const PACKET_MS = 20;
/** After a stall, packets that are later than this are left out: a burst would only fill the jitter buffer. */
const MAX_CATCH_UP_MS = 100;

export interface LeavingSound {
  readonly data: Uint8Array;
  readonly rtp: number;
  /** Epoch of the sound in it; that of the word for silence. */
  readonly epoch: number;
  /** Media time of its first sample; null for silence. */
  readonly start90k: MediaTime90k | null;
  /** Its place on the steady tick. */
  readonly atMs: number;
}

/**
 * Sound on a steady 20 ms tick: every packet holds what the timeline says is heard from its tick on, or silence. The encoder is
 * synchronous, so that nothing comes between the cut and the sending.
 */
export class SoundPump {
  readonly #clock: Clock;
  readonly #rtp: RtpClock;
  readonly #fence: FenceEpoch;
  readonly #outgoing: Outgoing;
  readonly #timeline: Timeline;
  readonly #encoder: OpusEncoder;
  readonly #leave: (sound: LeavingSound) => void;
  readonly #track: SoundTrack;
  readonly #samples: Int16Array;
  readonly #sampleRate: number;
  #tick: number | null = null;
  #timer: Timer | null = null;
  #epoch: number;
  #closed = false;
  #ticksSkipped = 0;

  constructor(deps: {
    readonly clock: Clock;
    readonly rtp: RtpClock;
    readonly fence: FenceEpoch;
    readonly words: Pick<SessionWords, 'outgoing'>;
    readonly timeline: Timeline;
    readonly sampleRate: number;
    readonly encoder: OpusEncoder;
    readonly stamped: boolean;
    readonly leave: (sound: LeavingSound) => void;
  }) {
    this.#clock = deps.clock;
    this.#rtp = deps.rtp;
    this.#fence = deps.fence;
    this.#outgoing = deps.words.outgoing;
    this.#timeline = deps.timeline;
    this.#encoder = deps.encoder;
    this.#leave = deps.leave;
    this.#sampleRate = deps.sampleRate;
    this.#track = new SoundTrack(deps.sampleRate, deps.stamped ? new StampTone(deps.sampleRate) : null);
    this.#epoch = deps.fence.epoch;
    this.#samples = new Int16Array((deps.sampleRate * PACKET_MS) / 1000);
  }

  get ticksSkipped(): number {
    return this.#ticksSkipped;
  }

  get bufferedSamples(): number {
    return this.#track.bufferedSamples;
  }

  /** When the next packet leaves: sound is out up to here. Now, while nobody listens. */
  get nextPacketMs(): number {
    return this.#tick === null ? this.#clock.now() : this.#timeOf(this.#tick);
  }

  /** Copies the samples; sound of another epoch than the word's is dropped. */
  push(start90k: MediaTime90k, epoch: number, samples: Int16Array, revision: number): void {
    this.fence();
    if (this.#closed || epoch !== this.#epoch) return;
    this.recall();
    this.#track.add(start90k, epoch, samples, revision);
  }

  /** Drops what was recalled. Returns the revision that it looked at. */
  recall(): number {
    const latest = this.#outgoing.revision;
    this.#track.drop((revision, end90k) => this.#outgoing.isVoid(revision, end90k, latest));
    return latest;
  }

  /** Drops what is older than the session's word. */
  fence(): void {
    if (this.#epoch === this.#fence.epoch) return;
    this.#epoch = this.#fence.epoch;
    this.#track.fence(this.#epoch);
  }

  /** Ticks while anybody listens. */
  setHeard(heard: boolean): void {
    this.#timer?.cancel();
    this.#timer = null;
    if (!heard || this.#closed) return;
    this.#tick = Math.ceil((this.#clock.now() - this.#rtp.originMs) / PACKET_MS);
    this.#schedule();
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#timer?.cancel();
    this.#encoder.close();
  }

  #schedule(): void {
    this.#timer = this.#clock.schedule(this.#timeOf(this.#tick!), () => this.#due());
  }

  #timeOf(tick: number): number {
    return this.#rtp.originMs + tick * PACKET_MS;
  }

  #due(): void {
    const now = this.#clock.now();
    while (this.#timeOf(this.#tick!) <= now) {
      const atMs = this.#timeOf(this.#tick!);
      this.#tick = this.#tick! + 1;
      if (now - atMs > MAX_CATCH_UP_MS) this.#ticksSkipped++;
      else this.#send(atMs);
    }
    this.#schedule();
  }

  #send(atMs: number): void {
    this.fence();
    const window = this.#read(atMs);
    this.#leave({
      data: this.#encoder.encode(this.#samples),
      rtp: this.#rtp.audio(atMs),
      epoch: window.epoch ?? this.#epoch,
      start90k: window.start90k,
      atMs,
    });
  }

  #read(atMs: number): { epoch: number | null; start90k: MediaTime90k | null } {
    const { running, beginMs } = this.#timeline;
    if (!running || beginMs >= atMs + PACKET_MS) return this.#track.read(this.#samples, null);
    // The timeline begins within this packet: what is before its first media time was not meant to be heard now.
    const leadIn = beginMs > atMs ? Math.round(((beginMs - atMs) * this.#sampleRate) / 1000) : 0;
    const media90k = this.#timeline.mediaAt(Math.max(atMs, beginMs));
    this.#claim(media90k, leadIn);
    return this.#track.read(this.#samples, media90k, leadIn);
  }

  /** A packet takes whole frames out with it: their pictures follow, and can't be recalled any more. */
  #claim(media90k: MediaTime90k | null, leadIn: number): void {
    if (media90k === null) return;
    for (;;) {
      const revision = this.recall();
      const end90k = this.#track.reach(this.#samples.length - leadIn, media90k);
      if (end90k === null || this.#outgoing.claim(end90k, revision)) return;
    }
  }
}
