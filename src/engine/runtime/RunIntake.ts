import type { Clock, Timer } from '../../observe/clock.ts';
import { SegueError } from '../../protocol/errors.ts';

export interface RunIntakeDependencies {
  readonly clock: Clock;
  /** Nothing coming for so long ends the run, ms. */
  readonly stallMs: number;
  /** Inputs that may be silent for longer: somebody else watches them. */
  readonly unwatched?: readonly string[];
  /** The next item of an input; null: there are no more. */
  readonly feed: (name: string, value: unknown) => void;
  readonly failed: (error: SegueError) => void;
}

type Source = AsyncIterator<unknown> | Iterator<unknown>;

/**
 * What comes into a run while it goes on. An input is asked for its next item only when the program has room for it, so whoever gives holds what
 * can't be taken yet: nothing is kept here, and nothing is dropped.
 */
export class RunIntake {
  readonly #deps: RunIntakeDependencies;
  readonly #sources = new Map<string, Source>();
  readonly #asked = new Map<string, Timer | null>();
  #closed = false;

  /** @throws {SegueError} `bad_request` for an input that can't be iterated. */
  constructor(inputs: Readonly<Record<string, unknown>>, names: readonly string[], deps: RunIntakeDependencies) {
    this.#deps = deps;
    for (const name of names) {
      const given = inputs[name] as Partial<AsyncIterable<unknown> & Iterable<unknown>> | null | undefined;
      const source = given?.[Symbol.asyncIterator]?.() ?? given?.[Symbol.iterator]?.();
      if (source === undefined) throw new SegueError('bad_request', `input ${name} is a stream: give something that can be iterated`, { param: name });
      this.#sources.set(name, source);
    }
  }

  /** Something was asked for and hasn't come yet. */
  get waiting(): boolean {
    return this.#asked.size > 0;
  }

  /** There is room for the next item of these. */
  pull(wanted: readonly string[]): void {
    for (const name of wanted) {
      const source = this.#sources.get(name);
      if (this.#closed || source === undefined || this.#asked.has(name)) continue;
      const { clock, stallMs, failed } = this.#deps;
      this.#asked.set(name, this.#deps.unwatched?.includes(name) === true ? null : clock.schedule(clock.now() + stallMs, () => failed(new SegueError('timed_out', `nothing came of input ${name} for ${stallMs} ms`, { param: name }))));
      void this.#next(name, source);
    }
  }

  /** Asks for nothing more, and tells the sources so. Idempotent. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    for (const timer of this.#asked.values()) timer?.cancel();
    this.#asked.clear();
    for (const source of this.#sources.values()) void ended(source);
    this.#sources.clear();
  }

  async #next(name: string, source: Source): Promise<void> {
    let result: IteratorResult<unknown>;
    try {
      result = await source.next();
    } catch (error) {
      if (!this.#closed) this.#deps.failed(new SegueError('bad_request', `input ${name} broke: ${error instanceof Error ? error.message : String(error)}`, { param: name, cause: error }));
      return;
    }
    if (this.#closed) return;
    this.#asked.get(name)?.cancel();
    this.#asked.delete(name);
    if (result.done === true) this.#sources.delete(name);
    this.#deps.feed(name, result.done === true ? null : result.value);
  }
}

/** A source that breaks while it is told to end has nobody left to tell. */
async function ended(source: Source): Promise<void> {
  await Promise.resolve(source.return?.()).catch(() => undefined);
}
