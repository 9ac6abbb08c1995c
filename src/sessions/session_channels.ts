import type { EngineCard, SessionChannels } from '../streams/messages.ts';
import type { SessionWords } from '../streams/session_words.ts';
import { SharedPool } from '../streams/shared_pool.ts';

/** Raw pictures in flight per session: the chunk that is made, two that wait (the horizon), and room for those being encoded. */
const VIDEO_SLOTS_PER_CHUNK = 8;
const MIN_SLOTS = 24;

/** The memory that engine and media thread share for one session: its words, and the pools for RGB pictures and mono 16-bit samples of one frame each. */
export function createSessionChannels(words: SessionWords, { format, framesPerChunk }: Pick<EngineCard, 'format' | 'framesPerChunk'>): SessionChannels {
  const slots = Math.max(MIN_SLOTS, VIDEO_SLOTS_PER_CHUNK * framesPerChunk);
  const video = SharedPool.create(multipleOf8(format.width * format.height * 3), slots);
  const audio = SharedPool.create(multipleOf8(Math.ceil(format.audioSampleRate / format.framesPerSecond) * 2), slots);
  return { words: words.buffer, video: video.descriptor, audio: audio.descriptor };
}

function multipleOf8(bytes: number): number {
  return Math.ceil(bytes / 8) * 8;
}
