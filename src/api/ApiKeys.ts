import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';

/** Keys of back ends. Only their hashes are kept, and comparing takes the same time whichever key is wrong where. */
export class ApiKeys {
  readonly #hashes: readonly Buffer[];

  /** @param keys at least one. */
  constructor(keys: readonly string[]) {
    if (keys.length === 0) throw new TypeError('at least one API key is needed');
    this.#hashes = keys.map(hash);
  }

  /** A new key, for a server that was given none. */
  static generate(): string {
    return `sk_${randomBytes(24).toString('base64url')}`;
  }

  matches(key: string): boolean {
    const presented = hash(key);
    let matched = false;
    for (const known of this.#hashes) matched = timingSafeEqual(known, presented) || matched;
    return matched;
  }
}

function hash(key: string): Buffer {
  return createHash('sha256').update(key, 'utf8').digest();
}
