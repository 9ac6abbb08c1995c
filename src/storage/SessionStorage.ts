import { randomBytes } from 'node:crypto';
import type { DatabaseSync } from 'node:sqlite';
import type { Clock, Timer } from '../observe/clock.ts';
import type { Logger } from '../observe/log.ts';
import { SegueError } from '../protocol/errors.ts';
import { writtenFor, type DurablePosition, type FromStorage, type StorageWrite, type ToStorage } from '../streams/storage_messages.ts';
import { openDatabase } from './open_database.ts';
import { Retention, type RetentionLimits } from './Retention.ts';
import { SessionReader } from './SessionReader.ts';
import { SessionWriter } from './SessionWriter.ts';
import { resultCode } from './StorageError.ts';

/** Whoever writes: the control thread, the engine. */
export type Writer = 'control' | 'engine';

export interface SessionStorageOptions {
  readonly directory: string;
  readonly retention: RetentionLimits;
  readonly clock: Clock;
  readonly log: Logger;
  readonly tell: (writer: Writer, message: FromStorage) => void;
}

/** Writes wait this long for others to share a transaction with: a sync of the disk costs more than all of them. */
const BATCH_MS = 20;
/** A batch that fails is tried again after this. */
const RETRY_MS = 500;
const RETENTION_INTERVAL_MS = 60_000;
const TOKEN_KEY = 'token_key';

interface Pending {
  readonly writer: Writer;
  readonly number: number;
  readonly write: StorageWrite;
}

/**
 * The durable tier: takes writes, gathers them for a moment, puts them on disk in one transaction, and says how far it has come. What it was given and
 * hasn't written yet is bounded by its writers, who count what is outstanding; nothing that was given is dropped. A write that fails is tried until it
 * succeeds, and meanwhile nothing more is reported as durable.
 */
export class SessionStorage {
  readonly #options: SessionStorageOptions;
  readonly #database: DatabaseSync;
  readonly #writer: SessionWriter;
  readonly #reader: SessionReader;
  readonly #retention: Retention;
  readonly #pending: Pending[] = [];
  #timer: Timer | null = null;
  #retentionTimer: Timer | null = null;
  #failing = false;
  #closed = false;

  /** @throws {StorageError} see {@link openDatabase}. */
  constructor(options: SessionStorageOptions) {
    this.#options = options;
    const { database, file, damaged } = openDatabase(options.directory);
    this.#database = database;
    this.#writer = new SessionWriter(database);
    this.#reader = new SessionReader(database);
    this.#retention = new Retention(database, options.retention, (sessionId) => this.#writer.write([{ type: 'delete', sessionId }], Date.now()));
    if (damaged !== null) options.log.error({ file, damaged }, 'the database was damaged and was put aside; a new one is begun');
    options.tell('control', { type: 'ready', file, damaged, tokenKey: this.#tokenKey() });
    this.#applyRetention();
  }

  receive(writer: Writer, message: ToStorage): void {
    if (this.#closed) return;
    switch (message.type) {
      case 'write':
        this.#pending.push({ writer, number: message.number, write: message.write });
        this.#schedule(BATCH_MS);
        return;
      case 'load':
        return this.#load(writer, message);
      case 'range.of':
        this.flush();
        return this.#options.tell(writer, { type: 'range.read', request: message.request, range: this.#guarded('a story could not be read', () => this.#reader.range(message.sessionId, message.from90k, message.to90k)) });
      case 'chunks.of':
        return this.#options.tell(writer, { type: 'chunks.read', request: message.request, chunks: this.#guarded('chunks could not be read', () => this.#reader.chunks(message.sessionId, message.from, message.from + message.count - 1)) ?? [] });
      case 'versions.of':
        return this.#versions(writer, message);
      case 'branches.of':
        this.flush();
        return this.#options.tell(writer, { type: 'branches.read', request: message.request, branches: this.#guarded('branches could not be read', () => this.#reader.branches(message.sessionId)) ?? [] });
      case 'chunk.at':
        return this.#chunkAt(writer, message);
      case 'story':
        return this.#readStory(writer, message);
      case 'list':
        this.flush();
        return this.#options.tell(writer, { type: 'listed', request: message.request, heads: this.#guarded('sessions could not be listed', () => this.#reader.heads()) ?? [] });
      case 'drain':
        this.close();
        return this.#options.tell(writer, { type: 'drained' });
    }
  }

  /** Writes what has gathered. False where it couldn't. */
  flush(): boolean {
    this.#timer?.cancel();
    this.#timer = null;
    if (this.#pending.length === 0) return true;
    // The engine's copy may have overtaken the control thread's word that the session is there.
    const batch = [...this.#pending].sort((a, b) => Number(a.write.type === 'fork') - Number(b.write.type === 'fork'));
    try {
      const positions = this.#write(batch);
      this.#pending.splice(0, batch.length);
      if (this.#failing) {
        this.#failing = false;
        this.#options.tell('control', { type: 'recovered' });
      }
      for (const writer of ['control', 'engine'] as const) {
        const through = batch.findLast((entry) => entry.writer === writer)?.number;
        if (through !== undefined) this.#options.tell(writer, { type: 'stored', through });
      }
      if (positions.length > 0) this.#options.tell('control', { type: 'durable', positions });
      return true;
    } catch (error) {
      if (!this.#failing) {
        this.#failing = true;
        this.#options.log.error({ err: error, waiting: batch.length }, 'writing failed; it is tried until it succeeds');
        this.#options.tell('control', { type: 'trouble', message: error instanceof Error ? error.message : String(error) });
      }
      this.#schedule(RETRY_MS);
      return false;
    }
  }

  /** Writes what is outstanding and lets go of the file. Idempotent. */
  close(): void {
    if (this.#closed) return;
    const left = this.flush() ? 0 : this.#pending.length;
    this.#closed = true;
    this.#timer?.cancel();
    this.#retentionTimer?.cancel();
    if (left > 0) this.#options.log.error({ left }, 'closed with writes that could not be made');
    this.#database.close();
  }

  /** In one transaction; one by one where that fails for what is in it, so that one write that can't be made doesn't hold up everybody's. */
  #write(batch: readonly Pending[]): DurablePosition[] {
    try {
      return this.#writer.write(batch.map(({ write }) => write), Date.now());
    } catch (error) {
      if (resultCode(error) !== null) throw error;
      return batch.flatMap(({ write }) => {
        try {
          return this.#writer.write([write], Date.now());
        } catch (fault) {
          if (resultCode(fault) !== null) throw fault;
          this.#options.log.error({ err: fault, type: write.type, sessionId: writtenFor(write) }, 'a write that the database does not take was left out');
          return [];
        }
      });
    }
  }

  #schedule(ms: number): void {
    const { clock } = this.#options;
    this.#timer ??= clock.schedule(clock.now() + ms, () => {
      this.#timer = null;
      if (!this.#closed) this.flush();
    });
  }

  #load(writer: Writer, { request, sessionId, windowChunks }: Extract<ToStorage, { type: 'load' }>): void {
    const { tell, log } = this.#options;
    this.flush();
    try {
      tell(writer, { type: 'loaded', request, world: this.#reader.world(sessionId, windowChunks) });
    } catch (error) {
      log.error({ err: error, sessionId }, 'a session could not be read');
      tell(writer, { type: 'loaded', request, world: null, error: new SegueError('internal', 'the session could not be read', { cause: error }).toBody() });
    }
  }

  #versions(writer: Writer, { request, sessionId }: Extract<ToStorage, { type: 'versions.of' }>): void {
    const { tell, log } = this.#options;
    this.flush();
    try {
      tell(writer, { type: 'versions.read', request, spans: this.#reader.versions(sessionId) });
    } catch (error) {
      log.error({ err: error, sessionId }, 'what a session was made with could not be read');
      tell(writer, { type: 'versions.read', request, spans: [], error: new SegueError('internal', 'the session could not be read', { cause: error }).toBody() });
    }
  }

  #chunkAt(writer: Writer, { request, sessionId, media90k, branch }: Extract<ToStorage, { type: 'chunk.at' }>): void {
    const { tell, log } = this.#options;
    this.flush();
    try {
      const found = this.#reader.chunkAt(sessionId, media90k, branch);
      tell(writer, { type: 'chunk.read', request, head: this.#reader.head(sessionId), branch: found?.branch ?? null, chunk: found?.chunk ?? null, from90k: this.#reader.begin90k(sessionId) });
    } catch (error) {
      log.error({ err: error, sessionId }, 'a chunk could not be read');
      tell(writer, { type: 'chunk.read', request, head: null, branch: null, chunk: null, from90k: null, error: new SegueError('internal', 'the chunk could not be read', { cause: error }).toBody() });
    }
  }

  #readStory(writer: Writer, { request, sessionId, windowChunks, to90k, exact }: Extract<ToStorage, { type: 'story' }>): void {
    const { tell, log } = this.#options;
    this.flush();
    try {
      tell(writer, { type: 'read', request, story: this.#reader.storyUpTo(sessionId, windowChunks, to90k, exact) });
    } catch (error) {
      if (!(error instanceof SegueError)) log.error({ err: error, sessionId }, 'a story could not be read');
      tell(writer, { type: 'read', request, story: null, error: (error instanceof SegueError ? error : new SegueError('internal', 'the story could not be read', { cause: error })).toBody() });
    }
  }

  #applyRetention(): void {
    const { clock, log } = this.#options;
    const done = this.#guarded('retention failed', () => this.#retention.apply(Date.now()));
    if (done !== null && done.deleted.length + done.trimmed.length > 0) log.info(done, 'old sessions went');
    this.#retentionTimer = clock.schedule(clock.now() + RETENTION_INTERVAL_MS, () => {
      if (!this.#closed) this.#applyRetention();
    });
  }

  /** Signs client tokens where the configuration has no secret of its own, so that who comes back after a restart is known. */
  #tokenKey(): string {
    this.#database.prepare('INSERT OR IGNORE INTO meta (key, value) VALUES (?, ?)').run(TOKEN_KEY, randomBytes(32).toString('base64url'));
    return (this.#database.prepare('SELECT value FROM meta WHERE key = ?').get(TOKEN_KEY) as { value: string }).value;
  }

  #guarded<T>(message: string, run: () => T): T | null {
    try {
      return run();
    } catch (error) {
      this.#options.log.error({ err: error }, message);
      return null;
    }
  }
}
