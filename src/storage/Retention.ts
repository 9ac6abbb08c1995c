import type { DatabaseSync } from 'node:sqlite';
import { clipped, storyPath, type PathSegment } from './story_path.ts';

export interface RetentionLimits {
  /** A session that nothing was written of for so long is deleted. */
  readonly maxAgeMs: number;
  /** Beyond this, futures that were left go, then the oldest of a session's story; its last snapshot and what follows it stay. */
  readonly sessionBytes: number;
}

/** Pages given back to the file system at a time: some milliseconds. */
const VACUUM_PAGES = 2_000;
/** Below its bound by so much, so that a session at its bound isn't trimmed at every look. */
const TRIM_TO = 0.9;

type Stretch = ReturnType<typeof clipped>[number];

/** What is deleted because it is old or too much. Every look is short: it deletes a session, or a stretch of one, per transaction. */
export class Retention {
  readonly #database: DatabaseSync;
  readonly #limits: RetentionLimits;
  readonly #deleteSession: (sessionId: string) => void;

  constructor(database: DatabaseSync, limits: RetentionLimits, deleteSession: (sessionId: string) => void) {
    this.#database = database;
    this.#limits = limits;
    this.#deleteSession = deleteSession;
  }

  /** What was deleted and trimmed. */
  apply(nowMs: number): { readonly deleted: readonly string[]; readonly trimmed: readonly string[] } {
    const { maxAgeMs, sessionBytes } = this.#limits;
    const old = this.#ids('SELECT id FROM sessions WHERE touched_ms < ?', nowMs - maxAgeMs);
    for (const id of old) this.#deleteSession(id);
    const large = this.#ids('SELECT id FROM sessions WHERE bytes > ?', sessionBytes).filter((id) => this.#trim(id));
    this.#database.exec(`PRAGMA incremental_vacuum(${VACUUM_PAGES})`);
    return { deleted: old, trimmed: large };
  }

  /** Futures that were left first, the oldest of them before the others; then from the front, a snapshot's stretch at a time. False where nothing could go. */
  #trim(sessionId: string): boolean {
    let trimmed = false;
    for (;;) {
      const { bytes, branch } = this.#database.prepare('SELECT bytes, branch FROM sessions WHERE id = ?').get(sessionId) as { bytes: number; branch: number };
      if (bytes <= this.#limits.sessionBytes * TRIM_TO) return trimmed;
      const branches = this.#database.prepare('SELECT branch, parent, from_chunk AS fromChunk FROM branches WHERE session = ? ORDER BY branch').all(sessionId) as unknown as Parameters<typeof storyPath>[0];
      const path = storyPath(branches, branch);
      const stretches = this.#left(sessionId, path, [0, ...branches.map((known) => known.branch)]) ?? this.#oldest(sessionId, path);
      if (stretches === null || !this.#delete(sessionId, stretches)) return trimmed;
      trimmed = true;
    }
  }

  /** The oldest branch's chunks that are no part of the story in force; null where there are none. */
  #left(sessionId: string, path: readonly PathSegment[], branches: readonly number[]): Stretch[] | null {
    const count = this.#database.prepare('SELECT (SELECT count(*) FROM chunks WHERE session = ?1 AND branch = ?2 AND chunk BETWEEN ?3 AND ?4) + (SELECT count(*) FROM parts WHERE session = ?1 AND branch = ?2 AND chunk BETWEEN ?3 AND ?4) AS count');
    for (const branch of branches) {
      const part = path.find((segment) => segment.branch === branch);
      const from = part === undefined ? 0 : part.below;
      if (from === Infinity) continue;
      const { count: left } = count.get(sessionId, branch, from, Number.MAX_SAFE_INTEGER) as { count: number };
      if (left > 0) return [{ branch, from, to: Number.MAX_SAFE_INTEGER }];
    }
    return null;
  }

  /** What lies before the second snapshot of the story in force; null where there is only one. */
  #oldest(sessionId: string, path: readonly PathSegment[]): Stretch[] | null {
    const heads = this.#database.prepare('SELECT chunk FROM snapshots WHERE session = ? AND branch = ? AND chunk BETWEEN ? AND ? ORDER BY chunk LIMIT 2');
    const snapshots = clipped(path, 0, Number.MAX_SAFE_INTEGER).flatMap(({ branch, from, to }) => heads.all(sessionId, branch, from, to) as { chunk: number }[]);
    const keepFrom = snapshots[1]?.chunk;
    return keepFrom === undefined ? null : clipped(path, 0, keepFrom - 1);
  }

  /** False where nothing was there. */
  #delete(sessionId: string, stretches: readonly Stretch[]): boolean {
    this.#database.exec('BEGIN IMMEDIATE');
    try {
      let freed = 0;
      for (const { branch, from, to } of stretches) {
        for (const table of ['chunks', 'parts', 'snapshots']) {
          freed += (this.#database.prepare(`SELECT coalesce(sum(bytes), 0) AS bytes FROM ${table} WHERE session = ? AND branch = ? AND chunk BETWEEN ? AND ?`).get(sessionId, branch, from, to) as { bytes: number }).bytes;
          this.#database.prepare(`DELETE FROM ${table} WHERE session = ? AND branch = ? AND chunk BETWEEN ? AND ?`).run(sessionId, branch, from, to);
        }
        for (const owner of ['chunk', 'part', 'snapshot']) this.#database.prepare('DELETE FROM tensors WHERE session = ? AND owner = ? AND branch = ? AND chunk BETWEEN ? AND ?').run(sessionId, owner, branch, from, to);
      }
      this.#database.prepare('UPDATE sessions SET bytes = bytes - ? WHERE id = ?').run(freed, sessionId);
      this.#database.exec('COMMIT');
      return freed > 0;
    } catch (error) {
      if (this.#database.isTransaction) this.#database.exec('ROLLBACK');
      throw error;
    }
  }

  #ids(sql: string, bound: number): string[] {
    return (this.#database.prepare(sql).all(bound) as { id: string }[]).map(({ id }) => id);
  }
}
