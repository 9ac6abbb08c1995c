import type { MemoryTag } from '../model/work.ts';

/** Memory of a tag that sleeps was to be used. Whoever wants it wakes it first: nothing is woken by being used, because what it held is gone. */
export class MemoryAsleepError extends Error {
  override readonly name = 'MemoryAsleepError';
  readonly tag: MemoryTag;

  constructor(tag: MemoryTag, use: string) {
    super(`${use}: memory tagged ${tag} is asleep; wake it first`);
    this.tag = tag;
  }
}

/** A tag can't go to sleep while somebody's state lies in it. */
export class MemoryInUseError extends Error {
  override readonly name = 'MemoryInUseError';
  readonly tag: MemoryTag;
  /** Owners of accounts with blocks of the tag. */
  readonly owners: readonly string[];

  constructor(tag: MemoryTag, owners: readonly string[]) {
    super(`memory tagged ${tag} can't sleep: blocks of ${owners.join(', ')} lie in it`);
    this.tag = tag;
    this.owners = owners;
  }
}
