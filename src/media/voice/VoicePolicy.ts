import type { Clock, Timer } from '../../observe/clock.ts';
import type { VoiceOptions } from '../../protocol/session_voice.ts';
import { HOLD_LIMIT_MS } from '../../streams/ProvisionalHold.ts';

/** Sound that one judgement is about. */
export const VOICE_FRAME_MS = 32;
/** Two frames: a click fills one. */
export const ONSET_MS = 2 * VOICE_FRAME_MS;
/** Speech goes on down to this much below the threshold that it began at. */
const HYSTERESIS = 0.15;
/** A hold that is still undecided is a false alarm. Before the hold's own limit, so that this policy knows what became of it. */
export const UNDECIDED_MS = HOLD_LIMIT_MS - 200;
/** After a false alarm nothing is held, so that whatever caused it can't make the picture stutter; long enough speech still interrupts. */
export const CALM_MS = 1000;
/** Nothing more comes from a speaker who spoke: muted, or the network. Twenty packets. */
export const STALLED_MS = 400;

export type VoiceAction = 'hold' | 'release' | 'interrupt' | 'resume';

/** What a message of somebody means for what a voice has begun. `other`: nothing. */
export type Asked = 'hold' | 'release' | 'stops' | 'flows' | 'draft' | 'other';

export interface VoicePolicyHost {
  readonly clock: Clock;
  readonly options: VoiceOptions;
  /** Whether there is anything to stop: `stopped` is paused, interrupted or watched by nobody, `held` on hold for whatever reason. */
  flow(): 'flows' | 'held' | 'stopped';
  act(action: VoiceAction): void;
  /** Somebody begins to speak, or nobody speaks any more. */
  speaking(speaking: boolean): void;
}

interface Speaker {
  speaking: boolean;
  speechMs: number;
  silenceMs: number;
  /** This speech has had its effect, or was overruled. */
  spent: boolean;
  heardMs: number;
  stalled: Timer | null;
}

/**
 * What voices do to a session. Speech that begins holds at once; `minSpeechMs` of it interrupt; less was a false alarm and is released, so that the stream goes on exactly where it stopped. An interruption that
 * no request follows is resumed. Whoever asks for something by another way overrules the voice until the next time somebody begins to speak.
 *
 * Durations of speech are counted in sound, not in time; waits run on the clock. No I/O.
 */
export class VoicePolicy {
  readonly #host: VoicePolicyHost;
  readonly #speakers = new Map<string, Speaker>();
  /** What a voice has done to the stream and nobody has overruled. */
  #stance: 'quiet' | 'held' | 'interrupted' = 'quiet';
  #calmUntilMs = -Infinity;
  #timer: Timer | null = null;
  #closed = false;

  constructor(host: VoicePolicyHost) {
    this.#host = host;
  }

  get speaking(): boolean {
    return [...this.#speakers.values()].some(({ speaking }) => speaking);
  }

  /** A packet of the speaker's has come, judged or not: a judge that is behind is no silence. */
  heard(speakerId: string): void {
    if (!this.#closed) this.#speaker(speakerId).heardMs = this.#host.clock.now();
  }

  /** @param probability of speech in the speaker's next frame, 0 … 1. */
  judged(speakerId: string, probability: number): void {
    if (this.#closed) return;
    const { threshold, minSpeechMs, releaseMs } = this.#host.options;
    const speaker = this.#speaker(speakerId);
    const speech = probability >= (speaker.speaking ? threshold - HYSTERESIS : threshold);
    speaker.silenceMs = speech ? 0 : speaker.silenceMs + VOICE_FRAME_MS;
    if (speech) speaker.speechMs += VOICE_FRAME_MS;
    else if (!speaker.speaking) speaker.speechMs = 0;
    if (!speaker.speaking && speaker.speechMs >= ONSET_MS) this.#begin(speaker, minSpeechMs <= speaker.speechMs);
    else if (speaker.speaking && speaker.silenceMs >= releaseMs) return this.#end(speaker);
    if (speaker.speaking && speaker.speechMs >= minSpeechMs) this.#confirm(speaker);
  }

  /** The speaker is gone, or muted. */
  left(speakerId: string): void {
    const speaker = this.#speakers.get(speakerId);
    if (speaker === undefined) return;
    this.#speakers.delete(speakerId);
    speaker.stalled?.cancel();
    this.#end(speaker);
  }

  /** Somebody asked for something by another way than their voice. */
  asked(asked: Asked): void {
    if (this.#closed || asked === 'other') return;
    if (asked === 'draft') {
      // Whoever types is about to say what comes next.
      if (this.#stance === 'interrupted' && !this.speaking) this.#awaitRequest();
      return;
    }
    const held = this.#stance === 'held';
    this.#settle('quiet');
    if (asked === 'hold') return;
    for (const speaker of this.#speakers.values()) speaker.spent = true;
    if (asked === 'flows' && held) this.#host.act('release');
  }

  /** Idempotent. */
  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
    for (const { stalled } of this.#speakers.values()) stalled?.cancel();
    this.#speakers.clear();
  }

  #speaker(id: string): Speaker {
    let speaker = this.#speakers.get(id);
    if (speaker === undefined) this.#speakers.set(id, (speaker = { speaking: false, speechMs: 0, silenceMs: 0, spent: false, heardMs: 0, stalled: null }));
    return speaker;
  }

  #begin(speaker: Speaker, confirmed: boolean): void {
    const { clock } = this.#host;
    const first = !this.speaking;
    speaker.speaking = true;
    speaker.spent = false;
    this.#watch(speaker);
    if (first) this.#host.speaking(true);
    if (this.#stance === 'interrupted') this.#timer?.cancel();
    if (confirmed || this.#stance !== 'quiet' || clock.now() < this.#calmUntilMs || this.#host.flow() !== 'flows') return;
    this.#settle('held', UNDECIDED_MS, () => this.#falseAlarm());
    this.#host.act('hold');
  }

  #confirm(speaker: Speaker): void {
    if (speaker.spent) return;
    speaker.spent = true;
    if (this.#stance === 'interrupted' || (this.#stance === 'quiet' && this.#host.flow() === 'stopped')) return;
    this.#settle('interrupted');
    this.#host.act('interrupt');
  }

  #end(speaker: Speaker): void {
    speaker.stalled?.cancel();
    speaker.speechMs = speaker.silenceMs = 0;
    if (!speaker.speaking || this.#closed) return;
    speaker.speaking = false;
    if (this.speaking) return;
    this.#host.speaking(false);
    if (this.#stance === 'held') this.#falseAlarm();
    else if (this.#stance === 'interrupted') this.#awaitRequest();
  }

  #falseAlarm(): void {
    this.#settle('quiet');
    this.#calmUntilMs = this.#host.clock.now() + CALM_MS;
    this.#host.act('release');
  }

  #awaitRequest(): void {
    const { resumeMs } = this.#host.options;
    if (resumeMs === null) return;
    this.#settle('interrupted', resumeMs, () => {
      this.#settle('quiet');
      this.#host.act('resume');
    });
  }

  #settle(stance: 'quiet' | 'held' | 'interrupted', ms: number | null = null, then: () => void = () => undefined): void {
    const { clock } = this.#host;
    this.#stance = stance;
    this.#timer?.cancel();
    this.#timer = ms === null ? null : clock.schedule(clock.now() + ms, then);
  }

  /** One timer, set anew only when it fires: frames only write a number. */
  #watch(speaker: Speaker): void {
    const { clock } = this.#host;
    speaker.stalled?.cancel();
    speaker.stalled = clock.schedule(speaker.heardMs + STALLED_MS, () => {
      if (!speaker.speaking) return;
      if (clock.now() - speaker.heardMs >= STALLED_MS) this.#end(speaker);
      else this.#watch(speaker);
    });
  }
}
