import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { DurablePosition, KeptBranch, KeptTensor, StorageWrite } from '../streams/storage_messages.ts';
import { writeBytes, writtenFor } from '../streams/storage_messages.ts';
import { clipped, storyPath } from './story_path.ts';

const INSERTS = {
  session: `INSERT INTO sessions (id, created_at, program, seed, prompt, image, fingerprint, options, touched_ms, lineage) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET options = excluded.options, fingerprint = excluded.fingerprint, ended_at = NULL, reason = NULL`,
  event: 'INSERT OR REPLACE INTO events (session, sequence, type, at, data) VALUES (?, ?, ?, ?, ?)',
  request: `INSERT INTO requests (session, id, ordinal, kind, body, epoch, conditioning_version, answers, done)
    VALUES (?1, ?2, (SELECT coalesce(max(ordinal), 0) + 1 FROM requests WHERE session = ?1), ?3, ?4, ?5, ?6, ?7, ?8)
    ON CONFLICT (session, id) DO UPDATE SET answers = excluded.answers, done = excluded.done`,
  turn: 'INSERT OR REPLACE INTO turns (session, ordinal, turn) VALUES (?, ?, ?)',
  dropTurn: 'DELETE FROM turns WHERE session = ? AND ordinal = ?',
  chunk: 'INSERT OR REPLACE INTO chunks (session, branch, chunk, start_90k, end_90k, epoch, conditioning_version, data, bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)',
  part: 'INSERT OR REPLACE INTO parts (session, branch, chunk, start_90k, end_90k, epoch, conditioning_version, data, bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)',
  snapshot: 'INSERT OR REPLACE INTO snapshots (session, branch, chunk, data, bytes) VALUES (?, ?, ?, ?, ?)',
  tensor: 'INSERT INTO tensors (session, owner, branch, chunk, name, dims, data) VALUES (?, ?, ?, ?, ?, ?, ?)',
  dropTensors: 'DELETE FROM tensors WHERE session = ? AND owner = ? AND branch = ? AND chunk = ?',
  branch: 'INSERT OR REPLACE INTO branches (session, branch, parent, from_chunk, from_90k, left_90k, request, epoch, lineage) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)',
  inForce: 'UPDATE sessions SET branch = ? WHERE id = ?',
  branches: 'SELECT branch, parent, from_chunk AS fromChunk FROM branches WHERE session = ?',
  forkChunks: 'INSERT OR REPLACE INTO chunks SELECT ?1, 0, chunk, start_90k, end_90k, epoch, conditioning_version, data, bytes FROM chunks WHERE session = ?2 AND branch = ?3 AND chunk BETWEEN ?4 AND ?5',
  forkSnapshots: 'INSERT OR REPLACE INTO snapshots SELECT ?1, 0, chunk, data, bytes FROM snapshots WHERE session = ?2 AND branch = ?3 AND chunk BETWEEN ?4 AND ?5',
  forkTensors: 'INSERT INTO tensors (session, owner, branch, chunk, name, dims, data) SELECT ?1, owner, 0, chunk, name, dims, data FROM tensors WHERE session = ?2 AND branch = ?3 AND chunk BETWEEN ?4 AND ?5',
  forked: 'SELECT (SELECT coalesce(sum(bytes), 0) FROM chunks WHERE session = ?1) + (SELECT coalesce(sum(bytes), 0) FROM snapshots WHERE session = ?1) AS bytes, (SELECT max(chunk) FROM chunks WHERE session = ?1) AS chunk, (SELECT max(end_90k) FROM chunks WHERE session = ?1) AS media90k',
  wholeUpTo: 'SELECT max(end_90k) AS media90k FROM chunks WHERE session = ? AND branch = ? AND chunk BETWEEN ? AND ?',
  ended: 'UPDATE sessions SET ended_at = ?, reason = ? WHERE id = ?',
  touch: 'UPDATE sessions SET touched_ms = ?, bytes = bytes + ?, committed_90k = coalesce(?, committed_90k) WHERE id = ?',
  exists: 'SELECT 1 FROM sessions WHERE id = ?',
  otherFingerprint: 'SELECT 1 FROM sessions WHERE id = ? AND fingerprint <> ?',
  dropSnapshots: 'DELETE FROM snapshots WHERE session = ?',
  dropSnapshotTensors: "DELETE FROM tensors WHERE session = ? AND owner = 'snapshot'",
} as const;

const TABLES = ['events', 'requests', 'turns', 'branches', 'chunks', 'parts', 'snapshots', 'tensors'] as const;

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
        const position = this.#reached(write, sessionId);
        if (position !== null) durable.set(sessionId, position);
        if (write.type === 'fork') added.set(sessionId, added.get(sessionId)! + this.#forked(sessionId).bytes);
      }
      for (const [sessionId, bytes] of added) this.#statements.touch.run(nowMs, bytes, durable.get(sessionId)?.media90k ?? null, sessionId);
      this.#database.exec('COMMIT');
    } catch (error) {
      // After a full disk SQLite has rolled back by itself already.
      if (this.#database.isTransaction) this.#database.exec('ROLLBACK');
      throw error;
    }
    return [...durable.values()];
  }

  #write(write: StorageWrite, sessionId: string, nowMs: number): void {
    const { session, event, request, turn, dropTurn, chunk, part, snapshot, ended } = this.#statements;
    switch (write.type) {
      case 'session': {
        const { createdAt, program, seed, prompt, image, fingerprint, options, lineage = null } = write.session;
        // What another machine or other weights have made of the window is not what this one would have: it is recomputed from the latents.
        if (this.#statements.otherFingerprint.get(sessionId, JSON.stringify(fingerprint)) !== undefined) this.#dropSnapshots(sessionId);
        session.run(sessionId, createdAt, program, seed, prompt, image === null ? null : bytesOf(image), JSON.stringify(fingerprint), options, nowMs, lineage);
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
      case 'chunk':
      case 'part': {
        const { start90k, end90k, epoch, conditioningVersion, data, tensors } = write.chunk;
        (write.type === 'chunk' ? chunk : part).run(sessionId, write.branch, write.chunk.chunk, start90k, end90k, epoch, conditioningVersion, data, writeBytes(write));
        this.#tensors(sessionId, write.type, write.branch, write.chunk.chunk, tensors);
        return;
      }
      case 'snapshot':
        snapshot.run(sessionId, write.branch, write.snapshot.chunk, write.snapshot.data, writeBytes(write));
        this.#tensors(sessionId, 'snapshot', write.branch, write.snapshot.chunk, write.snapshot.tensors);
        return;
      case 'branch': {
        const { branch, parent, fromChunk, from90k, left90k, requestId, epoch, lineage = null } = write.branch;
        this.#statements.branch.run(sessionId, branch, parent, fromChunk, from90k, left90k, requestId, epoch, lineage);
        this.#statements.inForce.run(branch, sessionId);
        return;
      }
      case 'fork':
        return this.#fork(sessionId, write);
      case 'ended':
        ended.run(new Date(nowMs).toISOString(), write.reason, sessionId);
        return;
      case 'delete':
        for (const statement of this.#deletes) statement.run(sessionId);
    }
  }

  /** The rows of a story up to a chunk, copied: neither session knows of the other from here on. */
  #fork(sessionId: string, { from, branch, throughChunk }: Extract<StorageWrite, { type: 'fork' }>): void {
    const { branches, forkChunks, forkSnapshots, forkTensors } = this.#statements;
    const path = storyPath(branches.all(from) as unknown as Parameters<typeof storyPath>[0], branch);
    for (const segment of clipped(path, 0, throughChunk)) {
      for (const statement of [forkChunks, forkSnapshots, forkTensors]) statement.run(sessionId, from, segment.branch, segment.from, segment.to);
    }
  }

  #forked(sessionId: string): { readonly bytes: number; readonly chunk: number | null; readonly media90k: number | null } {
    return this.#statements.forked.get(sessionId) as { bytes: number; chunk: number | null; media90k: number | null };
  }

  /** How far a session is on disk with a write that changes that. */
  #reached(write: StorageWrite, sessionId: string): DurablePosition | null {
    switch (write.type) {
      case 'chunk':
        return { sessionId, branch: write.branch, chunk: write.chunk.chunk, media90k: write.chunk.end90k };
      case 'branch':
        return { sessionId, branch: write.branch.branch, chunk: write.branch.fromChunk - 1, media90k: this.#wholeUpTo(sessionId, write.branch) };
      case 'fork': {
        const { chunk, media90k } = this.#forked(sessionId);
        return { sessionId, branch: 0, chunk: chunk ?? -1, media90k: media90k ?? 0 };
      }
      default:
        return null;
    }
  }

  /** Where a branch begins that leaves its parent inside a chunk, only what is before that chunk can be gone on from. */
  #wholeUpTo(sessionId: string, { branch, fromChunk }: KeptBranch): number {
    const { branches, wholeUpTo } = this.#statements;
    const segments = clipped(storyPath(branches.all(sessionId) as unknown as Parameters<typeof storyPath>[0], branch), 0, fromChunk - 1);
    return Math.max(0, ...segments.map((segment) => (wholeUpTo.get(sessionId, segment.branch, segment.from, segment.to) as { media90k: number | null }).media90k ?? 0));
  }

  #dropSnapshots(sessionId: string): void {
    this.#statements.dropSnapshots.run(sessionId);
    this.#statements.dropSnapshotTensors.run(sessionId);
  }

  #tensors(sessionId: string, owner: 'chunk' | 'part' | 'snapshot', branch: number, chunk: number, tensors: readonly KeptTensor[]): void {
    this.#statements.dropTensors.run(sessionId, owner, branch, chunk);
    for (const { name, dims, data } of tensors) this.#statements.tensor.run(sessionId, owner, branch, chunk, name, JSON.stringify(dims), bytesOf(data));
  }
}

/** SQLite's binding takes no shared memory. */
function bytesOf(data: ArrayBuffer | SharedArrayBuffer): Uint8Array<ArrayBuffer> {
  return data instanceof ArrayBuffer ? new Uint8Array(data) : Uint8Array.from(new Uint8Array(data));
}
