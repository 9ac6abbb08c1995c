import type { MediaTime90k } from './media_time.ts';

/** Recalls whose positions are remembered. Media of an older revision than that is void altogether. */
const RECALLS_KEPT = 8;
const REVISION_SHIFT = 44n;
const CLAIM_MASK = (1n << REVISION_SHIFT) - 1n;

/** Bytes of shared memory that it takes; 8-byte aligned. */
export const OUTGOING_BYTES = 8 + RECALLS_KEPT * 8;

/**
 * How far a session's media has gone out, and from where on it was recalled: one shared word decides between the media thread, which
 * *claims* a range before it encodes it, and the engine, which *recalls* what nobody has claimed yet in order to make it anew. Whatever
 * was claimed was seen by somebody and stays part of the story; whatever was recalled is never sent.
 *
 * Media of a revision is void where a later recall began before its end.
 */
export class Outgoing {
  /** Revision, and end of what has been claimed in 1/90,000 s. */
  readonly #word: BigInt64Array;
  /** Where the latest recalls begin, by revision. Written before the word, so that who sees a revision sees its position. */
  readonly #recalls: Float64Array;

  constructor(buffer: SharedArrayBuffer, byteOffset: number) {
    this.#word = new BigInt64Array(buffer, byteOffset, 1);
    this.#recalls = new Float64Array(buffer, byteOffset + 8, RECALLS_KEPT);
  }

  /** Rises with every recall; media carries the one it was made under. */
  get revision(): number {
    return Number(Atomics.load(this.#word, 0) >> REVISION_SHIFT);
  }

  /** End of what has been claimed since the last {@link restart}. */
  get claimed90k(): MediaTime90k {
    return Number(Atomics.load(this.#word, 0) & CLAIM_MASK);
  }

  /** Media thread only. Everything up to `end90k` goes out now; false where `revision` is no longer the latest: look again at what is void. */
  claim(end90k: MediaTime90k, revision: number): boolean {
    for (;;) {
      const word = Atomics.load(this.#word, 0);
      if (Number(word >> REVISION_SHIFT) !== revision) return false;
      const claimed = word & CLAIM_MASK;
      const wanted = BigInt(Math.ceil(end90k));
      if (wanted <= claimed) return true;
      if (Atomics.compareExchange(this.#word, 0, word, (word & ~CLAIM_MASK) | wanted) === word) return true;
    }
  }

  /** Media thread only. After a fence media time goes back: nothing of what follows has been claimed. */
  restart(): void {
    for (;;) {
      const word = Atomics.load(this.#word, 0);
      if (Atomics.compareExchange(this.#word, 0, word, word & ~CLAIM_MASK) === word) return;
    }
  }

  /**
   * Engine only. From `from90k` on nothing that was made so far goes out any more. Null where something later has been claimed already, and
   * nothing has changed; else the revision of what is made from here on.
   */
  recall(from90k: MediaTime90k): number | null {
    for (;;) {
      const word = Atomics.load(this.#word, 0);
      if (Number(word & CLAIM_MASK) > from90k) return null;
      const revision = Number(word >> REVISION_SHIFT) + 1;
      this.#recalls[revision % RECALLS_KEPT] = from90k;
      if (Atomics.compareExchange(this.#word, 0, word, (BigInt(revision) << REVISION_SHIFT) | (word & CLAIM_MASK)) === word) return revision;
    }
  }

  /** Whether media that was made under `revision` and ends at `end90k` was recalled, as of `latest`, the revision that the caller acts on. */
  isVoid(revision: number, end90k: MediaTime90k, latest: number): boolean {
    if (revision >= latest) return false;
    if (latest - revision >= RECALLS_KEPT) return true;
    for (let later = revision + 1; later <= latest; later++) if (this.#recalls[later % RECALLS_KEPT]! < end90k) return true;
    return false;
  }
}
