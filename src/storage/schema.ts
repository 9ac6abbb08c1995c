import type { DatabaseSync } from 'node:sqlite';
import { StorageError } from './StorageError.ts';

/** Names the file's owner to tools (sqlite.org/fileformat.html#application_id): "SGUE". */
export const APPLICATION_ID = 0x53475545;

/**
 * One entry per version of the schema: what leads to it from the one before. Append, never change: files of every version are out there.
 *
 * Tensors have a table with row ids of their own, because rows of a table without them should be small; the rest is clustered by session, so
 * reading or deleting one touches its own pages.
 */
const MIGRATIONS: readonly string[] = [
  `
  CREATE TABLE sessions (
    id TEXT PRIMARY KEY,
    created_at TEXT NOT NULL,
    program TEXT NOT NULL,
    seed INTEGER NOT NULL,
    prompt TEXT,
    image BLOB,
    fingerprint TEXT NOT NULL,
    options TEXT NOT NULL,
    ended_at TEXT,
    reason TEXT,
    touched_ms INTEGER NOT NULL,
    bytes INTEGER NOT NULL DEFAULT 0,
    committed_90k INTEGER NOT NULL DEFAULT 0
  ) WITHOUT ROWID;
  CREATE TABLE events (
    session TEXT NOT NULL, sequence INTEGER NOT NULL, type TEXT NOT NULL, at TEXT NOT NULL, data TEXT NOT NULL,
    PRIMARY KEY (session, sequence)
  ) WITHOUT ROWID;
  CREATE TABLE requests (
    session TEXT NOT NULL, id TEXT NOT NULL, ordinal INTEGER NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL,
    epoch INTEGER NOT NULL, conditioning_version INTEGER NOT NULL, answers TEXT NOT NULL, done INTEGER NOT NULL,
    PRIMARY KEY (session, id)
  ) WITHOUT ROWID;
  CREATE TABLE turns (
    session TEXT NOT NULL, ordinal INTEGER NOT NULL, turn TEXT NOT NULL,
    PRIMARY KEY (session, ordinal)
  ) WITHOUT ROWID;
  CREATE TABLE chunks (
    session TEXT NOT NULL, chunk INTEGER NOT NULL, start_90k INTEGER NOT NULL, end_90k INTEGER NOT NULL,
    epoch INTEGER NOT NULL, conditioning_version INTEGER NOT NULL, data TEXT NOT NULL, bytes INTEGER NOT NULL,
    PRIMARY KEY (session, chunk)
  ) WITHOUT ROWID;
  CREATE TABLE snapshots (
    session TEXT NOT NULL, chunk INTEGER NOT NULL, data TEXT NOT NULL, bytes INTEGER NOT NULL,
    PRIMARY KEY (session, chunk)
  ) WITHOUT ROWID;
  CREATE TABLE tensors (
    session TEXT NOT NULL, owner TEXT NOT NULL, chunk INTEGER NOT NULL, name TEXT NOT NULL, dims TEXT NOT NULL, data BLOB NOT NULL
  );
  CREATE INDEX tensors_of ON tensors (session, owner, chunk);
  CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
  `,
  // Branches of a story. What was there is the first one's. Tensors keep their rows: they may be gigabytes.
  `
  CREATE TABLE branches (
    session TEXT NOT NULL, branch INTEGER NOT NULL, parent INTEGER NOT NULL, from_chunk INTEGER NOT NULL, from_90k INTEGER NOT NULL,
    left_90k INTEGER NOT NULL, request TEXT NOT NULL, epoch INTEGER NOT NULL,
    PRIMARY KEY (session, branch)
  ) WITHOUT ROWID;
  ALTER TABLE sessions ADD COLUMN branch INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE chunks RENAME TO chunks_1;
  CREATE TABLE chunks (
    session TEXT NOT NULL, branch INTEGER NOT NULL, chunk INTEGER NOT NULL, start_90k INTEGER NOT NULL, end_90k INTEGER NOT NULL,
    epoch INTEGER NOT NULL, conditioning_version INTEGER NOT NULL, data TEXT NOT NULL, bytes INTEGER NOT NULL,
    PRIMARY KEY (session, branch, chunk)
  ) WITHOUT ROWID;
  INSERT INTO chunks SELECT session, 0, chunk, start_90k, end_90k, epoch, conditioning_version, data, bytes FROM chunks_1;
  DROP TABLE chunks_1;
  ALTER TABLE snapshots RENAME TO snapshots_1;
  CREATE TABLE snapshots (
    session TEXT NOT NULL, branch INTEGER NOT NULL, chunk INTEGER NOT NULL, data TEXT NOT NULL, bytes INTEGER NOT NULL,
    PRIMARY KEY (session, branch, chunk)
  ) WITHOUT ROWID;
  INSERT INTO snapshots SELECT session, 0, chunk, data, bytes FROM snapshots_1;
  DROP TABLE snapshots_1;
  ALTER TABLE tensors ADD COLUMN branch INTEGER NOT NULL DEFAULT 0;
  DROP INDEX tensors_of;
  CREATE INDEX tensors_of ON tensors (session, owner, branch, chunk);
  `,
  // Which future each branch is, from before the first chunk of it is there; null: as its last chunk says.
  `
  ALTER TABLE branches ADD COLUMN lineage INTEGER;
  ALTER TABLE sessions ADD COLUMN lineage INTEGER;
  `,
  // What was seen of chunks that the story ended in, or left, before they were whole. Their tensors are of the owner 'part'.
  `
  CREATE TABLE parts (
    session TEXT NOT NULL, branch INTEGER NOT NULL, chunk INTEGER NOT NULL, start_90k INTEGER NOT NULL, end_90k INTEGER NOT NULL,
    epoch INTEGER NOT NULL, conditioning_version INTEGER NOT NULL, data TEXT NOT NULL, bytes INTEGER NOT NULL,
    PRIMARY KEY (session, branch, chunk)
  ) WITHOUT ROWID;
  `,
];

export const SCHEMA_VERSION = MIGRATIONS.length;

/** Brings the file to this version, each step whole or not at all. @throws {StorageError} for a file of a later version, or of another program. */
export function migrate(database: DatabaseSync, file: string): void {
  const applicationId = pragma(database, 'application_id');
  const version = pragma(database, 'user_version');
  const empty = (database.prepare('SELECT count(*) AS count FROM sqlite_schema').get() as { count: number }).count === 0;
  if (!empty && applicationId !== APPLICATION_ID) throw new StorageError(`${file} is a database of another program: set storage.directory to a directory of its own`);
  if (version > SCHEMA_VERSION) throw new StorageError(`${file} was written by a later version of this program (schema ${version}, this one reads up to ${SCHEMA_VERSION}): use that version, or another storage.directory`);
  for (let next = version; next < SCHEMA_VERSION; next++) {
    database.exec('BEGIN IMMEDIATE');
    try {
      database.exec(MIGRATIONS[next]!);
      database.exec(`PRAGMA application_id = ${APPLICATION_ID}`);
      database.exec(`PRAGMA user_version = ${next + 1}`);
      database.exec('COMMIT');
    } catch (error) {
      database.exec('ROLLBACK');
      throw error;
    }
  }
}

/** @throws {StorageError} for a file that {@link migrate} hasn't brought to this version. */
export function checkVersion(database: DatabaseSync, file: string): void {
  if (pragma(database, 'application_id') !== APPLICATION_ID) throw new StorageError(`${file} is a database of another program`);
  const version = pragma(database, 'user_version');
  if (version !== SCHEMA_VERSION) throw new StorageError(`${file} has schema ${version}, this version reads ${SCHEMA_VERSION}: ${version < SCHEMA_VERSION ? 'start the server on it once' : 'use the version that wrote it'}`);
}

function pragma(database: DatabaseSync, name: string): number {
  return (database.prepare(`PRAGMA ${name}`).get() as Record<string, number>)[name]!;
}
