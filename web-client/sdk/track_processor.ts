/** W3C mediacapture-transform; TypeScript's DOM library doesn't have it yet. */
interface TrackProcessor {
  readonly readable: ReadableStream<VideoFrame>;
}
type TrackProcessorConstructor = new (init: { readonly track: MediaStreamTrack }) => TrackProcessor;

/** Undefined where a browser gives out no frames of a track, or to workers only. */
export const Processor = (globalThis as { MediaStreamTrackProcessor?: TrackProcessorConstructor }).MediaStreamTrackProcessor;
