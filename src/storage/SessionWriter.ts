import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { DurablePosition, KeptTensor, StorageWrite } from '../streams/storage_messages.ts';
import { writeBytes, writtenFor } from '../streams/storage_messages.ts';

const INSERTS = {
  session: `INSERT INTO sessions (id, created_at, program, seed, prompt, image, fingerprint, options, touched_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET options = excluded.options, fingerprint = excluded.fingerprint, ended_at = NULL, reason = NULL`,
  event: 'INSERT OR REPLACE INTO events (session, sequence, type, at, data) VALUES (?, ?, ?, ?, ?)',
  request: `INSERT INTO requests (session, id, ordinal, kind, body, epoch, conditioning_version, answers, done)
    VALUES (?1, ?2, (SELECT coalesce(max(ordinal), 0) + 1 FROM requests WHERE session = ?1), ?3, ?4, ?5, ?6, ?7, ?8)
    ON CONFLICT (session, id) DO UPDATE SET answers = excluded.answers, done = excluded.done`,
  turn: 'INSERT OR REPLACE INTO turns (session, ordinal, turn) VALUES (?, ?, ?)',
  dropTurn: 'DELETE FROM turns WHERE session = ? AND ordinal = ?',
  chunk: 'INSERT OR REPLACE INTO chunks (session, chunk, start_90k, end_90k, epoch, conditioning_version, data, bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?)',
  snapshot: 'INSERT OR REPLACE INTO snapshots (session, chunk, data, bytes) VALUES (?, ?, ?, ?)',
  tensor: 'INSERT INTO tensors (session, owner, chunk, name, dims, data) VALUES (?, ?, ?, ?, ?, ?)',
  dropTensors: 'DELETE FROM tensors WHERE session = ? AND owner = ? AND chunk = ?',
  ended: 'UPDATE sessions SET ended_at = ?, reason = ? WHERE id = ?',
  touch: 'UPDATE sessions SET touched_ms = ?, bytes = bytes + ?, committed_90k = max(committed_90k, ?) WHERE id = ?',
  exists: 'SELECT 1 FROM sessions WHERE id = ?',
  otherFingerprint: 'SELECT 1 FROM sessions WHERE id = ? AND fingerprint <> ?',
  dropSnapshots: 'DELETE FROM snapshots WHERE session = ?',
  dropSnapshotTensors: "DELETE FROM tensors WHERE session = ? AND owner = 'snapshot'",
} as const;

const TABLES = ['events', 'requests', 'turns', 'chunks', 'snapshots', 'tensors'] as const;

/**
 * Writes batches: each is one transaction, so it is on disk as a whole or not at all. What comes for a session that isn't there (any more) is
 * passed over: a writer that hasn't heard of a deletion must not bring parts of it back.
 */
export class SessionWriter {
  readonly #database: DatabaseSync;
  readonly #statements: Readonly<Record<keyof typeof INSERTS, StatementSync>>;
  readonly #deletes: readonly StatementSync[];

  constructor(database: DatabaseSync) {
    this.#database = database;
    const prepared = Object.entries(INSERTS).map(([name, sql]) => [name, database.prepare(sql)]);
    this.#statements = Object.fromEntries(prepared) as Record<keyof typeof INSERTS, StatementSync>;
    this.#deletes = [...TABLES.map((table) => database.prepare(`DELETE FROM ${table} WHERE session = ?`)), database.prepare('DELETE FROM sessions WHERE id = ?')];
  }

  /** Whose stories got longer, and how far. Throws what SQLite throws; nothing of the batch is there then. */
  write(batch: readonly StorageWrite[], nowMs: number): DurablePosition[] {
    const durable = new Map<string, DurablePosition>();
    const added = new Map<string, number>();
    this.#database.exec('BEGIN IMMEDIATE');
    try {
      for (const write of batch) {
        const sessionId = writtenFor(write);
        if (write.type !== 'session' && this.#statements.exists.get(sessionId) === undefined) continue;
        this.#write(write, sessionId, nowMs);
        if (write.type === 'delete') {
          added.delete(sessionId);
          durable.delete(sessionId);
          continue;
        }
        added.set(sessionId, (added.get(sessionId) ?? 0) + writeBytes(write));
        if (write.type === 'chunk') durable.set(sessionId, { sessionId, chunk: write.chunk.chunk, media90k: write.chunk.end90k });
      }
      for (const [sessionId, bytes] of added) this.#statements.touch.run(nowMs, bytes, durable.get(sessionId)?.media90k ?? 0, sessionId);
      this.#database.exec('COMMIT');
    } catch (error) {
      // After a full disk SQLite has rolled back by itself already.
      if (this.#database.isTransaction) this.#database.exec('ROLLBACK');
      throw error;
    }
    return [...durable.values()];
  }

  #write(write: StorageWrite, sessionId: string, nowMs: number): void {
    const { session, event, request, turn, dropTurn, chunk, snapshot, ended } = this.#statements;
    switch (write.type) {
      case 'session': {
        const { createdAt, program, seed, prompt, image, fingerprint, options } = write.session;
        // What another machine or other weights have made of the window is not what this one would have: it is recomputed from the latents.
        if (this.#statements.otherFingerprint.get(sessionId, JSON.stringify(fingerprint)) !== undefined) this.#dropSnapshots(sessionId);
        session.run(sessionId, createdAt, program, seed, prompt, image === null ? null : bytesOf(image), JSON.stringify(fingerprint), options, nowMs);
        return;
      }
      case 'event':
        event.run(sessionId, write.event.sequence, write.event.type, write.event.at, write.event.data);
        return;
      case 'request': {
        const { requestId, kind, body, epoch, conditioningVersion, answers, done } = write.request;
        request.run(sessionId, requestId, kind, body, epoch, conditioningVersion, answers, done ? 1 : 0);
        return;
      }
      case 'turn':
        turn.run(sessionId, write.turn.ordinal, write.turn.turn);
        return;
      case 'turns':
        for (const { ordinal, turn: text } of write.turns) {
          if (text === null) dropTurn.run(sessionId, ordinal);
          else turn.run(sessionId, ordinal, text);
        }
        return;
      case 'chunk': {
        const { start90k, end90k, epoch, conditioningVersion, data, tensors } = write.chunk;
        chunk.run(sessionId, write.chunk.chunk, start90k, end90k, epoch, conditioningVersion, data, writeBytes(write));
        this.#tensors(sessionId, 'chunk', write.chunk.chunk, tensors);
        return;
      }
      case 'snapshot':
        snapshot.run(sessionId, write.snapshot.chunk, write.snapshot.data, writeBytes(write));
        this.#tensors(sessionId, 'snapshot', write.snapshot.chunk, write.snapshot.tensors);
        return;
      case 'ended':
        ended.run(new Date(nowMs).toISOString(), write.reason, sessionId);
        return;
      case 'delete':
        for (const statement of this.#deletes) statement.run(sessionId);
    }
  }

  #dropSnapshots(sessionId: string): void {
    this.#statements.dropSnapshots.run(sessionId);
    this.#statements.dropSnapshotTensors.run(sessionId);
  }

  #tensors(sessionId: string, owner: 'chunk' | 'snapshot', chunk: number, tensors: readonly KeptTensor[]): void {
    this.#statements.dropTensors.run(sessionId, owner, chunk);
    for (const { name, dims, data } of tensors) this.#statements.tensor.run(sessionId, owner, chunk, name, JSON.stringify(dims), bytesOf(data));
  }
}

/** SQLite's binding takes no shared memory. */
function bytesOf(data: ArrayBuffer | SharedArrayBuffer): Uint8Array<ArrayBuffer> {
  return data instanceof ArrayBuffer ? new Uint8Array(data) : Uint8Array.from(new Uint8Array(data));
}
