/** What each `NoiseCounter.stream` is drawn for. Numbers are part of what a seed means: append, never renumber. */
export const NOISE_STREAMS = {
  /** The noise a chunk is denoised from; the same at each of its steps. */
  denoise: 0,
  /** What a finished chunk is noised with before its keys and values are written. */
  context: 1,
  /** Phases of the synthesiser's noise bands. */
  sound: 2,
} as const;
