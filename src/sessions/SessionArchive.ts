import type { Clock, Timer } from '../observe/clock.ts';
import type { Logger } from '../observe/log.ts';
import { SegueError } from '../protocol/errors.ts';
import type { KeptRange } from '../streams/kept_range.ts';
import type { MediaTime90k } from '../streams/media_time.ts';
import { OutstandingWrites } from '../streams/outstanding_writes.ts';
import { writeBytes, writtenFor, type DurablePosition, type FromStorage, type KeptHead, type KeptStory, type KeptWorld, type StorageWrite, type StoryFingerprint, type VersionSpan } from '../streams/storage_messages.ts';
import type { StoragePort } from './ports.ts';
import { SessionKeeper } from './SessionKeeper.ts';

/** Reading a session back: some megabytes from a local disk. */
const QUESTION_WATCHDOG_MS = 5_000;

export interface SessionArchiveOptions {
  readonly storage: StoragePort;
  readonly clock: Clock;
  readonly log: Logger;
  /** Of this server: sessions that are written now are of it. */
  /** Of what is made now. */
  readonly fingerprint: () => StoryFingerprint;
  /** Chunks that a story's window holds: how many are read back at least. */
  readonly windowChunks: number;
}

type StorageAnswer = Extract<FromStorage, { type: 'loaded' | 'listed' | 'chunk.read' | 'versions.read' | 'range.read' | 'read' }>;

interface Question {
  readonly resolve: (message: StorageAnswer) => void;
  readonly reject: (error: SegueError) => void;
  readonly watchdog: Timer;
}

/** The control side's way to the storage thread: what sessions write, how far they are on disk, and what is read back of them. */
export class SessionArchive {
  readonly fingerprint: () => StoryFingerprint;
  readonly #options: SessionArchiveOptions;
  readonly #writes = new OutstandingWrites();
  readonly #keepers = new Map<string, SessionKeeper>();
  readonly #questions = new Map<number, Question>();
  readonly #deletions = new Set<{ readonly number: number; readonly done: () => void }>();
  #asked = 0;
  #lost = 0;

  constructor(options: SessionArchiveOptions) {
    this.#options = options;
    this.fingerprint = options.fingerprint;
  }

  /** The last write that is on disk. */
  get stored(): number {
    return this.#writes.stored;
  }

  receive(message: FromStorage): void {
    const { log } = this.#options;
    switch (message.type) {
      case 'stored':
        this.#writes.settle(message.through);
        for (const keeper of this.#keepers.values()) keeper.onStored(message.through);
        for (const deletion of [...this.#deletions]) if (deletion.number <= message.through) deletion.done();
        return;
      case 'durable':
        for (const position of message.positions) this.#keepers.get(position.sessionId)?.onDurable(position);
        return;
      case 'trouble':
        log.error({ reason: message.message }, 'sessions are not written to disk for now');
        return;
      case 'recovered':
        log.info('sessions are written to disk again');
        return;
      case 'loaded':
      case 'read':
      case 'listed':
      case 'chunk.read':
      case 'versions.read':
      case 'range.read': {
        const question = this.#questions.get(message.request);
        this.#questions.delete(message.request);
        question?.watchdog.cancel();
        question?.resolve(message);
        return;
      }
      default:
    }
  }

  /** What a session writes with, until it is let go of. */
  keeper(sessionId: string, onDurable: (position: DurablePosition) => void): SessionKeeper {
    const keeper = new SessionKeeper({ sessionId, archive: this, clock: this.#options.clock, onDurable });
    this.#keepers.set(sessionId, keeper);
    return keeper;
  }

  letGo(sessionId: string): void {
    this.#keepers.get(sessionId)?.close();
    this.#keepers.delete(sessionId);
  }

  canTake(sessionId: string): boolean {
    return this.#writes.hasEased(sessionId);
  }

  /** The number of the write; null where it is left out because the storage doesn't follow. */
  write(write: StorageWrite): number | null {
    const number = this.#writes.take(writtenFor(write), writeBytes(write));
    if (number === null) {
      if (this.#lost++ % 1_000 === 0) this.#options.log.warn({ sessionId: writtenFor(write), lost: this.#lost }, 'the storage does not follow: events are not kept');
      return null;
    }
    this.#options.storage.send({ type: 'write', number, write });
    return number;
  }

  /** Resolves when nothing of it is on disk any more. Rejects with timed_out: it will be deleted, but isn't yet. */
  async delete(sessionId: string): Promise<void> {
    const { clock } = this.#options;
    const number = this.write({ type: 'delete', sessionId })!;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const deletion = { number, done: resolve };
    this.#deletions.add(deletion);
    const watchdog = clock.schedule(clock.now() + QUESTION_WATCHDOG_MS, () => reject(new SegueError('timed_out', 'the storage did not answer', { retryAfterMs: 1_000 })));
    try {
      await promise;
    } finally {
      watchdog.cancel();
      this.#deletions.delete(deletion);
    }
  }

  /** Null where nothing is kept of it. Rejects with timed_out, engine_unavailable, or what the storage can't read it for. */
  async load(sessionId: string): Promise<KeptWorld | null> {
    const answer = await this.#ask((request) => ({ type: 'load', request, sessionId, windowChunks: this.#options.windowChunks }));
    if (answer.type !== 'loaded') return null;
    if (answer.error !== undefined) throw SegueError.from(answer.error);
    return answer.world;
  }

  /**
   * The story in force up to a moment of it, where it is exact with all that leads there; null where the moment is before the end of its first chunk.
   * Rejects with session_not_found, not_kept, timed_out, engine_unavailable.
   */
  async story(sessionId: string, to90k: number, exact: boolean): Promise<KeptStory | null> {
    const answer = await this.#ask((request) => ({ type: 'story', request, sessionId, windowChunks: this.#options.windowChunks, to90k, exact }));
    if (answer.type !== 'read') return null;
    if (answer.error !== undefined) throw SegueError.from(answer.error);
    return answer.story;
  }

  async heads(): Promise<readonly KeptHead[]> {
    const answer = await this.#ask((request) => ({ type: 'list', request }));
    return answer.type === 'listed' ? answer.heads : [];
  }

  /** The chunk in which a media time lies, with the session that it is of. Rejects as {@link load}. */
  async chunkAt(sessionId: string, media90k: MediaTime90k, branch?: number): Promise<Pick<Extract<FromStorage, { type: 'chunk.read' }>, 'head' | 'branch' | 'chunk' | 'from90k'>> {
    const answer = await this.#ask((request) => ({ type: 'chunk.at', request, sessionId, media90k, ...(branch === undefined ? {} : { branch }) }));
    if (answer.type !== 'chunk.read') return { head: null, branch: null, chunk: null, from90k: null };
    if (answer.error !== undefined) throw SegueError.from(answer.error);
    return answer;
  }

  /** What is kept of a story between two moments, from the first chunk that lies there to the last; null: nothing. Rejects as {@link load}. */
  async range(sessionId: string, from90k: MediaTime90k, to90k: MediaTime90k): Promise<Omit<KeptRange, 'sessionId'> | null> {
    const answer = await this.#ask((request) => ({ type: 'range.of', request, sessionId, from90k, to90k }));
    return answer.type === 'range.read' ? answer.range : null;
  }

  /** What a session was made with, oldest first. Rejects as {@link load}. */
  async versions(sessionId: string): Promise<readonly VersionSpan[]> {
    const answer = await this.#ask((request) => ({ type: 'versions.of', request, sessionId }));
    if (answer.type !== 'versions.read') return [];
    if (answer.error !== undefined) throw SegueError.from(answer.error);
    return answer.spans;
  }

  #ask(question: (request: number) => Parameters<StoragePort['send']>[0]): Promise<StorageAnswer> {
    const { storage, clock } = this.#options;
    const request = ++this.#asked;
    const { promise, resolve, reject } = Promise.withResolvers<StorageAnswer>();
    const watchdog = clock.schedule(clock.now() + QUESTION_WATCHDOG_MS, () => {
      this.#questions.delete(request);
      reject(new SegueError('timed_out', 'the storage did not answer', { retryAfterMs: 1_000 }));
    });
    this.#questions.set(request, { resolve, reject, watchdog });
    if (!storage.send(question(request))) {
      this.#questions.delete(request);
      watchdog.cancel();
      reject(new SegueError('engine_unavailable', 'the storage is gone'));
    }
    return promise;
  }
}
