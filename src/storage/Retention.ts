import type { DatabaseSync } from 'node:sqlite';

export interface RetentionLimits {
  /** A session that nothing was written of for so long is deleted. */
  readonly maxAgeMs: number;
  /** Beyond this, the oldest of a session's story goes; its last snapshot and what follows it stay. */
  readonly sessionBytes: number;
}

/** Pages given back to the file system at a time: some milliseconds. */
const VACUUM_PAGES = 2_000;
/** Below its bound by so much, so that a session at its bound isn't trimmed at every look. */
const TRIM_TO = 0.9;

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

  /** From the front, a snapshot's stretch at a time. False where nothing could go. */
  #trim(sessionId: string): boolean {
    let trimmed = false;
    for (;;) {
      const { bytes } = this.#database.prepare('SELECT bytes FROM sessions WHERE id = ?').get(sessionId) as { bytes: number };
      if (bytes <= this.#limits.sessionBytes * TRIM_TO) return trimmed;
      const snapshots = this.#database.prepare('SELECT chunk FROM snapshots WHERE session = ? ORDER BY chunk LIMIT 2').all(sessionId) as { chunk: number }[];
      const keepFrom = snapshots[1]?.chunk;
      if (keepFrom === undefined) return trimmed;
      this.#database.exec('BEGIN IMMEDIATE');
      try {
        let freed = 0;
        for (const table of ['chunks', 'snapshots']) {
          freed += (this.#database.prepare(`SELECT coalesce(sum(bytes), 0) AS bytes FROM ${table} WHERE session = ? AND chunk < ?`).get(sessionId, keepFrom) as { bytes: number }).bytes;
          this.#database.prepare(`DELETE FROM ${table} WHERE session = ? AND chunk < ?`).run(sessionId, keepFrom);
        }
        this.#database.prepare('DELETE FROM tensors WHERE session = ? AND chunk < ?').run(sessionId, keepFrom);
        this.#database.prepare('UPDATE sessions SET bytes = bytes - ? WHERE id = ?').run(freed, sessionId);
        this.#database.exec('COMMIT');
        if (freed === 0) return trimmed;
        trimmed = true;
      } catch (error) {
        if (this.#database.isTransaction) this.#database.exec('ROLLBACK');
        throw error;
      }
    }
  }

  #ids(sql: string, bound: number): string[] {
    return (this.#database.prepare(sql).all(bound) as { id: string }[]).map(({ id }) => id);
  }
}
