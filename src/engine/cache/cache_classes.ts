import type { CachePolicy } from './CacheManager.ts';

/** Cache classes that a shipped loop uses; a class is added with the loop that needs it. */
export const CACHE_CLASSES = {
  /** Prompt → keys and values. The prompt never looks at the picture, so the same words give the same blocks in every session. */
  text_encoder_output: {
    cacheClass: 'text_encoder_output',
    contractVersion: '1',
    producers: ['encoder_chunk'],
    consumers: ['encoder_chunk'],
    eviction: 'least_recently_used',
    parity: 'exact',
  },
} as const satisfies Readonly<Record<string, CachePolicy>>;
