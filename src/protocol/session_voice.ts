import { Type, type Static } from 'typebox';

/** How a session takes the voices that come in over it. What is left out is as in {@link VOICE_DEFAULTS}. */
export const SessionVoice = Type.Object(
  {
    /** False: no voice is listened to, whatever is sent. */
    enabled: Type.Optional(Type.Boolean()),
    /** So much speech interrupts; less only holds. Shorter than the longest hold (2 s). */
    minSpeechMs: Type.Optional(Type.Integer({ minimum: 0, maximum: 1500 })),
    /** So much silence ends speech; a hold that became no interruption is released then. */
    releaseMs: Type.Optional(Type.Integer({ minimum: 100, maximum: 1500 })),
    /** After an interruption that nobody followed with a request, the stream goes on so long after the speech has ended; null: never by itself. */
    resumeMs: Type.Optional(Type.Union([Type.Null(), Type.Integer({ minimum: 250, maximum: 60_000 })])),
    /** Probability from which on sound is taken for speech. */
    threshold: Type.Optional(Type.Number({ minimum: 0.2, maximum: 0.95 })),
  },
  { additionalProperties: false, $id: 'SessionVoice' },
);
export type SessionVoice = Static<typeof SessionVoice>;

export interface VoiceOptions {
  readonly enabled: boolean;
  readonly minSpeechMs: number;
  readonly releaseMs: number;
  readonly resumeMs: number | null;
  readonly threshold: number;
}

/** `minSpeechMs` and `resumeMs` as in LiveKit's agents. `releaseMs` outlasts the pauses within a sentence (up to 130 ms in the clips of the tests). */
export const VOICE_DEFAULTS = { enabled: true, minSpeechMs: 500, releaseMs: 300, resumeMs: 2000, threshold: 0.5 } as const satisfies VoiceOptions;

export function voiceInForce(wish: SessionVoice = {}): VoiceOptions {
  return { ...VOICE_DEFAULTS, ...wish };
}
