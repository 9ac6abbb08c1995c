import { AUDIO_CLOCK_HZ, rtpAdd, rtpAtOrAfter } from './rtp_time.ts';

/**
 * Samples that count as played for the browser but still sit in WebAudio's buffers: the sound opens this much after the first sample of the new epoch, so that none
 * of the old one is heard. 30 ms covers the source node's FIFO (two 10 ms packets) and one render quantum.
 */
const BUFFERED_RTP = (AUDIO_CLOCK_HZ * 30) / 1000;
const POLL_MS = 10;
/** Sound whose time is never told opens after this: nothing from before the fence is on its way any more. */
const OPEN_TIMEOUT_MS = 5_000;

/** Something that plays into the output and knows what it has played. */
export interface SoundSource {
  /** RTP timestamp of the newest sound played out, or null before the first. */
  playedRtp(): number | null;
  close(): void;
}

/**
 * The client's sound: sources → gate (open or shut, no ramp: what is shut must not be heard) → volume → destination.
 * The gate is shut in the same call in which a person interrupts, and opens again when the first sound of the new epoch is played out.
 */
export class SoundOutput {
  readonly context: AudioContext;
  readonly #gate: GainNode;
  readonly #volume: GainNode;
  readonly #ownsContext: boolean;
  #source: SoundSource | null = null;
  #poll: ReturnType<typeof setInterval> | null = null;
  #shut = false;

  /** `context`: one made in a user gesture by the page; without it the output makes and closes its own. */
  constructor(context?: AudioContext) {
    this.#ownsContext = context === undefined;
    this.context = context ?? new AudioContext({ latencyHint: 'interactive' });
    this.#gate = new GainNode(this.context, { gain: 1 });
    this.#volume = new GainNode(this.context, { gain: 1 });
    this.#gate.connect(this.#volume).connect(this.context.destination);
  }

  /** Where sources connect to. */
  get input(): AudioNode {
    return this.#gate;
  }

  /** What is heard: for meters and recorders. */
  get output(): AudioNode {
    return this.#volume;
  }

  get isShut(): boolean {
    return this.#shut;
  }

  setSource(source: SoundSource | null): void {
    this.#source?.close();
    this.#source = source;
  }

  /** Browsers start a context suspended until the page has had a user gesture. */
  async resume(): Promise<void> {
    if (this.context.state === 'suspended') await this.context.resume();
  }

  playedRtp(): number | null {
    return this.#source?.playedRtp() ?? null;
  }

  /** Silence from the next render quantum (2.7 ms at 48 kHz). Synchronous. */
  shut(): void {
    this.#stopPolling();
    this.#shut = true;
    this.#setGate(0);
  }

  /** Opens when sound at or after `rtp` is played out; at once if that is the case already. */
  openFrom(rtp: number): void {
    if (!this.#shut) return;
    this.#stopPolling();
    const from = rtpAdd(rtp, BUFFERED_RTP);
    const giveUpAt = performance.now() + OPEN_TIMEOUT_MS;
    const check = (): void => {
      const played = this.playedRtp();
      if ((played !== null && rtpAtOrAfter(played, from)) || performance.now() >= giveUpAt) this.open();
    };
    this.#poll = setInterval(check, POLL_MS);
    check();
  }

  open(): void {
    this.#stopPolling();
    this.#shut = false;
    this.#setGate(1);
  }

  /** 0 to 1. */
  setVolume(volume: number): void {
    this.#volume.gain.setTargetAtTime(Math.min(1, Math.max(0, volume)), this.context.currentTime, 0.015);
  }

  async close(): Promise<void> {
    this.#stopPolling();
    this.setSource(null);
    this.#gate.disconnect();
    this.#volume.disconnect();
    if (this.#ownsContext && this.context.state !== 'closed') await this.context.close();
  }

  #setGate(gain: 0 | 1): void {
    this.#gate.gain.cancelScheduledValues(0);
    this.#gate.gain.setValueAtTime(gain, this.context.currentTime);
  }

  #stopPolling(): void {
    if (this.#poll !== null) clearInterval(this.#poll);
    this.#poll = null;
  }
}
