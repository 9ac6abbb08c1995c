import type { ProgramState } from '../programs/RealtimeProgram.ts';
import type { MediaTime90k } from '../../streams/media_time.ts';

/** Called when a version begins and ceases to be kept: counts references on its blocks. */
export interface VersionHolder<State> {
  retain(state: State): void;
  release(state: State): void;
}

/**
 * The states that a session can go back to: one per frame from the committed position to the newest, and the last ones before that, the past. Committing makes
 * past of what is older, rewinding drops what is newer. A version is a value, so keeping one copies nothing.
 */
export class VersionLedger<State extends ProgramState> {
  readonly #holder: VersionHolder<State>;
  /** Oldest first, positions strictly rising; never empty until cleared. */
  #versions: State[];
  /** Oldest first, before the committed one. */
  #past: State[] = [];
  readonly #pastLimit: number;

  /** @param pastLimit versions of the past that are kept at most; the oldest goes. */
  constructor(initial: State, holder: VersionHolder<State>, pastLimit = 0) {
    this.#holder = holder;
    this.#pastLimit = pastLimit;
    this.#versions = [initial];
    holder.retain(initial);
  }

  get committed(): State {
    return this.#versions[0]!;
  }

  get newest(): State {
    return this.#versions.at(-1)!;
  }

  get size(): number {
    return this.#versions.length;
  }

  /** What was committed before the committed version, oldest first. */
  get past(): readonly State[] {
    return this.#past;
  }

  /** The newest version at or before a position, also of the past; null where the position lies before all that is kept. */
  at(position90k: MediaTime90k): State | null {
    const before = ({ position90k: at }: State): boolean => at <= position90k;
    return this.#versions.findLast(before) ?? this.#past.findLast(before) ?? null;
  }

  /** Versions from a position on, oldest first. */
  from(position90k: MediaTime90k): readonly State[] {
    return this.#versions.filter((version) => version.position90k >= position90k);
  }

  /** The oldest version at or after a position, also of the past: the first that shows the frame which ends there. Undefined where nothing reaches so far. */
  reaching(position90k: MediaTime90k): State | undefined {
    const after = ({ position90k: at }: State): boolean => at >= position90k;
    return this.#past.find(after) ?? this.#versions.find(after);
  }

  /** Keeps a version; one of the same position gives way to it. @throws {RangeError} for a position before the newest. */
  keep(version: State): void {
    const newest = this.newest;
    if (version.position90k < newest.position90k) throw new RangeError(`version at ${version.position90k} comes after one at ${newest.position90k}`);
    this.#holder.retain(version);
    if (version.position90k === newest.position90k) {
      this.#versions.pop();
      this.#holder.release(newest);
    }
    this.#versions.push(version);
  }

  /** The newest version at or before a position, everything later dropped; the committed one where the position lies before it. */
  rewindTo(position90k: MediaTime90k): State {
    while (this.#versions.length > 1 && this.newest.position90k > position90k) this.#holder.release(this.#versions.pop()!);
    return this.newest;
  }

  /**
   * Drops every version that lies before the newest one at or before a position. True where the committed version moved.
   * @param passed told of each version that is committed by it, in order, while it is kept.
   */
  commitTo(position90k: MediaTime90k, passed: (version: State) => void = () => undefined): boolean {
    let moved = false;
    while (this.#versions.length > 1 && this.#versions[1]!.position90k <= position90k) {
      this.#past.push(this.#versions.shift()!);
      if (this.#past.length > this.#pastLimit) this.forget();
      passed(this.committed);
      moved = true;
    }
    return moved;
  }

  /** One version, in the place of all. */
  beginAgain(initial: State): void {
    this.#holder.retain(initial);
    this.clear();
    this.#versions = [initial];
  }

  /** Goes on from a state in the place of all that is later, or of its position: it is the committed one from here on. */
  goBackTo(state: State): void {
    this.#holder.retain(state);
    for (const version of this.#versions) this.#holder.release(version);
    while (this.#past.length > 0 && this.#past.at(-1)!.position90k >= state.position90k) this.#holder.release(this.#past.pop()!);
    this.#versions = [state];
  }

  /** Lets go of the oldest version of the past; false where there is none. */
  forget(): boolean {
    const oldest = this.#past.shift();
    if (oldest !== undefined) this.#holder.release(oldest);
    return oldest !== undefined;
  }

  /** Lets go of everything. */
  clear(): void {
    for (const version of [...this.#past, ...this.#versions]) this.#holder.release(version);
    this.#past = [];
    this.#versions = [];
  }
}
