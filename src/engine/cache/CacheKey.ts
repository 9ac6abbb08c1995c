import { createHash } from 'node:crypto';

/**
 * What a cached result depends on. A structured value and not a string that callers glue together: a field that can change the output
 * belongs in here, and a lookup that leaves one out is a wrong result, not a slow one.
 */
export interface CacheKey {
  readonly modelId: string;
  readonly componentId: string;
  /** Null where the result is the same whichever loop asked. */
  readonly loopId: string | null;
  readonly weightsVersion: string;
  readonly adapterVersions: Readonly<Record<string, string>>;
  readonly precision: string;
  readonly parallelPlanHash: string;
  readonly shapeSignature: string;
  readonly layoutSignature: string;
  readonly schedulerSignature: string | null;
  readonly guidanceSignature: string | null;
  readonly seed: number | null;
  /** Hash of every input that was read, by name. */
  readonly inputHashes: Readonly<Record<string, string>>;
  readonly stepIndex: number | null;
  /** Version of the cache contract that producer and consumer trust: entries of another version are never found. */
  readonly cacheContractVersion: string;
}

/** One line per field in a fixed order, maps sorted by name, every string quoted: equal keys have equal encodings and no others have. */
export function encodeCacheKey(key: CacheKey): string {
  return FIELDS.map((field) => `${field}=${JSON.stringify(canonical(key[field]))}`).join('\n');
}

/** SHA-256 of the canonical encoding, hexadecimal. */
export function hashCacheKey(key: CacheKey): string {
  return createHash('sha256').update(encodeCacheKey(key)).digest('hex');
}

function canonical(value: CacheKey[keyof CacheKey]): unknown {
  if (value === null || typeof value !== 'object') return value;
  return Object.entries(value).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
}

const FIELDS = [
  'modelId',
  'componentId',
  'loopId',
  'weightsVersion',
  'adapterVersions',
  'precision',
  'parallelPlanHash',
  'shapeSignature',
  'layoutSignature',
  'schedulerSignature',
  'guidanceSignature',
  'seed',
  'inputHashes',
  'stepIndex',
  'cacheContractVersion',
] as const satisfies readonly (keyof CacheKey)[];

// A field added to CacheKey but not to FIELDS would silently be left out of the hash: this line doesn't compile then.
const _everyFieldEncoded: Exclude<keyof CacheKey, (typeof FIELDS)[number]> extends never ? true : never = true;
