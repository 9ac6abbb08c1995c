import { existsSync, mkdirSync, renameSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { checkVersion, migrate } from './schema.ts';
import { isBusy, isDamage, StorageError } from './StorageError.ts';

export const FILE_NAME = 'segue.db';

/** A file up to this size is checked page by page at the start: a fraction of a second. A larger one is checked where it is read. */
const CHECKED_BYTES = 64 * 1024 * 1024;
/** A server that only starts or ends has let go of it by then. */
const READ_BUSY_MS = 1_000;
/** For a process that is just ending to let go of it. */
const BUSY_MS = 3_000;

export interface OpenedDatabase {
  readonly database: DatabaseSync;
  readonly file: string;
  /** Where a file that couldn't be read was put aside; null where none was. */
  readonly damaged: string | null;
}

/**
 * Opens the database of a data directory, and makes both where they aren't there. A damaged file is put aside under another name, whole, so that what is
 * in it can still be looked for, and a new one is begun.
 *
 * Write-ahead log, one process: whoever was killed leaves a file that opens, and a second server on the same directory is refused. `synchronous`
 * is FULL: what was acknowledged survives a loss of power, not only of the process.
 *
 * @throws {StorageError} where the directory or file can't be used, is in use, or is of a later version.
 */
export function openDatabase(directory: string, nowMs: number = Date.now()): OpenedDatabase {
  const file = join(directory, FILE_NAME);
  try {
    mkdirSync(directory, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw new StorageError(`storage.directory ${directory} can't be made (${(error as NodeJS.ErrnoException).code ?? String(error)})`, { cause: error });
  }
  try {
    return { database: openFile(file), file, damaged: null };
  } catch (error) {
    if (!isDamage(error)) throw error;
    const damaged = `${file}.damaged-${nowMs}`;
    for (const suffix of ['', '-wal', '-shm']) if (existsSync(file + suffix)) renameSync(file + suffix, damaged + suffix);
    return { database: openFile(file), file, damaged };
  }
}

/**
 * Opens the database of a data directory to read it, also one that a killed server left. Changes nothing in it.
 * @throws {StorageError} where there is none, a server has it, or it isn't of this version.
 */
export function readDatabase(directory: string): DatabaseSync {
  const file = join(directory, FILE_NAME);
  if (!existsSync(file)) throw new StorageError(`no ${file}: storage.directory is where a server keeps its sessions`);
  let database: DatabaseSync | null = null;
  try {
    database = new DatabaseSync(file, { readOnly: true, timeout: READ_BUSY_MS });
    checkVersion(database, file);
    return database;
  } catch (error) {
    database?.close();
    if (error instanceof StorageError) throw error;
    if (isBusy(error)) throw new StorageError(`${file} is in use by a running server, which reads and writes it alone: stop it first, or read a copy`, { cause: error });
    throw new StorageError(`${file} can't be read (${error instanceof Error ? error.message : String(error)})`, { cause: error });
  }
}

function openFile(file: string): DatabaseSync {
  let database: DatabaseSync | null = null;
  try {
    database = new DatabaseSync(file, { timeout: BUSY_MS });
    // Before the first access, so that the log needs no shared memory.
    database.exec('PRAGMA locking_mode = EXCLUSIVE');
    database.exec('PRAGMA auto_vacuum = INCREMENTAL');
    database.exec('PRAGMA journal_mode = WAL');
    database.exec('PRAGMA synchronous = FULL');
    database.exec('PRAGMA wal_autocheckpoint = 2000');
    database.exec('PRAGMA journal_size_limit = 16777216');
    if (statSync(file).size <= CHECKED_BYTES) check(database);
    migrate(database, file);
    return database;
  } catch (error) {
    database?.close();
    if (error instanceof StorageError || isDamage(error)) throw error;
    if (isBusy(error)) throw new StorageError(`${file} is in use by another process: give each server a storage.directory of its own`, { cause: error });
    throw new StorageError(`${file} can't be opened (${error instanceof Error ? error.message : String(error)})`, { cause: error });
  }
}

function check(database: DatabaseSync): void {
  const [result] = database.prepare('PRAGMA quick_check(1)').all() as { quick_check: string }[];
  if (result?.quick_check !== 'ok') throw Object.assign(new Error(result?.quick_check ?? 'no answer'), { errcode: 11 });
}
