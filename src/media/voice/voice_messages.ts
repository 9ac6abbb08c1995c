/** Between the media thread and the voice thread. Streams are numbered by whoever opens them. */

export type VoiceCodec = 'opus' | 'pcm16';

export type ToVoice =
  /** One packet of Opus (any rate, RFC 6716), or samples: 16 bits, little endian, mono, 16 kHz. Answered by `judged`, always. */
  | { readonly type: 'packet'; readonly stream: number; readonly codec: VoiceCodec; readonly data: Uint8Array }
  | { readonly type: 'forget'; readonly stream: number }
  | { readonly type: 'end' };

export type FromVoice =
  /** The model is there: what has come meanwhile is judged now. */
  | { readonly type: 'ready' }
  /** A packet was taken; it completed so many frames of 32 ms, each with its probability of speech. */
  | { readonly type: 'judged'; readonly stream: number; readonly probabilities: readonly number[] }
  /** The model can't be loaded or run: nothing more is judged. */
  | { readonly type: 'failed'; readonly message: string };
