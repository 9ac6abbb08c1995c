import type { InlineSink } from '../engine/programs/InlineNode.ts';
import { frameDuration90k, type MediaFormat } from '../streams/media_time.ts';
import type { DecodedFrame } from './nodes/chunk_items.ts';

/** Words as they are said. */
export const textSink: InlineSink<null> = {
  inputs: { words: { kind: 'stream', type: 'words' } },
  open: () => null,
  take: (state, { words }) => (words === undefined ? null : { state, taken: ['words'], event: { type: 'text.delta', ...(words.value as { text: string; complete: boolean }) } }),
};

export const logprobSink: InlineSink<null> = {
  inputs: { logprobs: { kind: 'stream', type: 'logprobs' } },
  open: () => null,
  take: (state, { logprobs }) => (logprobs === undefined ? null : { state, taken: ['logprobs'], event: { type: 'logprobs', values: logprobs.value as readonly number[] } }),
};

/** Joins the picture and the sound of a frame: neither leaves without the other, and frames leave in their order. */
export function mediaSink(format: MediaFormat): InlineSink<{ readonly frames: number }> {
  const frame90k = frameDuration90k(format);
  const samples = format.audioSampleRate / format.framesPerSecond;
  return {
    inputs: { pictures: { kind: 'stream', type: 'pictures' }, samples: { kind: 'stream', type: 'samples' } },
    open: () => ({ frames: 0 }),
    take: ({ frames }, { pictures, samples: sound }) => {
      if (pictures === undefined || sound === undefined) return null;
      const { chunk, frameInChunk, seeded, slot } = pictures.value as DecodedFrame;
      const event = {
        type: 'media.chunk',
        frame: frames,
        chunk,
        frameInChunk,
        start90k: frames * frame90k,
        end90k: (frames + 1) * frame90k,
        origin: seeded ? 'seed' : 'generated',
        videoSlot: slot,
        audioSlot: (sound.value as DecodedFrame).slot,
        samples,
      } as const;
      return { state: { frames: frames + 1 }, taken: ['pictures', 'samples'], event };
    },
  };
}
