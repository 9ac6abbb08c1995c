/** Bounds on what a writer has sent to the storage thread and that is not on disk yet. */
export interface OutstandingBounds {
  /** Bytes of one session. */
  readonly sessionBytes: number;
  /** Bytes of all. */
  readonly totalBytes: number;
}

/** Ten minutes of a story's chunks, or a disk that stands still for a minute under what a server's sessions write. */
export const DEFAULT_BOUNDS: OutstandingBounds = { sessionBytes: 16 * 1024 * 1024, totalBytes: 128 * 1024 * 1024 };

interface Outstanding {
  readonly number: number;
  readonly owner: string;
  readonly bytes: number;
}

/**
 * The write-behind queue as its writer sees it: the bytes lie in the storage thread's inbox, the account of them here, where it can still be
 * decided not to send. Numbers rise by one per write; `stored` names the last on disk. What doesn't fit is refused and the caller says so to
 * whom it concerns; nothing that was taken is dropped.
 */
export class OutstandingWrites {
  readonly #bounds: OutstandingBounds;
  /** Oldest first. */
  readonly #writes: Outstanding[] = [];
  readonly #byOwner = new Map<string, number>();
  #head = 0;
  #bytes = 0;
  #number = 0;
  #stored = 0;

  constructor(bounds: OutstandingBounds = DEFAULT_BOUNDS) {
    this.#bounds = bounds;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** The last write that is on disk; 0 before the first. */
  get stored(): number {
    return this.#stored;
  }

  bytesOf(owner: string): number {
    return this.#byOwner.get(owner) ?? 0;
  }

  /** Whether less than half of the session's bound, and of the whole, is in use: where a writer that was refused begins again. */
  hasEased(owner: string): boolean {
    return this.bytesOf(owner) * 2 < this.#bounds.sessionBytes && this.#bytes * 2 < this.#bounds.totalBytes;
  }

  canTake(owner: string, bytes: number): boolean {
    return this.bytesOf(owner) + bytes <= this.#bounds.sessionBytes && this.#bytes + bytes <= this.#bounds.totalBytes;
  }

  /** The number of the write, to be sent with it; null where it doesn't fit: then it must not be sent. */
  take(owner: string, bytes: number): number | null {
    if (!this.canTake(owner, bytes)) return null;
    const number = ++this.#number;
    this.#writes.push({ number, owner, bytes });
    this.#byOwner.set(owner, this.bytesOf(owner) + bytes);
    this.#bytes += bytes;
    return number;
  }

  /** Everything up to `through` is on disk. */
  settle(through: number): void {
    this.#stored = Math.max(this.#stored, through);
    for (let next = this.#writes[this.#head]; next !== undefined && next.number <= through; next = this.#writes[++this.#head]) {
      const left = this.bytesOf(next.owner) - next.bytes;
      if (left > 0) this.#byOwner.set(next.owner, left);
      else this.#byOwner.delete(next.owner);
      this.#bytes -= next.bytes;
    }
    if (this.#head < 1024 && this.#head < this.#writes.length) return;
    this.#writes.splice(0, this.#head);
    this.#head = 0;
  }
}
