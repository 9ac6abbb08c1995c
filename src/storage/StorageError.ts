/** Why the storage can't be used, where whoever runs the server can put that right: the message says what and where. */
export class StorageError extends Error {
  override readonly name = 'StorageError';
}

const SQLITE_BUSY = 5;
const SQLITE_CORRUPT = 11;
const SQLITE_NOTADB = 26;

/** SQLite's primary result code; null for an error that isn't SQLite's. Source: sqlite.org/rescode.html, extended codes keep it in the low byte. */
export function resultCode(error: unknown): number | null {
  const code = (error as { readonly errcode?: unknown } | null)?.errcode;
  return typeof code === 'number' ? code & 0xff : null;
}

/** The file's content is not what SQLite wrote. */
export function isDamage(error: unknown): boolean {
  const code = resultCode(error);
  return code === SQLITE_CORRUPT || code === SQLITE_NOTADB;
}

/** Another process has it. */
export function isBusy(error: unknown): boolean {
  return resultCode(error) === SQLITE_BUSY;
}
